"""What cannot be reconciled says so before anything is asked of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.contracts.errors import NotFoundError, SettingsError, TidegateError, Unavailable
from tidegate.spark_jobs.reconcile.compare import reconcile_stream
from tidegate.spark_jobs.settings import SinkSettings


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({}, NotFoundError, r"^lake\.a\.b does not exist in .*; enforce the contract first$"),
        (
            {"catalog_properties": {"type": "hadoop", "warehouse": "file:///nowhere"}},
            SettingsError,
            r"^TIDEGATE_CATALOG_PROPERTIES has type=hadoop, which PyIceberg cannot open: ",
        ),
        (
            {"catalog_properties": {"type": "rest", "uri": "http://user:secret@127.0.0.1:9"}},
            Unavailable,
            r"^the Iceberg catalog or its store does not answer: ConnectionError$",
        ),
        ({"sink": "delta"}, NotFoundError, "has no ledger: no stream has claimed it"),
    ],
)
def test_a_table_that_is_not_there(
    tmp_path: Path, changes: dict[str, object], kind: type[TidegateError], message: str
) -> None:
    settings = SinkSettings(bootstrap_servers="127.0.0.1:9", warehouse=tmp_path).model_copy(update=changes)
    with pytest.raises(kind, match=message):
        reconcile_stream(settings, "a.b")
