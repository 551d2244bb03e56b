"""Infer contracts from profiles of records. The entry point is `infer.py`."""
