"""Compatibility with evidence: whether every record that one contract accepts passes another, and if not, which does not."""
