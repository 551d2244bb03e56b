"""The Structured Streaming job that enforces contracts."""
