"""Tables in an object store: the job and `reconcile` against a server that speaks S3."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.enforce.job import Publish, RunningJob
from tests.integration.enforce.line import Line, environment, row
from tests.integration.enforce.registry import Registry
from tests.object_store import object_store
from tidegate.gateway.embedded.jars import Jars, ensure_s3_jars

pytestmark = pytest.mark.full


def is_upload_of_rows(environment: dict[str, Any]) -> bool:
    """Whether a worker sends a part of a data file."""
    return environment["REQUEST_METHOD"] == "PUT" and environment["PATH_INFO"].endswith(".parquet")


def test_a_table_in_s3_survives_an_outage_of_its_store_and_is_reconciled(
    make_line: Callable[..., Line], registry: Registry, publish: Publish, jars: Jars, tmp_path: Path
) -> None:
    with object_store() as store:
        properties = store.catalog(f"jdbc:sqlite:{tmp_path}/catalog.db")
        line = make_line(catalog_properties=properties)
        env = {
            **environment(line, jars, registry.url),
            "TIDEGATE_CATALOG_PROPERTIES": json.dumps(properties),
            "TIDEGATE_SPARK_EXTRA_JARS": str(ensure_s3_jars()),
            "TIDEGATE_ORPHAN_AGE_SECONDS": "0",
            "TIDEGATE_MAINTENANCE_SECONDS": "1",
        }
        publish(line.document())
        line.produce(*(row(n, 999 if n == 3 else 1) for n in range(8)))
        job = RunningJob([line.contract_id], env)
        try:
            job.await_event("batch_published", written=7, quarantined=1)
            store.fails = is_upload_of_rows
            line.produce(*(row(10 + n) for n in range(4)))
            told = job.await_event("stream_restarting")
            assert told["error"].startswith("a worker could not write its part of the batch: ")
            store.fails = lambda _: False
            job.await_event("batch_published", written=4)
        finally:
            job.end()
        assert store.failed
        again = RunningJob([line.contract_id, "--available-now"], env)
        try:
            assert again.exit_code() == 0, "".join(again.lines)
        finally:
            again.end()
        found = line.reconcile()
        assert (found.holds, found.written, found.quarantined) == (True, 11, 1)
        assert all(key.startswith("tables/") for key in store.objects())
