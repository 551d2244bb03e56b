"""Tables of other catalogs than the embedded one: Spark writes them, PyIceberg reconciles them, by the same properties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.enforce.line import Line, row
from tests.rest_catalog.server import rest_catalog
from tidegate.contracts.errors import NotFoundError
from tidegate.gateway.embedded.jars import Jars
from tidegate.gateway.embedded.java import Java
from tidegate.spark_jobs.session import CATALOG, catalog_options
from tidegate.spark_jobs.settings import SinkSettings
from tidegate.spark_jobs.sinks.iceberg import kind as iceberg
from tidegate.spark_jobs.sinks.iceberg.catalogs import open_table
from tidegate.spark_jobs.sinks.iceberg.table import table_name


@pytest.fixture(params=["jdbc", pytest.param("rest", marks=pytest.mark.full)])
def catalog(
    request: pytest.FixtureRequest, tmp_path: Path, java: Java, jars: Jars
) -> Iterator[dict[str, str]]:
    """The properties of a catalog of its own: a REST server, or another database."""
    if request.param == "jdbc":
        yield {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{tmp_path}/other.db",
            "jdbc.schema-version": "V1",
            "warehouse": f"file://{tmp_path}/other",
        }
    else:
        with rest_catalog(tmp_path, java, jars) as address:
            yield {"type": "rest", "uri": address}


def session_of(spark: SparkSession, settings: SinkSettings) -> SparkSession:
    """Return a session that has the catalog of these settings instead of the shared one's."""
    session = spark.newSession()
    for name in session.conf.getAll:
        if name.startswith(f"spark.sql.catalog.{CATALOG}"):
            session.conf.unset(name)
    for name, value in catalog_options(settings).items():
        session.conf.set(name, value)
    return session


def test_a_table_of_another_catalog_is_reconciled(
    make_line: Callable[..., Line],
    spark: SparkSession,
    catalog: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its files are read in several turns."""
    monkeypatch.setattr(iceberg, "_ROWS_PER_GROUP", 2)
    line = make_line(catalog_properties=catalog, max_offsets=2)
    with pytest.raises(NotFoundError, match="does not exist in the catalog of TIDEGATE_CATALOG_PROPERTIES"):
        line.reconcile()
    line.spark = session_of(spark, line.settings)
    line.produce(*(row(n, 999 if n == 3 else 1) for n in range(8)))
    line.enforce()
    found = line.reconcile()
    assert (found.holds, found.written, found.quarantined) == (True, 7, 1)
    with pytest.raises(NotFoundError):
        open_table(line.settings.model_copy(update={"catalog_properties": {}}), line.contract_id)
    table = table_name(line.contract_id)
    taken = "_source.partition = 0 AND _source.offset = 2"
    line.spark.sql(f"DELETE FROM {table} WHERE {taken}")  # noqa: S608 - both are our own
    rows = line.spark.table(table)
    rows.where("_source.partition = 1 AND _source.offset = 0").writeTo(table).append()
    found = line.reconcile()
    assert (found.holds, found.unaccounted, found.written_twice) == (False, {(0, 2)}, {(1, 0)})
