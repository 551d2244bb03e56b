"""The tables of migration 0022, by subject. They never change: a later migration changes tables."""
