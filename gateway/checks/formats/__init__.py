"""The formats in which `tidegate check` writes its report: one module each, listed in `registry`."""
