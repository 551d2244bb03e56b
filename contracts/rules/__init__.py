"""Rules: checks of the meaning of records."""
