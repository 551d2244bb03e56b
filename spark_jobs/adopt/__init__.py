"""Adoption: rebuild a lost ledger from what the outputs hold."""
