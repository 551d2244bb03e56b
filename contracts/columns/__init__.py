"""Typed columns of a contract, and what a table asks of them beyond their types."""
