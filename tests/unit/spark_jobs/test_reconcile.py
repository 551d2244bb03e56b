"""What cannot be reconciled says so before anything is asked of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import NotFoundError, SettingsError, TidegateError
from spark_jobs.reconcile import reconcile_stream
from spark_jobs.settings import SinkSettings


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({}, NotFoundError, r"^lake\.a\.b does not exist in .*; enforce the contract first$"),
        (
            {"catalog_properties": {"type": "rest"}},
            SettingsError,
            r"Only tables of the embedded catalog are reconciled, not those of TIDEGATE_CATALOG_PROPERTIES$",
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
