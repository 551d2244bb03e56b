"""Check a contract for its author: it compiles, and its names are known."""
