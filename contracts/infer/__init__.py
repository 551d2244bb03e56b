"""Profiles of records, and the contracts that they suggest. Start with `infer.py`."""
