"""The judge: compiled contract versions, and the verdicts on records."""
