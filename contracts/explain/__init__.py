"""Sentences that explain why a record was refused, by its rules, schema and payload."""
