"""The catalog of the Iceberg tables in PyIceberg: the same catalog as Spark's, from the same properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from pyiceberg.table import Table
from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError

from tidegate.contracts.errors import NotFoundError, SettingsError, Unavailable
from tidegate.spark_jobs.session import CATALOG, catalog_properties
from tidegate.spark_jobs.settings import SinkSettings
from tidegate.spark_jobs.sinks.iceberg.table import table_name

_SETTING: Final = "TIDEGATE_CATALOG_PROPERTIES"
_TYPES: Final = ("rest", "hive", "glue")
"""Catalog types with the same name and the same properties in Spark and in PyIceberg."""
_SQLITE: Final = "sqlite:///"
_OF_TLS: Final = ("sslmode", "sslrootcert")
_REFUSED: Final = (AuthorizationExpiredError, ForbiddenError, OAuthError, UnauthorizedError)


def open_table(settings: SinkSettings, contract_id: str) -> Table:
    """Load the current state of a contract's table.

    Raises NotFoundError if it does not exist, SettingsError for a catalog that PyIceberg cannot open or that refuses
    access, Unavailable.
    """
    properties = for_pyiceberg(catalog_properties(settings))
    where = f"the catalog of {_SETTING}" if settings.catalog_properties else str(settings.warehouse)
    missing = NotFoundError(
        f"{table_name(contract_id)} does not exist in {where}; enforce the contract first"
    )
    address = properties.get("uri", "")
    if address.startswith(_SQLITE) and not Path(address.removeprefix(_SQLITE)).is_file():
        raise missing  # SQLite would create the file
    with outages():
        try:
            return _open_catalog(properties).load_table(tuple(table_name(contract_id).split(".")[1:]))
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise missing from error


@contextmanager
def outages() -> Iterator[None]:
    """Convert errors of a catalog or a store: Unavailable if it does not answer, SettingsError if it refuses access."""
    try:
        yield
    except _REFUSED as error:
        raise SettingsError(
            f"the Iceberg catalog refuses what {_SETTING} holds: {type(error).__name__}"
        ) from error
    except (RESTError, SQLAlchemyError, OSError) as error:
        # Complete messages may quote a URL with a password.
        raise Unavailable(
            f"the Iceberg catalog or its store does not answer: {type(error).__name__}"
        ) from error


def for_pyiceberg(properties: Mapping[str, str]) -> dict[str, str]:
    """Convert Spark's catalog properties to PyIceberg's. Raises SettingsError for a catalog that only Java can open."""
    kind = properties.get("type", "hive").lower()  # Spark's default is hive
    if "catalog-impl" in properties or kind not in (*_TYPES, "jdbc"):
        named = "catalog-impl" if "catalog-impl" in properties else f"type={kind}"
        raise SettingsError(
            f"{_SETTING} has {named}, which PyIceberg cannot open: only catalogs of type {', '.join(_TYPES)} and jdbc are "
            "reconciled. Where the catalog speaks Iceberg's REST protocol too, say type=rest to reconcile"
        )
    if kind != "jdbc":
        return {**properties, "type": kind}
    url = _sqlalchemy_url(properties)
    # A reader must not create tables in a database.
    connection = {
        "type": "sql",
        "uri": url.render_as_string(hide_password=False),
        "init_catalog_tables": "false",
    }
    return {**properties, **connection}


def _open_catalog(properties: Mapping[str, str]) -> Catalog:
    try:
        return load_catalog(CATALOG, **properties)
    except NotInstalledError as error:
        raise SettingsError(f"{_SETTING}: {error}") from error
    except (ValueError, NoSuchPropertyException) as error:
        raise SettingsError(f"{_SETTING} is not enough for PyIceberg: {error}") from error


def _sqlalchemy_url(properties: Mapping[str, str]) -> URL:
    """Return a database URL for SQLAlchemy. Source: the JDBC drivers of SQLite and PostgreSQL."""
    given = properties.get("uri", "")
    if given.startswith("jdbc:sqlite:"):
        return URL.create("sqlite", database=given.removeprefix("jdbc:sqlite:").removeprefix("file:"))
    if not given.startswith("jdbc:postgresql://"):
        raise SettingsError(
            f"{_SETTING}: of JDBC catalogs only those in PostgreSQL and SQLite are reconciled; uri begins with "
            "jdbc:postgresql:// or jdbc:sqlite:"
        )
    parts = urlsplit(given.removeprefix("jdbc:"))
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return URL.create(
        "postgresql+psycopg",
        username=properties.get("jdbc.user", options.get("user")),
        password=properties.get("jdbc.password", options.get("password")),
        host=parts.hostname,
        port=parts.port,
        database=unquote(parts.path.lstrip("/")) or None,
        query={name: options[name] for name in _OF_TLS if name in options},
    )
