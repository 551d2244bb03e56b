"""Check a contract for its author: whether it compiles, and whether its names are known."""
