"""Reconciliation: compare the ledger with what topics and tables hold."""
