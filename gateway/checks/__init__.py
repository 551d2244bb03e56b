"""Checks of contract changes before a merge: baselines, comparisons, and reports in several formats."""
