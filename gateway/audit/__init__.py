"""The log of changes: who did what to which subject, as a chain of hashes."""
