"""Compatibility with evidence: does every record that one contract accepts pass another, and if not, which one does not?"""
