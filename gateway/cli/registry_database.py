"""The registry's database, for verbs that use it directly, without a running registry."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

import typer

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.storage.database import Database

DatabaseUrl = Annotated[
    str,
    typer.Option(
        envvar="TIDEGATE_DATABASE_URL", help="Database of the registry, the same as for `tidegate serve`."
    ),
]
DEFAULT_URL = "sqlite:///tidegate.db"


@contextmanager
def registry_database(url: str, *, must_exist: bool = True) -> Iterator[Database]:
    """Open the database and bring its tables up to date. Without `must_exist`, make what is missing.

    Raises NotFoundError for a database without a registry, SettingsError, Unavailable.
    """
    with closing(Database(url, must_exist=must_exist)) as database:
        if must_exist:
            database.require_registry()
        database.migrate()
        yield database


def operator() -> str:
    """Return the name of the current user for the audit log. A user who can open the database needs no key."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError) as error:
        raise SettingsError("this user has no name for the audit log: set LOGNAME") from error
