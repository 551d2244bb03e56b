"""Sentences that explain a refused record: its rules, its schema, its payload."""
