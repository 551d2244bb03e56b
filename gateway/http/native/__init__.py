"""The native HTTP API of the registry, under /api/v1."""
