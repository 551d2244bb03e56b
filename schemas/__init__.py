"""Published meta-schemas and example contracts, as package data."""
