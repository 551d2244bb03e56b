"""Privacy: classes of fields, values that a reader may see, and masks for outputs."""
