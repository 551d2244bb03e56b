"""Clients of the registry, for the command line and for local runs."""
