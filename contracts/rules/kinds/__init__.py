"""Rule kinds: one module each, and the registry that every other part asks."""
