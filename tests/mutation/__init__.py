"""Mutants of the modules that implement exactly-once, and the tests that must detect them."""
