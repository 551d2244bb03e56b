"""Storage of the registry: tables, queries and migrations, with no business logic."""
