"""The registry, the quarantine pages, the command line and the embedded runtime."""
