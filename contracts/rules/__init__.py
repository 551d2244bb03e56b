"""Rules: the meaning of a record, field by field."""
