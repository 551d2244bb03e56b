"""Measure how many corrupted records a contract would miss, and suggest rules. The entry point is `measure.py`."""
