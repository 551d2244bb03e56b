"""Values on their way into PostgreSQL: every type, and every character that COPY has a meaning for."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.integration.postgresql.staging import Record, claimed, plan_of, publish, stage, stage_at
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.spark_jobs.sinks.postgresql.rows import CopyTarget, connect
from tidegate.spark_jobs.sinks.postgresql.table import PostgresqlTable

FIELDS: dict[str, Any] = {
    "flag": {"type": "boolean"},
    "small": {"type": "integer"},
    "big": {"type": "integer"},
    "near": {"type": "number"},
    "far": {"type": "number"},
    "charge": {"type": "number"},
    "text": {"type": "string"},
    "day": {"type": "string", "format": "date"},
    "at": {"type": "string", "format": "date-time"},
    "local": {"type": "string"},
    "tags": {"type": "array"},
}
COLUMNS = [
    {"name": name, "from": f"/{name}", "type": type_name}
    for name, type_name in {
        "flag": "boolean", "small": "int", "big": "long", "near": "float", "far": "double", "charge": "decimal(12,2)",
        "text": "string", "day": "date", "at": "timestamp", "local": "timestamp_ntz", "tags": "json",
    }.items()
]  # fmt: skip


def every_type(**changes: object) -> Any:
    definition = {"type": "object", "properties": FIELDS}
    return plan_of(schema={"type": "json-schema", "definition": definition}, columns=COLUMNS, **changes)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()  # type: ignore[arg-type] # our own literals


def test_every_column_type_comes_back_as_it_was(url: str, make_table: Callable[[], PostgresqlTable]) -> None:
    table, plan = make_table(), every_type()
    full = {
        "flag": True, "small": -(2**31), "big": 2**63 - 1, "near": 0.1, "far": 5e-324, "charge": -1234567890.12,
        "text": "é", "day": "0001-01-01", "at": "2024-02-29T23:30:00.123456+01:00", "local": "1969-12-31T23:59:59.5",
        "tags": ["x", {"y": None}],
    }  # fmt: skip
    publish(table, plan, claimed(table, plan), [Record(full, 0), Record({}, 1)])
    names = ", ".join(FIELDS)
    found, empty = rows(url, f"SELECT {names} FROM hospital.admissions ORDER BY _source_offset")  # noqa: S608 - ours
    assert found == (
        True, -(2**31), 2**63 - 1, pytest.approx(0.1), 5e-324, Decimal("-1234567890.12"), "é", date(1, 1, 1),
        datetime(2024, 2, 29, 22, 30, 0, 123456, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 500000),  # noqa: DTZ001 - a time without a zone
        '["x",{"y":null}]',
    )  # fmt: skip
    assert empty == (None,) * len(FIELDS)


@pytest.mark.parametrize(
    "text", ["", "\\N", "\\.", "a\tb", "a\nb\n\\.\nc", "\r\n", "\\", "\\\\x00", '"', "NULL", "\x01\x1f", "😀"]
)
def test_no_character_means_anything_to_copy(
    url: str, make_table: Callable[[], PostgresqlTable], text: str
) -> None:
    table, plan = make_table(), plan_of()
    publish(
        table,
        plan,
        claimed(table, plan),
        [Record({"id": text, "ward": "after"}, 0), Record({"id": "next"}, 1)],
    )
    assert rows(url, "SELECT id, ward FROM hospital.admissions ORDER BY _source_offset") == [
        (text, "after"), ("next", None),
    ]  # fmt: skip


def test_bytes_come_back_as_they_were(url: str, make_table: Callable[[], PostgresqlTable]) -> None:
    schema = {
        "type": "avro",
        "definition": {"type": "record", "name": "R", "fields": [{"name": "b", "type": "bytes"}]},
    }
    table, plan = make_table(), plan_of(schema=schema)
    held = claimed(table, plan)
    import pyarrow as pa  # noqa: PLC0415 - for this one

    values = pa.array([b"\x06\x00\xff\\"], pa.binary())
    batch = pa.RecordBatch.from_pydict(
        {"partition": pa.array([0], pa.int32()), "offset": pa.array([0], pa.int64()),
         "timestamp": pa.array([0], pa.timestamp("us", "UTC")), "key": pa.array([None], pa.binary()), "value": values}
    )  # fmt: skip
    with table.target(plan, "c", "tidegate-1").open("0") as part:
        part.write(plan.judge_typed(values).field(2), batch, None)
    assert table.publish(table.stage(part.written), held, held.model_copy(update={"n": 1}))
    assert rows(url, "SELECT b FROM hospital.admissions") == [(b"\x00\xff\\",)]


def test_what_no_text_of_postgresql_holds_is_kept_out_and_the_rest_is_written(
    url: str, make_table: Callable[[], PostgresqlTable]
) -> None:
    table, plan = make_table(), plan_of()
    held = claimed(table, plan)
    names = stage(table, plan, [Record({"id": "a"}, 3), Record({"id": "a\0b"}, 4), Record({"id": "c"}, 5)])
    assert table.publish(table.stage(names), held, held.model_copy(update={"n": 1}))
    assert rows(url, "SELECT id, _source_offset FROM hospital.admissions ORDER BY 2") == [("a", 3), ("c", 5)]


def test_the_longest_primary_key_that_is_let_in_fits_into_the_index(
    url: str, make_table: Callable[..., PostgresqlTable]
) -> None:
    """Random, so that the server cannot compress it."""
    table, plan = make_table(write_mode="upsert"), plan_of(primary_key=["id", "ward"])
    longest = {"id": os.urandom(1000).hex(), "ward": os.urandom(300).hex()}
    held = claimed(table, plan)
    names = stage(table, plan, [Record(longest, 0), Record({**longest, "id": longest["id"] + "x"}, 1)])
    new = held.model_copy(update={"n": 1, "totals": BatchTotals(written=1)})
    assert table.publish(table.stage(names), held, new)
    assert rows(url, "SELECT id, ward FROM hospital.admissions") == [(longest["id"], longest["ward"])]


def test_a_server_that_does_not_answer_is_no_mistake_of_the_worker(
    make_table: Callable[[], PostgresqlTable],
) -> None:
    plan = plan_of()
    away = CopyTarget("postgresql://127.0.0.1:1/none", "x", plan.columns, "adm", "c")
    names = stage_at(away, plan, [Record({"id": "a"}, 0)])
    with pytest.raises(Unavailable, match="refused"):
        make_table().stage(names)


def test_a_server_that_is_gone_is_noticed_after_a_minute_or_as_the_url_says(url: str) -> None:
    names = ("keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout")

    def parameters(address: str) -> list[str | None]:
        with connect(address) as connection:
            found = connection.info.get_parameters()
        return [found.get(name) for name in names]

    assert parameters(url) == ["30", "10", "3", "60000"]
    mark = "&" if "?" in url else "?"
    assert parameters(f"{url}{mark}keepalives_idle=5&tcp_user_timeout=7000") == ["5", "10", "3", "7000"]


def test_a_task_without_rows_stages_nothing(make_table: Callable[[], PostgresqlTable]) -> None:
    table, plan = make_table(), plan_of()
    claimed(table, plan)
    assert stage(table, plan, []) == []
