"""Mutants of the modules that keep the promise, and the tests that must notice them."""
