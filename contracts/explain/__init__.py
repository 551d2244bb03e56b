"""Sentences for people about a refused record: its rules, its schema, its payload."""
