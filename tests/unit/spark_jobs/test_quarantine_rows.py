"""Rows of a quarantine table: what they keep of a refused record, which of them no longer count, and how stores write them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from tests.documents import contract_with
from tidegate.contracts.stream.evidence import (
    EventPointer,
    Headers,
    generation_header,
    judged_at_header,
    omitted_header,
    provenance_headers,
    quarantine_headers,
    read_provenance,
    timestamp_header,
)
from tidegate.contracts.stream.generations import Rewound
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.spark_jobs.sinks.iceberg.field_ids import field_ids, with_ids
from tidegate.spark_jobs.sinks.postgresql.rows import copy_text, sql_type
from tidegate.spark_jobs.sinks.quarantine_rows import COLUMNS, Outdated, QuarantineRows, RefusedRows

SOURCE = EventPointer("adm", 1, 40)
AGE = Violation(Stage.RULE, "age-is-known", "/age", Severity.ERROR, "is one of the forbidden values")


class Message:
    """A record as the client of Kafka gives it."""

    def __init__(self, value: bytes | None, headers: Headers, kind: int = TIMESTAMP_LOG_APPEND_TIME) -> None:
        self._value = value
        self._headers = list(headers)
        self._kind = kind

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Any:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return self._kind, 1_700_000_000_123

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 9


def rows_of(message: Any) -> list[dict[str, Any]]:
    found = read_provenance(message.headers())
    assert found is not None
    rows = RefusedRows()
    rows.add(message, found)
    columns, sources, contracts = rows.arrays()
    assert (contracts.to_pylist(), len(rows)) == (["adm@1.0.0"], 1)
    return [
        {**row, "source": source}
        for row, source in zip(columns.to_pylist(), sources.to_pylist(), strict=True)
    ]


def refusal(*more: tuple[str, bytes], violations: tuple[Violation, ...] = (AGE,)) -> Headers:
    verdict = Verdict(Disposition.QUARANTINED, violations)
    return [*quarantine_headers(SOURCE, "l", "adm@1.0.0", verdict), *more]


def test_a_row_keeps_the_bytes_the_reasons_and_both_positions() -> None:
    own: Headers = [("trace", b"\xff"), ("none", None), ("tidegate.generation", b"7")]
    ours = refusal(timestamp_header(5), *generation_header(2), *judged_at_header(1_700_000_000_000_001_999))
    (row,) = rows_of(Message(b"\xfe", [*own, *ours]))
    assert (row["key"], row["value"], row["is_omitted"]) == (b"k", b"\xfe", False)
    assert [(each["key"], each["value"]) for each in row["headers"]] == own
    assert row["reasons"] == [
        {
            "stage": "rule",
            "code": "age-is-known",
            "pointer": "/age",
            "severity": "error",
            "message": AGE.message,
        }
    ]
    assert (row["quarantine_partition"], row["quarantine_offset"], row["generation"]) == (3, 9, 2)
    assert (row["source"]["partition"], row["source"]["offset"]) == (1, 40)
    assert row["source"]["timestamp"].timestamp() == 0.005
    assert row["judged_at"].microsecond == 1
    assert row["quarantined_at"].timestamp() == 1_700_000_000.123


def test_what_a_row_does_not_know_is_null() -> None:
    """A topic that keeps the records' times, a record too large for it, and headers of a later format."""
    omitted = omitted_header(b"k", b"v", [])
    (row,) = rows_of(Message(None, refusal(omitted), TIMESTAMP_CREATE_TIME))
    assert (row["is_omitted"], row["headers"], row["quarantined_at"], row["judged_at"]) == (
        True,
        None,
        None,
        None,
    )
    unknown = [*provenance_headers(SOURCE, "l", "adm@1.0.0"), ("tidegate.format", b"99")]
    (row,) = rows_of(Message(b"v", unknown))
    assert (row["reasons"], row["reasons_left_out"], row["value"]) == (None, None, b"v")


def test_rows_that_no_longer_count_are_named_by_numbers_alone() -> None:
    assert not Outdated({}, {})
    found = Outdated({1: 7}, {0: (Rewound(4, 1), Rewound(9, 2))})
    assert found.condition("p", "o") == (
        "(quarantine_partition = 1 AND quarantine_offset < 7)"
        " OR (p = 0 AND o >= 4 AND generation < 1) OR (p = 0 AND o >= 9 AND generation < 2)"
    )


def test_each_refusal_is_a_row_whatever_identifies_an_accepted_one() -> None:
    contract = contract_with(
        {"type": "object", "properties": {"id": {"type": "string"}}}, primary_key=["id"], tombstones="delete"
    )
    rows = QuarantineRows.of(contract)
    assert (rows.contract.primary_key, rows.contract.tombstones, rows.columns) == ((), "pass", COLUMNS)
    assert rows.contract.topic == contract.topic


def test_postgresql_gets_lists_as_json() -> None:
    assert [sql_type(field.type) for field in COLUMNS if pa.types.is_list(field.type)] == ["jsonb", "jsonb"]
    headers = pa.array([[{"key": "a\0\\u0000\t", "value": b"\xff\n"}], None], COLUMNS.field("headers").type)
    first, second = bytes(copy_text(pa.RecordBatch.from_arrays([headers], ["headers"]))).decode().splitlines()
    assert second == "\\N"
    assert json.loads(first.replace("\\\\", "\\")) == [{"key": "a\ufffd\\u0000\t", "value": "/wo="}]


def test_iceberg_knows_the_members_of_lists_by_their_ids() -> None:
    """Readers find columns by their ids only, also those within lists."""
    struct = {
        "type": "struct",
        "fields": [
            {"id": 4, "name": "key", "type": "string"},
            {"id": 5, "name": "value", "type": "binary"},
        ],
    }
    listed = {"type": "list", "element-id": 3, "element": struct}
    ids = field_ids({"fields": [{"id": 2, "name": "headers", "type": listed}]})
    field = with_ids(COLUMNS.field("headers"), ids["headers"], ids)
    element = field.type.value_field
    found = [field, element, *element.type]
    assert [int(each.metadata[b"PARQUET:field_id"]) for each in found] == [2, 3, 4, 5]
    assert [each.name for each in found] == ["headers", "element", "key", "value"]
