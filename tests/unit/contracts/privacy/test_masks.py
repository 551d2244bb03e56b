"""What is written instead of masked fields: tokens, columns, JSON and Avro values."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import pickle
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import documents
from tests.marks import examples
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import ContractError, SettingsError, StreamStopped
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.privacy.masks import require_key
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.stream.masked_values import MaskedValues
from tidegate.contracts.verdict import Disposition

from .conftest import contract

KEY = MaskKey.of("0123456789abcdef0123456789abcdef")
FIELDS: dict[str, Any] = {
    "id": {"type": "string"},
    "patient": {"type": ["string", "null"]},
    "age": {"type": "integer"},
    "note": {"type": "string"},
    "address": {"type": "object", "properties": {"city": {"type": "string"}, "street": {"type": "string"}}},
    "lines": {
        "type": "array",
        "items": {"type": "object", "properties": {"who": {"type": "string"}, "n": {}}},
    },
}
MASK = {
    "/patient": "hash",
    "/age": "redact",
    "/note": "drop",
    "/address/street": "redact",
    "/lines/*/who": "hash",
}
RECORD = {
    "id": "A-1",
    "patient": "P-1",
    "age": 63,
    "note": "SECRET",
    "address": {"city": "Leeds", "street": "SECRET"},
    "lines": [{"who": "Ann", "n": 1}, {"who": "Bob"}],
}


def masked_plan(**changes: Any) -> EnforcementPlan:
    return compile_plan(contract({"properties": FIELDS}, **{"mask": MASK, **changes}), KEY)


def row_of(plan: EnforcementPlan, value: bytes) -> dict[str, Any] | None:
    (row,) = plan.judge_typed(pa.array([value], pa.large_binary())).field("columns").to_pylist()
    found: dict[str, Any] | None = row
    return found


def test_equal_values_have_equal_tokens_and_others_have_others() -> None:
    assert KEY.token(42) == KEY.token(42.0) == KEY.token(Decimal("42.00")) == KEY.token(Decimal("4.2e1"))
    assert KEY.token(0) == KEY.token(-0.0) == KEY.token(Decimal("0e5"))
    assert KEY.token(0.3) == KEY.token(Decimal("0.3")) != KEY.token(Decimal("0.30000000000000001"))
    assert KEY.token({"a": 1, "b": 2**70}) == KEY.token({"b": 2**70, "a": 1})
    apart = [
        42,
        420,
        -42,
        "42",
        True,
        "true",
        b"42",
        None,
        [42],
        {"a": 42},
        "",
        [],
        1,
        float("inf"),
        float("nan"),
    ]
    assert len({KEY.token(value) for value in apart}) == len(apart)
    other = MaskKey.of("fedcba9876543210fedcba9876543210")
    assert KEY.token("x") != other.token("x")
    assert KEY.token("x").partition(":")[0] == KEY.id != other.id


@given(
    st.one_of(
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.decimals(allow_nan=False, allow_infinity=False),
    )
)
def test_tokens_of_numbers_follow_their_value(number: float | Decimal) -> None:
    as_decimal = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    assert KEY.token(number) == KEY.token(as_decimal)


@given(
    st.one_of(
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.decimals(allow_nan=False, allow_infinity=False),
    )
)
def test_tokens_of_numbers_in_objects_and_arrays_follow_their_value(number: float | Decimal) -> None:
    as_decimal = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    sign, digits, exponent = as_decimal.as_tuple()
    longer = Decimal((sign, (*digits, 0), int(exponent) - 1))
    is_whole = as_decimal == as_decimal.to_integral_value() and as_decimal.adjusted() < 1_000
    for other in (as_decimal, longer, *([int(as_decimal)] if is_whole else [])):
        assert KEY.token({"a": [number, "x"]}) == KEY.token({"a": [other, "x"]}), other
    apart = [as_decimal, str(number), Decimal((1 - sign, (1, *digits), exponent)), None, True]
    assert len({KEY.token({"a": each}) for each in apart}) == len(apart)


def test_tokens_of_objects_with_plain_numbers_are_of_their_canonical_json() -> None:
    text = b'json:{"a":[42,0.5,1e-7],"b":{"c":true,"d":null}}'
    digest = hmac.new(KEY.secret, text, hashlib.sha256).hexdigest()
    for number in (42, 42.0, Decimal("42.00"), Decimal("4.2e1")):
        value = {"b": {"d": None, "c": True}, "a": [number, 0.5, Decimal("0.00000010")]}
        assert KEY.token(value) == f"{KEY.id}:{digest}"
    assert KEY.token([10**500]) == KEY.token([Decimal("1e500")]) != KEY.token([10**500 + 1])
    assert KEY.token([Decimal("1e999999")]) == KEY.token([Decimal("10e999998")])
    assert KEY.token([0.0]) == KEY.token([-0.0]) == KEY.token([0]) != KEY.token([False])


def test_a_key_says_nothing_of_itself() -> None:
    assert "0123456789abcdef" not in repr(KEY)
    assert len(KEY.token("x")) == 8 + 1 + 64
    with pytest.raises(SettingsError, match="at least 32"):
        MaskKey.of("short")


def test_the_token_is_that_of_other_tools() -> None:
    """As `printf text:P-1 | openssl dgst -sha256 -hmac KEY` prints it."""
    digest = "b0508b19a4e819ff85ed1d3aa10cff443867a09966c384a5e704aa0f0115cfdb"
    assert KEY.token("P-1") == f"{KEY.id}:{digest}"


@pytest.mark.parametrize(
    "value", [json.dumps(RECORD).encode(), json.dumps({**RECORD, "more": 2**70}).encode()]
)
def test_typed_columns_hold_what_the_masks_leave(value: bytes) -> None:
    """The quick way and the exact one, which a number beyond 64 bits takes."""
    plan = masked_plan()
    assert plan.columns.names == ["id", "patient", "age", "address", "lines"]
    assert row_of(plan, value) == {
        "id": "A-1",
        "patient": KEY.token("P-1"),
        "age": None,
        "address": '{"city":"Leeds","street":null}',
        "lines": json.dumps(
            [{"who": KEY.token("Ann"), "n": 1}, {"who": KEY.token("Bob")}], separators=(",", ":")
        ),
    }


def test_a_null_has_no_token() -> None:
    row = row_of(masked_plan(), b'{"patient": null}')
    assert row is not None
    assert row["patient"] is None


def test_masks_change_no_verdict() -> None:
    rules = [{"id": "age-is-known", "kind": "forbidden", "field": "/age", "values": [999]}]
    plans = [masked_plan(rules=rules), masked_plan(rules=rules, mask={})]
    for record in ({"age": 999}, {"age": "x"}, {"age": 2**70}, RECORD, []):
        value = json.dumps(record).encode()
        judged = [plan.judge(pa.array([value], pa.large_binary())).to_pylist() for plan in plans]
        assert judged[0] == judged[1]
    # Nothing of a masked field is kept, so that no column is too small for it.
    huge = json.dumps({"age": 2**70}).encode()
    assert plans[0].explain(huge, typed=True).disposition is Disposition.ACCEPTED
    assert plans[1].explain(huge, typed=True).disposition is Disposition.QUARANTINED


@pytest.mark.parametrize("type_name", ["string", "json"])
def test_a_mask_of_members_changes_no_verdict_of_a_column(type_name: str) -> None:
    schema = {"properties": {"a": {"type": ["string", "object"], "properties": {"b": {"type": "string"}}}}}
    columns = [{"name": "a", "from": "/a", "type": type_name}]
    plain, masked = (
        compile_plan(contract(schema, columns=columns, mask=mask)) for mask in ({}, {"/a/b": "redact"})
    )
    for value in (b'{"a": "x"}', b'{"a": {"b": "x"}}', b'{"a": {"b": "x", "c": 1}}', b'{"a": null}', b"{}"):
        for plan in (masked, documents.strict(masked)):
            expected = plain.explain(value, typed=True).disposition
            assert plan.explain(value, typed=True).disposition is expected
            assert plan.judge_typed(pa.array([value])).field("disposition").to_pylist() == [expected]
    assert row_of(masked, b'{"a": "x"}') == {"a": None}


def test_columns_that_are_declared() -> None:
    columns = [
        {"name": "patient", "from": "/patient", "type": "string"},
        {"name": "age", "from": "/age", "type": "string"},
        {"name": "second", "from": "/lines/1/who", "type": "string"},
        {"name": "address", "from": "/address", "type": "json"},
    ]
    plan = masked_plan(columns=columns, mask={"/patient": "hash", "/age": "hash", "/lines/*/who": "hash"})
    assert row_of(plan, json.dumps(RECORD).encode()) == {
        "patient": KEY.token("P-1"),
        "age": KEY.token(63),
        "second": KEY.token("Bob"),
        "address": '{"city":"Leeds","street":"SECRET"}',
    }


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"mask": {"/pateint": "hash"}}, "/mask/~1pateint", "the schema declares no field `/pateint`; did you mean `/patient`?"),
        ({"classification": {"/pateint": "pii"}}, "/classification/~1pateint", "the schema declares no field `/pateint`; did you mean `/patient`?"),
        ({"columns": [{"name": "a", "from": "/age", "type": "int"}], "mask": {"/age": "hash"}}, "/columns/0/type", "`/age` is hashed, and a token is text; give the column the type string"),
        ({"columns": [{"name": "a", "from": "/age", "type": "int"}], "mask": {"/age": "drop"}}, "/columns/0/from", "`/age` is dropped, and no column has it; remove the column, or write `mask: redact`"),
        ({"columns": [{"name": "c", "from": "/address/city", "type": "string"}], "mask": {"/address": "redact"}}, "/columns/0/from", "`/address` is masked as a whole, and nothing of it is written; mask its members instead"),
        ({"mask": {"/id": "redact"}, "primary_key": ["id"]}, "/primary_key/0", "column `id` is redacted, and rows without a value have no key; hash it instead"),
        ({"mask": {"/id": "drop"}, "primary_key": ["id"]}, "/primary_key/0", "no column is named `id`; use one of patient, age, note, address, lines"),
    ],
)  # fmt: skip
def test_what_a_mask_leaves_no_room_for_is_refused(changes: dict[str, Any], place: str, message: str) -> None:
    with pytest.raises(ContractError) as refused:
        masked_plan(**changes)
    assert [(problem.pointer, problem.message) for problem in refused.value.problems] == [(place, message)]


def test_a_hashed_key_column_is_a_key() -> None:
    plan = masked_plan(mask={"/id": "hash"}, primary_key=["id"])
    assert plan.columns.field("id").type == pa.string()


def test_without_the_key_records_are_judged_and_not_written() -> None:
    plan = compile_plan(contract({"properties": FIELDS}, mask={"/patient": "hash"}))
    value = json.dumps(RECORD).encode()
    assert plan.explain(value, typed=True).disposition is Disposition.ACCEPTED
    for attempt in (
        lambda: row_of(plan, value),
        lambda: MaskedValues(plan),
        lambda: require_key(plan.contract, None),
    ):
        with pytest.raises(
            SettingsError, match="hashes /patient, and there is no key for it: set TIDEGATE_MASK_KEY"
        ):
            attempt()
    require_key(contract({"properties": FIELDS}, mask={"/patient": "drop"}), None)


def test_a_plan_takes_its_key_along() -> None:
    plan = pickle.loads(pickle.dumps(masked_plan()))  # noqa: S301 - our own
    row = row_of(plan, json.dumps(RECORD).encode())
    assert row is not None
    assert row["patient"] == KEY.token("P-1")


def test_a_json_value_is_written_with_its_masks() -> None:
    masked = MaskedValues(masked_plan())
    value = b'{ "id":"A\\u002d1", "patient":"x", "patient":"P-1","age":6.3e1,"note":"SECRET","odd":0.30000000000000001 }'
    assert masked.value(value) == (
        b'{"id":"A-1","patient":"%s","age":null,"odd":0.30000000000000001}' % KEY.token("P-1").encode()
    )
    assert masked.value(None) is None
    assert masked.value(b"not json") == b"null"  # as a contract with on_violation alert has it written


def test_what_stands_where_masked_members_were_agreed_is_redacted() -> None:
    masked = MaskedValues(compile_plan(contract({"properties": {"a": {"properties": {"b": {}}}, "l": {"items": {"properties": {"b": {}}}}}}, mask={"/a/b": "hash", "/l/*/b": "drop"}), KEY))  # fmt: skip
    for record, expected in (
        ({"a": "SECRET"}, {"a": None}),
        ({"a": [{"b": "SECRET"}]}, {"a": None}),
        ({"l": ["SECRET", {"b": 1, "c": 2}, None]}, {"l": [None, {"c": 2}, None]}),
        ([{"a": {"b": 1}}], None),
    ):
        assert json.loads(masked.value(json.dumps(record).encode()) or b"") == expected


def test_a_prefix_stays_before_its_payload() -> None:
    masked = MaskedValues(masked_plan(framing="auto"))
    expected = b'{"patient":"%s"}' % KEY.token("P-1").encode()
    assert masked.value(b'\0\0\0\0\7{"patient": "P-1"}') == b"\0\0\0\0\7" + expected
    assert masked.value(b'{"patient": "P-1"}') == expected


def test_keys_are_masked_like_the_texts_that_they_are() -> None:
    hashed = MaskedValues(masked_plan(key_mask="hash"))
    assert hashed.key(b"P-1") == KEY.token("P-1").encode()
    assert hashed.key(b"\xff") == KEY.token(b"\xff").encode()
    assert hashed.key(None) is None
    assert MaskedValues(masked_plan(key_mask="redact")).key(b"P-1") is None
    assert MaskedValues(masked_plan()).key(b"P-1") == b"P-1"
    assert MaskedValues(masked_plan(mask={})).changes_nothing


ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [
        {"name": "city", "type": "string"},
        {"name": "street", "type": ["null", "string"]},
        {"name": "former", "type": {"type": "array", "items": "Address"}},
    ],
}
ADMISSION = {
    "type": "record",
    "name": "Admission",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "patient", "type": ["null", "long", "string"]},
        {"name": "age", "type": ["int", "null"]},
        {"name": "address", "type": ["null", ADDRESS]},
        {"name": "people", "type": {"type": "map", "values": {"type": "array", "items": ["string", "null"]}}},
        {"name": "score", "type": "double"},
    ],
}
AVRO_MASK = {
    "/patient": "hash",
    "/age": "redact",
    "/address/street": "drop",
    "/address/former/*/street": "hash",
    "/people/*/*": "hash",
}


def avro_plan(definition: Any = ADMISSION, **changes: Any) -> EnforcementPlan:
    document = {
        **contract({}).model_dump(by_alias=True, exclude_defaults=True),
        "schema": {"type": "avro", "definition": definition},
        "mask": AVRO_MASK,
        "columns": [{"name": "whole", "from": "/" + definition["fields"][-1]["name"], "type": "json"}],
        **changes,
    }
    return compile_plan(DataContract.model_validate(document), KEY)


def encoded(record: Any, definition: Any = ADMISSION) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(definition), record)
    return out.getvalue()


def former(depth: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    inner = former(depth - 1) if depth else st.just([])
    address = st.fixed_dictionaries(
        {"city": st.text(max_size=3), "street": st.none() | st.text(max_size=3), "former": inner}
    )
    return st.lists(address, max_size=2)


ADMISSIONS = st.fixed_dictionaries(
    {
        "id": st.text(max_size=3),
        "patient": st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3),
        "age": st.none() | st.integers(-(2**31), 2**31 - 1),
        "address": st.none()
        | st.fixed_dictionaries(
            {"city": st.text(max_size=3), "street": st.none() | st.text(max_size=3), "former": former(2)}
        ),
        "people": st.dictionaries(
            st.text(max_size=3), st.lists(st.none() | st.text(max_size=3), max_size=3), max_size=2
        ),
        "score": st.floats(allow_nan=False),
    }
)


@settings(max_examples=examples(150), deadline=None)
@given(ADMISSIONS)
def test_avro_values_are_masked_like_their_records(record: dict[str, Any]) -> None:
    plan = avro_plan()
    value = encoded(record)
    masked = MaskedValues(plan).value(value)
    expected = plan.masks.applied(plan.record_of(value))
    if expected["address"] is not None:
        expected["address"].setdefault("street", None)  # what Avro has for a field that is not there
    assert plan.record_of(masked) == expected
    assert plan.explain(masked).disposition is Disposition.ACCEPTED


def test_blocks_with_their_size_in_bytes_are_counted_again() -> None:
    definition = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "l", "type": {"type": "array", "items": "string"}}, {"name": "n", "type": "int"}],
    }
    plan = avro_plan(definition, mask={"/l/*": "hash"})
    blocks = (
        b"\x01\x04\x02a" + b"\x02\x02b" + b"\x00" + b"\x0e"
    )  # a block of -1 items in 2 bytes, one of 1 item
    masked = MaskedValues(plan).value(blocks)
    assert plan.record_of(masked) == {"l": [KEY.token("a"), KEY.token("b")], "n": 7}


def test_avro_bytes_outside_of_the_masks_are_copied() -> None:
    plan = avro_plan(mask={"/age": "redact"})
    record = {"id": "A-1", "patient": 1, "age": 63, "address": None, "people": {"a": ["x"]}, "score": 0.5}
    assert MaskedValues(plan).value(encoded(record)) == encoded({**record, "age": None})


def test_avro_that_cannot_be_read_is_not_passed_on() -> None:
    assert MaskedValues(avro_plan()).value(b"\xff\xff") == b""


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ({"/age": "hash"}, "`/age` is hashed, and a token is text, which its Avro type"),
        ({"/id": "redact"}, "`/id` is to be written as null, which its Avro type"),
        ({"/id": "drop"}, "`/id` is to be written as null, which its Avro type"),
        ({"/address/city": "drop"}, "`/address/city` is to be written as null"),
    ],
)
def test_an_avro_type_that_cannot_hold_what_a_mask_leaves_stops_the_stream_at_its_start(
    mask: dict[str, str], message: str
) -> None:
    plan = avro_plan(mask=mask)  # a table can hold it
    with pytest.raises(StreamStopped, match=message):
        MaskedValues(plan)
    MaskedValues(avro_plan(mask={"/id": "hash"}))


def test_records_of_an_older_schema_are_masked_by_the_names_of_the_contract() -> None:
    older = {
        "type": "record",
        "name": "Admission",
        "fields": [
            {"name": "score", "type": "float"},
            {"name": "person", "type": "string"},
            {"name": "gone", "type": "string"},
        ],
    }
    newer = {
        "type": "record",
        "name": "Admission",
        "fields": [
            {"name": "patient", "type": "string", "aliases": ["person"]},
            {"name": "score", "type": "double"},
        ],
    }
    plan = avro_plan(newer, mask={"/patient": "hash"}, framing="confluent-prefix")
    schemas = (WriterSchema(7, UUID(int=7), "avro", json.dumps(older)),)
    plan = plan.with_writers(WriterSchemas(schemas, is_current=True))
    value = b"\0\0\0\0\7" + encoded({"score": 0.5, "person": "P-1", "gone": "x"}, older)
    masked = MaskedValues(plan).value(value)
    assert masked is not None
    assert masked[:5] == value[:5]
    assert plan.record_of(masked) == {"patient": KEY.token("P-1"), "score": 0.5}
    assert fastavro.schemaless_reader(io.BytesIO(masked[5:]), fastavro.parse_schema(older), None) == {
        "score": 0.5,
        "person": KEY.token("P-1"),
        "gone": "x",
    }
