"""Masks of Avro values follow the resolution that the judge reads them with."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tests.property.avro_worlds import encoded
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.stream.masked_values import MaskedValues

from .conftest import contract

KEY = MaskKey.of("0123456789abcdef0123456789abcdef")
TEXT = ["null", "string"]


def record(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [each | {"default": None} for each in fields]}


def field(name: str, kind: Any = TEXT, *aliases: str) -> dict[str, Any]:
    return {"name": name, "type": kind} | ({"aliases": list(aliases)} if aliases else {})


def masked(
    reader: Any, mask: dict[str, str], written: Any, datum: Any, **changes: Any
) -> tuple[EnforcementPlan, bytes, Any]:
    """Return the plan, the masked value of a datum of the schema `written`, and its record."""
    document = {
        **contract({}).model_dump(by_alias=True, exclude_defaults=True),
        "schema": {"type": "avro", "definition": reader},
        "mask": mask,
        "framing": "confluent-prefix",
        **changes,
    }
    plan = compile_plan(DataContract.model_validate(document), KEY)
    schemas = (WriterSchema(7, UUID(int=7), "avro", json.dumps(written)),)
    plan = plan.with_writers(WriterSchemas(schemas, is_current=True))
    value = b"\0\0\0\0\7" + encoded(written, datum)
    found = MaskedValues(plan).value(value)
    assert found is not None
    expected = plan.masks.applied(plan.record_of(value))
    return plan, found, expected


@pytest.mark.parametrize("mask", ["redact", "hash"])
def test_a_written_field_is_masked_as_the_first_field_that_reads_it(mask: str) -> None:
    reader = record("R", field("email"), field("login", TEXT, "email"))
    plan, value, expected = masked(reader, {"/email": mask}, record("R", field("email")), {"email": "SECRET"})
    assert b"SECRET" not in value
    assert plan.record_of(value) == expected


def test_only_the_masks_of_the_field_that_reads_it_apply() -> None:
    reader = record("R", field("email"), field("login", TEXT, "email"))
    plan, value, expected = masked(reader, {"/login": "redact"}, record("R", field("email")), {"email": "x"})
    assert plan.record_of(value) == expected == {"email": "x", "login": None}


@pytest.mark.parametrize("is_own", [True, False])
def test_a_branch_is_masked_as_the_branch_of_the_same_full_name(is_own: bool) -> None:
    branches = ["null", record("a.P", field("x", TEXT, "y")), record("b.P", field("y"))]
    reader = record("R", field("u", branches))
    writer = reader if is_own else record("R", field("u", branches[:1] + branches[:0:-1]))
    plan, value, expected = masked(reader, {"/u/y": "redact"}, writer, {"u": ("b.P", {"y": "SECRET"})})
    assert b"SECRET" not in value
    assert plan.record_of(value) == expected == {"u": {"y": None}}


def test_a_list_in_the_place_of_a_record_with_masked_members_is_redacted() -> None:
    branches = ["null", record("P", field("y")), {"type": "array", "items": TEXT}]
    reader = record("R", field("u", branches))
    plan, value, expected = masked(reader, {"/u/y": "redact"}, reader, {"u": ["SECRET"]})
    assert b"SECRET" not in value
    assert plan.record_of(value) == expected == {"u": None}


@pytest.mark.parametrize(
    ("kind", "datum", "mask"),
    [
        ({"type": "array", "items": TEXT}, ["a", "b", None], "/u/1"),
        ({"type": "map", "values": TEXT}, {"a": "1", "b": "2", "*": "3"}, "/u/b"),
    ],
)
def test_other_members_than_the_masked_one_are_kept(kind: Any, datum: Any, mask: str) -> None:
    reader = record("R", field("u", ["null", kind]))
    plan, value, expected = masked(reader, {mask: "hash"}, reader, {"u": datum})
    assert plan.record_of(value) == expected != {"u": datum}


def test_a_token_is_that_of_the_value_that_is_read() -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}
    reader, written = (
        record("R", field("a", ["null", price, "string"])),
        record("R", field("a", ["null", "bytes", "string"])),
    )
    columns = [{"name": "a", "from": "/a", "type": "string"}]
    _, value, expected = masked(reader, {"/a": "hash"}, written, {"a": b"\x2a"}, columns=columns)
    assert expected == {"a": KEY.token(Decimal("4.2"))}
    assert expected["a"].encode() in value


@pytest.mark.parametrize(
    "payload",
    [
        b"\x04\x02x",  # branch 2 of 0 and 1
        b"\x01\x02x",  # branch -1
        b"\x02\x02x\0",  # a byte too many
    ],
)
def test_what_cannot_be_read_is_not_passed_on(payload: bytes) -> None:
    reader = record("R", field("a"))
    plan, _, _ = masked(reader, {"/a": "redact"}, reader, {"a": "x"})
    assert MaskedValues(plan).value(b"\0\0\0\0\7" + payload) == b"\0\0\0\0\7"


def test_a_branch_that_the_contract_cannot_read_need_not_hold_masked_values() -> None:
    reader = record("R", field("u", ["null", record("P", field("y"))]))
    written = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "u", "type": [record("P", field("y")), "string"]}],
    }
    plan, value, expected = masked(reader, {"/u/y": "redact"}, written, {"u": ("P", {"y": "SECRET"})})
    assert plan.record_of(value) == expected == {"u": {"y": None}}
    unreadable = b"\0\0\0\0\7" + encoded(written, {"u": "SECRET"})
    assert MaskedValues(plan).value(unreadable) == b"\0\0\0\0\7"
