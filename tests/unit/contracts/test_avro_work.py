"""Avro schemas of a few kilobytes whose values, defaults or checks would be exponential: steps are counted, never seconds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.steps import steps_of
from tidegate.contracts.document.model import AvroSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.fastpath.avro_reader import compile_quick_reader
from tidegate.contracts.formats.avro import AvroFormat
from tidegate.contracts.formats.avro_decoder import MalformedError
from tidegate.contracts.inclusion.avro.resolution import includes
from tidegate.contracts.verdict import Violation

MOST = 5_000
INT = {"name": "x", "type": "int"}


def record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def doubling(levels: int, *last: dict[str, Any], **default: Any) -> dict[str, Any]:
    """Return a record that contains the next one twice, and so on; `last` are the fields of the innermost."""
    made = record(f"R{levels}", *last)
    for level in range(levels - 1, -1, -1):
        first = {"name": "a", "type": made, **default}
        made = record(f"R{level}", first, {"name": "b", "type": f"R{level + 1}", **default})
    return made


def either(levels: int) -> list[dict[str, Any]]:
    """Return fields that declare records with unions of two records; the default of the last one fits no branch."""
    fields = []
    inner: Any = "int"
    value: Any = "no int"
    for level in range(levels):
        both = [record(f"{side}{level}", {"name": "f", "type": inner}) for side in "AB"]
        fields.append({"name": f"d{level}", "type": {"type": "array", "items": both}, "default": []})
        inner = [f"A{level}", f"B{level}"]
        value = {"f": value}
    return [*fields, {"name": "last", "type": inner, "default": value}]


def format_of(definition: Any) -> AvroFormat:
    return AvroFormat(AvroSchema(type="avro", definition=definition))


def refused(definition: Any) -> tuple[str, str]:
    """Return pointer and message of the only problem of a schema."""
    with pytest.raises(ContractError) as caught:
        format_of(definition)
    (problem,) = caught.value.problems
    return problem.pointer, problem.message


def test_a_record_of_two_to_the_power_of_forty_values_without_bytes_is_a_named_mistake() -> None:
    pointer, message = refused(record("Top", INT, {"name": "y", "type": doubling(40)}))
    assert pointer == "/schema/definition/fields/1/type"
    assert message == "record `R0` takes no bytes and has more than 1,000 values; remove some of its fields"
    assert steps_of(lambda: format_of({"type": "array", "items": doubling(40)}), MOST) > 0


def test_records_of_a_writer_with_such_a_schema_are_refused_unread() -> None:
    writer = json.dumps(record("Top", INT, {"name": "unread", "type": doubling(40)}))
    format_ = format_of(record("Top", INT))
    found: list[Any] = []
    assert steps_of(lambda: found.append(format_.written_with(writer).record(b"\x02")), MOST) > 0
    assert [each.code for each in found if isinstance(each, Violation)] == ["avro.unreadable"]


def test_an_array_has_at_most_a_thousand_values_without_bytes() -> None:
    pair = record("Pair", {"name": "a", "type": "null"}, {"name": "b", "type": "null"})
    format_ = format_of({"type": "array", "items": pair})
    most = format_.own.record(b"\x9a\x05\x00")
    assert most == [{"a": None, "b": None}] * (1_000 // 3)
    more = format_.own.record(b"\x9c\x05\x00")
    assert isinstance(more, Violation)
    assert more.code == "avro.too-many-items"


@pytest.mark.parametrize(
    ("schema", "begin"),
    [
        ({"type": "array", "items": {"type": "array", "items": "null"}}, b"\x04"),
        ({"type": "map", "values": {"type": "array", "items": "null"}}, b"\x04\x00"),
        (
            {
                "type": "array",
                "items": record("In", {"name": "n", "type": {"type": "array", "items": "null"}}),
            },
            b"\x04",
        ),
    ],
)
@pytest.mark.parametrize("fastpath", [True, False])
def test_one_of_many_arrays_has_at_most_sixteen_values_without_bytes(
    schema: Any, begin: bytes, fastpath: bool
) -> None:
    """Three bytes would otherwise become a list of 8 KB, as often as a record has three bytes."""
    own = format_of(schema).own
    read = compile_quick_reader(own.node) if fastpath else own.read
    assert read(begin + b"\x20\x00" + begin[1:2] * (len(begin) > 1) + b"\x02\x00\x00")
    with pytest.raises(MalformedError, match="too-many-items"):
        read(begin + b"\x22\x00" + begin[1:2] * (len(begin) > 1) + b"\x02\x00\x00")


def test_an_array_may_have_one_item_however_many_values_that_has() -> None:
    """A limit of 16 values must not refuse every array within an array of records with 17."""
    wide = record("Wide", *({"name": f"n{number}", "type": "null"} for number in range(20)))
    format_ = format_of({"type": "array", "items": {"type": "array", "items": wide}})
    assert format_.own.record(b"\x02\x02\x00\x00") == [[{f"n{number}": None for number in range(20)}]]


def long_chain(**default: Any) -> dict[str, Any]:
    """Return a record with 3,000 others, each of which has the one before as its field."""
    fields = [{"name": "f0", "type": {"type": "array", "items": record("R0", INT)}, "default": []}]
    for level in range(1, 3_000):
        inner = record(f"R{level}", {"name": "x", "type": f"R{level - 1}", **default})
        fields.append({"name": f"f{level}", "type": {"type": "array", "items": inner}, "default": []})
    return record("Top", *fields)


def test_a_long_chain_of_records_is_no_recursion_error() -> None:
    format_of(long_chain())
    pointer, message = refused(long_chain(default={}))
    assert pointer.startswith("/schema/definition/fields/1")
    assert message.startswith("the default has more than 1,000 values")


def test_a_default_of_two_to_the_power_of_forty_values_is_a_named_mistake() -> None:
    inner = doubling(40, {**INT, "default": 0}, default={})
    new = record("Top", INT, {"name": "y", "type": inner, "default": {}})
    message = "the default has more than 1,000 values, with those of the records in it"
    assert refused(new) == ("/schema/definition/fields/1", message)
    assert steps_of(lambda: includes(record("Top", INT), new), MOST) > 0


def test_a_default_that_contains_itself_is_a_named_mistake() -> None:
    pointer, message = refused(record("Top", {"name": "next", "type": "Top", "default": {}}))
    assert (pointer, message.split(",")[0]) == ("/schema/definition/fields/0", "the default has more than 1")


def test_a_default_is_compared_with_each_branch_once() -> None:
    new = record("Top", INT, *either(40))
    assert steps_of(lambda: includes(record("Top", INT), new), 50_000) > 0


def test_small_records_without_bytes_and_small_defaults_are_read() -> None:
    free = doubling(5)
    format_ = format_of(record("Top", INT, {"name": "y", "type": free, "default": {}}))
    found = format_.written_with(json.dumps(record("Top", INT))).record(b"\x02")
    assert isinstance(found, Violation)  # the default lacks fields that have none
    inner = doubling(5, {**INT, "default": 7}, default={})
    format_ = format_of(record("Top", INT, {"name": "y", "type": inner, "default": {}}))
    found = format_.written_with(json.dumps(record("Top", INT))).record(b"\x02")
    assert found["y"]["a"]["b"]["a"]["b"]["a"] == {"x": 7}


def test_items_that_cannot_be_read_are_named_also_if_they_take_no_bytes() -> None:
    reader = {"type": "array", "items": record("N1", INT)}
    writer = json.dumps({"type": "array", "items": record("N1")})
    found = format_of(reader).written_with(writer).record(b"\x04\x00")
    assert isinstance(found, Violation)
    assert (found.code, found.message) == ("avro.unreadable", "has no field `x`, which has no default")
