"""Masked Avro bytes are read as the masked record: masks follow the resolution of the judge, whatever the schemas."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tests.property.avro_worlds import data, encoded
from tests.property.test_avro_reading import parsed
from tidegate.contracts.document.model import Mask
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.avro_nodes import resolve
from tidegate.contracts.formats.avro_reader import ResolvedReader
from tidegate.contracts.formats.avro_types import parse
from tidegate.contracts.privacy.avro_masks import compile_avro_masks
from tidegate.contracts.privacy.masks import Masks
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.verdict import Violation

KEY = MaskKey.of("0123456789abcdef0123456789abcdef")
_NAMES = "abcd"
_TEXT = ["null", "string"]
_RECORDS = ("n.P", "m.P", "o.P", "n.Q", "m.Q", "o.R")


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Any, Any, dict[str, Mask]]:
    """A schema of a contract, the schema of a writer, and masks.

    Every field holds null and text, so that every mask can be written. Few names are used, so that aliases, and
    records of one name in two namespaces, meet.
    """
    names = list(draw(st.permutations(_RECORDS)))
    reader = draw(_records(names, 2))
    writer = reader if draw(st.integers(0, 3)) == 0 else draw(_written(reader))
    places = sorted(set(_places(reader)))
    chosen = draw(st.lists(st.sampled_from(places), min_size=1, max_size=2, unique=True))
    masks = {place: draw(st.sampled_from([Mask.HASH, Mask.REDACT])) for place in chosen}
    return reader, writer, masks


@st.composite
def _records(draw: st.DrawFn, names: list[str], depth: int) -> Any:
    name = names.pop()
    fields = []
    for each in draw(st.lists(st.sampled_from(_NAMES), min_size=1, unique=True)):
        field = {"name": each, "type": draw(_types(names, depth)), "default": None}
        alias = draw(st.sampled_from(_NAMES))
        fields.append(field | ({"aliases": [alias]} if alias != each and draw(st.booleans()) else {}))
    return {"type": "record", "name": name, "fields": fields}


@st.composite
def _types(draw: st.DrawFn, names: list[str], depth: int) -> Any:
    branches: list[Any] = list(_TEXT)
    if depth == 0:
        return branches
    branches += [draw(_records(names, depth - 1)) for _ in range(draw(st.integers(0, 2))) if names]
    if draw(st.integers(0, 2)) == 0:
        branches.append({"type": "array", "items": draw(_types(names, depth - 1))})
    elif draw(st.integers(0, 2)) == 0:
        branches.append({"type": "map", "values": draw(_types(names, depth - 1))})
    return branches


@st.composite
def _written(draw: st.DrawFn, kind: Any) -> Any:
    """The schema of an older producer: other order, fields by an alias, fields that are missing."""
    if isinstance(kind, list):
        return draw(st.permutations([draw(_written(each)) for each in kind]))
    if isinstance(kind, str):
        return kind
    if kind["type"] == "record":
        fields = {}
        for each in kind["fields"]:
            name = draw(st.sampled_from([each["name"], *each.get("aliases", ())]))
            fields[name] = {"name": name, "type": draw(_written(each["type"])), "default": None}
            if fields[name]["type"][0] != "null":
                del fields[name]["default"]
        kept = draw(st.permutations(list(fields.values())))[: draw(st.integers(1, len(fields)))]
        return {**kind, "fields": kept}
    inner = "items" if kind["type"] == "array" else "values"
    return {**kind, inner: draw(_written(kind[inner]))}


def _places(kind: Any, place: str = "") -> list[str]:
    """Return the pointers of everything below a type, with members and indexes of maps and arrays."""
    if isinstance(kind, list):
        return [each for branch in kind for each in _places(branch, place)]
    if isinstance(kind, str):
        return [place]
    if kind["type"] == "record":
        return [
            each for field in kind["fields"] for each in _places(field["type"], f"{place}/{field['name']}")
        ]
    inner, steps = ("items", ("*", "0")) if kind["type"] == "array" else ("values", ("*", "a"))
    return [each for step in steps for each in _places(kind[inner], f"{place}/{step}")]


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(worlds(), st.data())
def test_masked_bytes_are_read_as_the_masked_record(
    world: tuple[Any, Any, dict[str, Mask]], draw: st.DataObject
) -> None:
    reader, writer, by_pointer = world
    try:
        contract = parse(reader, is_strict=True)
        written = contract if writer is reader else parse(writer, is_strict=True)
    except ContractError:
        assume(condition=False)
    node, masks = resolve(written, contract), Masks(by_pointer, KEY)
    mask, read = compile_avro_masks(written, node, masks), ResolvedReader(node, written).record
    schema, named = parsed(writer)
    for _ in range(4):
        payload = encoded(schema, draw.draw(data(schema, named)))
        record = read(payload)
        if isinstance(record, Violation):
            continue
        masked = mask(payload)
        assert read(masked) == masks.applied(record)
        event("with a masked value" if masked != payload else "unchanged")
