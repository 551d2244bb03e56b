"""The properties of the Iceberg catalog of Spark, as PyIceberg takes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tidegate.contracts.errors import NotFoundError, SettingsError, Unavailable
from tidegate.spark_jobs.settings import SinkSettings
from tidegate.spark_jobs.sinks.iceberg.catalogs import for_pyiceberg, open_table


def settings(warehouse: Path, **properties: str) -> SinkSettings:
    return SinkSettings(bootstrap_servers="127.0.0.1:9", warehouse=warehouse, catalog_properties=properties)


def test_rest_hive_and_glue_have_the_same_properties() -> None:
    rest = {"type": "rest", "uri": "https://c", "warehouse": "w", "credential": "id:secret", "s3.region": "x"}
    assert for_pyiceberg(rest) == rest
    assert for_pyiceberg({"type": "glue", "glue.id": "1"}) == {"type": "glue", "glue.id": "1"}
    hive = {"uri": "thrift://h:9083"}
    assert for_pyiceberg(hive) == {"type": "hive", **hive}, "Spark takes a catalog without a type for Hive's"


@pytest.mark.parametrize(
    ("properties", "uri"),
    [
        ({"uri": "jdbc:sqlite:/a/b.db"}, "sqlite:////a/b.db"),
        ({"uri": "jdbc:sqlite:file:/a/b.db"}, "sqlite:////a/b.db"),
        ({"uri": "jdbc:postgresql://h:5433/lake"}, "postgresql+psycopg://h:5433/lake"),
        (
            {"uri": "jdbc:postgresql://h/lake", "jdbc.user": "u", "jdbc.password": "p@/:"},
            "postgresql+psycopg://u:p%40%2F%3A@h/lake",
        ),
        (
            {"uri": "jdbc:postgresql://h/lake?user=u&password=p&sslmode=verify-full&ApplicationName=x"},
            "postgresql+psycopg://u:p@h/lake?sslmode=verify-full",
        ),
    ],
)
def test_the_database_of_a_jdbc_catalog_has_another_address_and_no_table_is_made_there(
    properties: dict[str, str], uri: str
) -> None:
    told = for_pyiceberg({"type": "jdbc", "warehouse": "s3://w", **properties})
    assert (told["type"], told["uri"], told["warehouse"]) == ("sql", uri, "s3://w")
    assert told["init_catalog_tables"] == "false"


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"type": "hadoop"}, "has type=hadoop, which PyIceberg cannot open: only catalogs of type rest, hive, glue and jdbc"),
        ({"catalog-impl": "org.apache.iceberg.nessie.NessieCatalog"}, "has catalog-impl, .* say type=rest to reconcile"),
        ({"type": "jdbc", "uri": "jdbc:mysql://h/d"}, "only those in PostgreSQL and SQLite are reconciled"),
        ({"type": "rest"}, "is not enough for PyIceberg: URI missing"),
        ({"type": "hive", "uri": "thrift://127.0.0.1:9"}, r"pip install 'pyiceberg\[hive\]'"),
    ],
)  # fmt: skip
def test_what_cannot_be_opened_says_what_to_do(
    tmp_path: Path, properties: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        open_table(settings(tmp_path, **properties), "a.b")


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with pytest.raises(NotFoundError, match="does not exist in the catalog of TIDEGATE_CATALOG_PROPERTIES"):
        open_table(settings(tmp_path, type="jdbc", uri=f"jdbc:sqlite:{file}"), "a.b")
    assert not file.exists()
    file.touch()
    with pytest.raises(Unavailable, match="does not answer: OperationalError"):
        open_table(settings(tmp_path, type="jdbc", uri=f"jdbc:sqlite:{file}"), "a.b")
    assert file.stat().st_size == 0


@pytest.mark.parametrize("address", ["s3://bucket/lake", "hdfs://name:8020/lake", "file:///lake"])
def test_a_warehouse_is_a_folder_and_no_address(address: str) -> None:
    """As a path it would be a folder `s3:` of the working directory, in which the tables are lost."""
    with pytest.raises(ValidationError, match="name an object store in TIDEGATE_CATALOG_PROPERTIES"):
        SinkSettings.model_validate({"bootstrap_servers": "kafka:9092", "warehouse": address})
