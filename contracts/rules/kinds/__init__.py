"""Rule kinds: one module for each, and the registry through which all other parts use them."""
