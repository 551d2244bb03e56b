"""The types of columns that differ between the databases."""

from __future__ import annotations

import sqlalchemy as sa

# Of 64 bits; the key of SQLite must have the type INTEGER, which has as many.
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# A text that PostgreSQL orders by code point, as SQLite does.
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
