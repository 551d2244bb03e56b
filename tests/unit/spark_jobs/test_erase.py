"""Whose record a refused one is, and what the table has of a value, before anything is asked of a broker."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka import Message

from tests.unit.conftest import MakeContract
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.formats.writers import SCHEMA_HEADER, WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.stream.positions import Positions
from tidegate.spark_jobs.adopt.erase import PersonMatcher, Subject, chunked, texts_in_table
from tidegate.spark_jobs.kafka.outputs import OutputRecord
from tidegate.spark_jobs.sinks.record_keys import KeyFields, RecordKeys

KEY = MaskKey.of("k" * 32)
WRITER = WriterSchema(7, UUID(int=7), "json-schema", "true")


@pytest.fixture
def plan_of(make_contract: MakeContract) -> Any:
    def make(**changes: Any) -> EnforcementPlan:
        loaded = parse_contract(make_contract(**changes), name="a.json", read_schema=None)
        return compile_plan(loaded.contract, KEY)

    return make


def message(value: bytes | None, key: bytes | None = None, **options: Any) -> Message:
    return Message("a.quarantine", 0, 3, key, value, **options)


@pytest.mark.parametrize(
    ("field", "wanted", "value", "is_theirs"),
    [
        ("admission_id", "p7", b'{"admission_id": "p7", "age": 999}', True),
        ("/admission_id", "p7", b'{"admission_id": "p7"}', True),
        ("admission_id", "p7", b'{"admission_id": "p70", "note": "p7"}', False),
        ("admission_id", "7", b'{"admission_id": 7}', True),
        ("age", "41", b'{"age": 41}', True),
        ("age", "true", b'{"age": true}', True),
        ("age", "41", b'{"age": [41]}', False),
        ("admission_id", "p7", None, False),
    ],
)
def test_a_field_has_the_value(
    plan_of: Any, field: str, wanted: str, value: bytes | None, is_theirs: bool
) -> None:
    matches = PersonMatcher(plan_of(), Subject(wanted, field))
    assert matches(message(value, key=b"p7")) is is_theirs
    assert matches.unread == 0


def test_a_record_that_cannot_be_decoded_is_theirs_if_it_holds_the_value(plan_of: Any) -> None:
    matches = PersonMatcher(plan_of(), Subject("p7", "admission_id"))
    assert [matches(message(each)) for each in (b'{"admission_id": "p7"', b"p8", b"\xffp7")] == [
        True,
        False,
        True,
    ]
    assert matches.unread == 2


def test_a_key_is_compared_as_bytes(plan_of: Any) -> None:
    matches = PersonMatcher(plan_of(), Subject("p7"))
    assert [matches(message(b"p7", key=key)) for key in (b"p7", b"p70", None)] == [True, False, False]


def test_an_unknown_field_names_those_that_there_are(plan_of: Any) -> None:
    with pytest.raises(NotFoundError, match="it has admission_date, admission_id, age, discharge_date"):
        PersonMatcher(plan_of(), Subject("p7", "patient"))


def test_a_subject_in_a_log_does_not_name_the_person() -> None:
    assert "p7" not in repr(Subject("p7", "admission_id"))


def test_the_table_has_tokens_of_a_hashed_field(plan_of: Any) -> None:
    plan = plan_of(mask={"/admission_id": "hash"})
    column = next(each for each in plan.typed_columns if each.name == "admission_id")
    assert texts_in_table(plan, "p7", column) == (KEY.token("p7"),)
    assert texts_in_table(plan, "-7", column) == (KEY.token("-7"), KEY.token(-7))


def test_the_table_has_nothing_of_a_redacted_field(plan_of: Any) -> None:
    plan = plan_of(mask={"/admission_id": "redact"})
    column = next(each for each in plan.typed_columns if each.name == "admission_id")
    with pytest.raises(ConflictError, match="masked \\(redact\\); nothing was changed"):
        texts_in_table(plan, "p7", column)


@pytest.mark.parametrize("value", ["--7", "-", "\u0667", "7" * 5000])
def test_a_value_that_only_looks_like_a_number_has_one_token(plan_of: Any, value: str) -> None:
    plan = plan_of(mask={"/admission_id": "hash"})
    column = next(each for each in plan.typed_columns if each.name == "admission_id")
    assert texts_in_table(plan, value, column) == (KEY.token(value),)


@pytest.mark.parametrize("type_", ["json", "date", "double", "decimal(10,2)"])
def test_a_column_that_holds_values_in_another_form_is_refused(plan_of: Any, type_: str) -> None:
    """Its rows would be missed without a word: a column of type json has the text of a string with quotes."""
    field = {"json": "/admission_id", "date": "/admission_date"}.get(type_, "/age")
    plan = plan_of(columns=[{"name": "id", "from": field, "type": type_}])
    (column,) = plan.typed_columns
    with pytest.raises(ConflictError, match=r"in another form.*nothing was changed.*erase by --key"):
        texts_in_table(plan, "7", column)


def test_keys_of_records_that_name_their_schema_in_a_header(plan_of: Any) -> None:
    """A reconciliation of an upserted table judges source records for their keys."""
    plan = plan_of(framing="confluent-header", primary_key=["admission_id"])
    plan = plan.with_writers(WriterSchemas((WRITER,), is_current=True))
    key = KeyFields.of(plan)
    assert key is not None
    keys = RecordKeys(plan, key)
    value = b'{"admission_id": "p7", "age": 4}'
    keys.add(message(value, headers=[(SCHEMA_HEADER, WRITER.header)], timestamp=(1, 5)))
    found = keys.table(Positions())
    assert found.num_rows == 1
    assert found.column("key").null_count == 0
    assert isinstance(found, pa.Table)


def test_a_transaction_of_the_copy_is_bounded_by_records_and_by_bytes() -> None:
    """Keys and headers count too; a record above the bound is alone, and records without bytes are counted."""

    def sizes(records: list[OutputRecord]) -> list[int]:
        chunks = list(chunked(iter(records), 3, 10))
        assert [each for chunk in chunks for each in chunk] == records
        return [len(chunk) for chunk in chunks]

    def record(value: bytes | None, key: bytes | None = None, header: bytes | None = b"") -> OutputRecord:
        return "t", value, key, 0, 0, [("h", header)]

    assert sizes([]) == []
    assert sizes([record(b"")] * 7) == [3, 3, 1]
    assert sizes([record(None, None, None)] * 3) == [3]
    assert sizes([record(b"1234")] * 5) == [2, 2, 1]
    assert sizes([record(b"12", b"12")] * 3) == [2, 1]
    assert sizes([record(b"", None, b"1234")] * 3) == [2, 1]
    assert sizes([record(b"1" * 50)] * 2) == [1, 1]
