"""Alembic's environment: runs the migrations on the caller's connection, in its transaction."""

from __future__ import annotations

from alembic import context

from tidegate.gateway.storage.tables import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    transactional_ddl=True,
)
context.run_migrations()
