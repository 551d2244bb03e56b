"""Tables follow their contract: columns appear, types become wider, and what cannot follow stops with what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.integration.enforce.line import Line, Sent
from tests.marks import full
from tidegate.contracts.errors import StreamStopped
from tidegate.spark_jobs.steps import Step

NUMBERS: dict[str, Any] = {name: {"type": "number"} for name in ("count", "ratio", "charge")}
FIRST = {"count": "int", "ratio": "float", "charge": "decimal(6,2)"}
WIDER = {"count": "long", "ratio": "double", "charge": "decimal(12,2)", "note": "string"}
SMALL: dict[str, Any] = {"count": 2**31 - 1, "ratio": 0.5, "charge": 1234.56}
LARGE: dict[str, Any] = {"count": 2**53, "ratio": 1e300, "charge": 1234567890.12, "note": "seen"}


def evolve(line: Line, version: str, types: dict[str, str], **changes: object) -> None:
    """Give the line a contract version with these columns."""
    properties = {
        "id": {"type": "string"},
        **NUMBERS,
        **({"note": {"type": "string"}} if "note" in types else {}),
    }
    columns = [
        {"name": name, "from": f"/{name}", "type": kind} for name, kind in {"id": "string", **types}.items()
    ]
    definition = {"type": "object", "required": ["id"], "properties": properties}
    line.contracts.plan = line.plan(
        version=version,
        schema={"type": "json-schema", "definition": definition},
        columns=columns,
        rules=[],
        primary_key=["id"],
        **changes,
    )


def send(line: Line, key: str, values: dict[str, Any]) -> None:
    line.produce(Sent(json.dumps({"id": key, **values}).encode(), key.encode()))


@pytest.mark.parametrize(
    ("sink", "write_mode"),
    [
        ("iceberg", "append"),
        pytest.param("delta", "append", marks=pytest.mark.full),
        pytest.param("postgresql", "append", marks=pytest.mark.full),
        pytest.param("iceberg", "upsert", marks=pytest.mark.full),
        pytest.param("delta", "upsert", marks=pytest.mark.full),
        pytest.param("postgresql", "upsert", marks=pytest.mark.full),
    ],
)
def test_a_new_version_adds_a_column_and_widens_others_between_two_batches(
    make_line: Callable[..., Line], sink: str, write_mode: str
) -> None:
    line = make_line(sink=sink, write_mode=write_mode, partitions=1)
    evolve(line, "1.0.0", FIRST)
    send(line, "a", SMALL)
    send(line, "b", SMALL)

    def widen_after_first(_stream: str, step: Step) -> None:
        if step is Step.COMMITTED and not line.reports:
            evolve(line, "1.1.0", WIDER)
            send(line, "c", LARGE)

    line.enforce(widen_after_first, max_offsets=1)
    send(line, "a" if write_mode == "upsert" else "d", LARGE)
    line.enforce()
    small = {**SMALL, "charge": Decimal("1234.56"), "note": None}
    large = {**LARGE, "charge": Decimal("1234567890.12")}
    found = {each["id"]: {name: each[name] for name in WIDER} for each in line.rows()}
    appended = {"a": small, "b": small, "c": large, "d": large}
    merged = {"a": large, "b": small, "c": large}
    assert found == (merged if write_mode == "upsert" else appended)
    assert line.reconcile().holds
    assert [line.reports[index].contract[-5:] for index in (0, -1)] == ["1.0.0", "1.1.0"]


@pytest.mark.parametrize("sink", ["iceberg", *full("delta", "postgresql")])
@pytest.mark.parametrize("types", [{"charge": "double"}, *full({"count": "double"}, {"charge": "decimal(6,3)"}, {"ratio": "float"})])  # fmt: skip
def test_a_type_that_does_not_hold_what_is_there_stops_the_stream(
    make_line: Callable[..., Line], sink: str, types: dict[str, str]
) -> None:
    """And leaves the table as it is, so that the version before goes on."""
    line = make_line(sink=sink, partitions=1)
    evolve(line, "1.0.0", {**FIRST, "ratio": "double"})
    line.enforce()
    evolve(line, "2.0.0", {**FIRST, "ratio": "double", **types})
    (column,) = types
    with pytest.raises(
        StreamStopped, match=rf"column {column} is .*, the contract says .*, which does not hold every"
    ):
        line.enforce()
    evolve(line, "1.0.1", {**FIRST, "ratio": "double"})
    send(line, "a", SMALL)
    line.enforce()
    assert [each["count"] for each in line.rows()] == [SMALL["count"]]
    assert line.reconcile().holds
