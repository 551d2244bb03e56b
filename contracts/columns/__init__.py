"""Typed columns of a contract, and the limits of a table beyond their types."""
