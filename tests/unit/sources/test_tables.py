"""Tables of Delta, Iceberg and PostgreSQL as sources: real ones, written by their own libraries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import orjson
import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config

from tests.postgresql import Postgresql
from tidegate.contracts.columns.json_rows import json_rows
from tidegate.contracts.errors import NotFoundError, SettingsError, Unavailable
from tidegate.contracts.infer.infer import Inference
from tidegate.gateway.sources.open_source import SourceOptions, open_source

ROWS = pa.table(
    {
        "id": pa.array([f"A{index:04d}" for index in range(400)]),
        "age": pa.array([999 if index == 7 else index % 90 for index in range(400)], pa.int32()),
        "charge": pa.array([Decimal(index) / 4 for index in range(400)], pa.decimal128(9, 2)),
        "admitted": pa.array([dt.date(2024, 1, 1) + dt.timedelta(days=index % 300) for index in range(400)]),
        "sent": pa.array([dt.datetime(2024, 1, 1, index % 24, tzinfo=dt.UTC) for index in range(400)]),
    }
)
FIRST = {"id": "A0000", "age": 0, "charge": 0, "admitted": "2024-01-01", "sent": "2024-01-01T00:00:00Z"}


def rows_of(name: str) -> list[dict[str, object]]:
    found = []
    with open_source(name, SourceOptions()) as source:
        for chunk in source.chunks():
            is_json = chunk.batch.schema.names == ["value"]
            values = chunk.batch.column(0) if is_json else json_rows(chunk.batch, lambda _pointer: False)
            found += [orjson.loads(value) for value in values.to_pylist()]
        assert source.progress() == len(found)
    return found


@pytest.fixture
def iceberg(tmp_path: Path) -> Path:
    catalog = SqlCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("hospital")
    catalog.create_table("hospital.stays", ROWS.schema).append(ROWS)
    catalog.close()
    return next((tmp_path / "warehouse").rglob("metadata")).parent


@pytest.fixture
def stays_url(postgresql: Postgresql) -> Iterator[str]:
    with postgresql.database() as url:
        address = url.replace("+psycopg", "")
        with psycopg.connect(address) as connection:
            connection.execute("CREATE SCHEMA hospital")
            connection.execute(
                "CREATE TABLE hospital.\"Stays\" AS SELECT 'A' || lpad(i::text, 4, '0') AS id, i % 90 AS age, i / 4.0 AS charge, "
                "DATE '2024-01-01' + i % 300 AS admitted, TIMESTAMPTZ '2024-01-01T00:00:00Z' AS sent FROM generate_series(0, 399) i"
            )
        yield address


def test_a_delta_table_is_read_without_spark(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "stays", ROWS)
    found = rows_of(str(tmp_path / "stays"))
    assert (len(found), found[0]) == (400, FIRST)


def test_an_iceberg_table_is_read_from_its_folder(iceberg: Path) -> None:
    found = rows_of(str(iceberg))
    assert (len(found), found[0]) == (400, FIRST)


def test_an_iceberg_table_is_read_from_the_default_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = SqlCatalog(
        "default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("hospital")
    catalog.create_table("hospital.stays", ROWS.schema).append(ROWS)
    catalog.close()
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # as a new process reads it
    assert rows_of("iceberg:hospital.stays")[0] == FIRST
    with pytest.raises(
        SettingsError, match=r"the Iceberg table hospital\.none cannot be read: NoSuchTableError"
    ):
        rows_of("iceberg:hospital.none")


def test_a_table_has_typed_columns_and_rules(iceberg: Path) -> None:
    inference = Inference()
    with open_source(str(iceberg), SourceOptions()) as source:
        for chunk in source.chunks():
            inference.add(chunk.batch, chunk.positions)
    found = inference.finish("hospital.stays")
    assert found.definition["properties"]["admitted"] == {"type": "string", "format": "date"}
    assert found.definition["properties"]["sent"] == {"type": "string", "format": "date-time"}
    assert "age-is-known" in {each.code for each in found.rules}
    assert found.evaluation.unexpected.count == 0


def test_a_table_of_postgresql_is_read(stays_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRESQL_URL", stays_url)
    found = rows_of("postgresql:hospital.Stays")
    assert (len(found), found[0]) == (400, FIRST)
    with pytest.raises(NotFoundError, match=r"no table hospital\.nothing"):
        rows_of("postgresql:hospital.nothing")


def test_a_database_that_does_not_answer_is_an_outage_without_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRESQL_URL", "postgresql://me:secret@127.0.0.1:1/db")
    with pytest.raises(Unavailable) as raised:
        rows_of("postgresql:stays")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("name", ["nothing.jsonl", "postgresql:stays", "kafka:stays", "folder"])
def test_a_source_that_cannot_be_opened_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEGATE_POSTGRESQL_URL", raising=False)
    (tmp_path / "folder").mkdir()
    with pytest.raises(SettingsError):
        rows_of(name)
