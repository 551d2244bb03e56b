"""Access control: principals, their roles, and rate limits."""
