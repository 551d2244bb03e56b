"""Masking of refused records and of fixes: the values that a reader may not see, and the JSON without them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, assert_never

import fastavro
from pydantic import ValidationError

from tidegate.contracts.document.fields import objects_of, tokens
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.rule_model import Condition
from tidegate.contracts.fix.model import AnyStep, Cast, Date, Default, Drop, Fix, Map, Rename, Set, Trim
from tidegate.contracts.formats.framing import PREFIX_BYTES
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.privacy.classes import BODY, Visibility
from tidegate.contracts.suggestions import closest, suggestion_budget
from tidegate.contracts.verdict import Violation
from tidegate.gateway.streams.json_places import FoundPlaces, find, name_at

HIDDEN: Final = "▇▇▇▇"
"""Placeholder of a hidden value; its length says nothing about the value."""
_UNREADABLE = "the record cannot be read, and the contract classifies fields"
_MASKED_UNKNOWN = "the contract of this record is not known, so nothing tells which fields are personal"
_UNDECLARED = "not declared in the contract"
_ALIKE = 0.8
"""Least similarity of an undeclared name to a declared one that counts as a misspelling."""
_MOST_BYTES = 1_000_000
"""Larger payloads of Avro are not decoded."""


@dataclass(frozen=True, slots=True)
class HiddenBytes:
    """Bytes that never leave the server; `reason` is shown instead. With `has_name` they start with a name."""

    start: int
    end: int
    reason: str
    has_name: bool = False


def masked_json(
    data: bytes, contract: DataContract | None, visibility: Visibility
) -> tuple[bytes, frozenset[str]]:
    """Return a JSON text (any bytes) with HIDDEN in place of hidden values, and the set of hidden parts.

    Parts are pointers of classified fields, and BODY.
    """
    if visibility.shows(BODY):
        return data, frozenset()
    if contract is None:
        masks_of = {BODY: list(whole(data))}
    else:
        found = find(data, (), declared=visibility.declared, patterns=visibility.hidden_fields)
        masks_of = masks_by_part(data, visibility, found)
    parts: list[bytes] = []
    place = 0
    for number, mask in enumerate(apart([mask for masks in masks_of.values() for mask in masks]), 1):
        name = json.dumps(f"{HIDDEN} {number}", ensure_ascii=False) + ": " if mask.has_name else ""
        parts += [data[place : mask.start], name.encode(), json.dumps(HIDDEN, ensure_ascii=False).encode()]
        place = mask.end
    hidden = frozenset(part for part, masks in masks_of.items() if masks)
    return b"".join([*parts, data[place:]]), hidden


def whole(data: bytes) -> tuple[HiddenBytes, ...]:
    """Return the mask of a record whose contract is not known."""
    return (HiddenBytes(0, len(data), _MASKED_UNKNOWN),) if data else ()


def masks_by_part(data: bytes, visibility: Visibility, found: FoundPlaces) -> dict[str, list[HiddenBytes]]:
    """Return the masks by hidden part; `found` has the places of the visibility's `hidden_fields`."""
    if visibility.shows(BODY):
        return {}
    return dict(_masks(data, visibility, visibility.hidden_fields, found))


def declared_names(contract: DataContract) -> frozenset[str]:
    """Return the property names that the contract's schema declares anywhere."""
    return frozenset(_names(contract.schema_.definition))


def _masks(
    data: bytes, visibility: Visibility, personal: dict[str, str], found: FoundPlaces
) -> Iterator[tuple[str, list[HiddenBytes]]]:
    """Yield the masks of each part that is hidden."""
    for pattern, name in personal.items():
        yield pattern, [HiddenBytes(place.start, place.end, name) for place in found.covered[pattern]]
    declared = visibility.declared or frozenset()
    rest = _undeclared(data, found, declared)
    if found.broken is not None and data:
        rest = [HiddenBytes(0, len(data), _UNREADABLE)]
    yield BODY, rest


@suggestion_budget()
def _undeclared(data: bytes, found: FoundPlaces, declared: frozenset[str]) -> list[HiddenBytes]:
    """Return the masks of properties with undeclared names.

    A name is shown if it looks like a declared one: then it is a misspelling, and not a value. When the budget of
    comparisons is used up, the further names are masked.
    """

    @cache
    def is_misspelt(name: str) -> bool:
        return closest(name, declared, cutoff=_ALIKE) is not None

    masks: list[HiddenBytes] = []
    for place in found.undeclared:
        if place.key_start == place.start or is_misspelt(name_at(data, place.key_start)):
            masks.append(HiddenBytes(place.start, place.end, _UNDECLARED))
        else:
            masks.append(HiddenBytes(place.key_start, place.end, _UNDECLARED, has_name=True))
    return masks


def apart(masks: list[HiddenBytes]) -> tuple[HiddenBytes, ...]:
    """Return masks in order, with overlapping ones joined; a joined mask has the reason of the outer one."""
    found: list[HiddenBytes] = []
    for mask in sorted(masks, key=lambda one: (one.start, -one.end)):
        if found and mask.start < found[-1].end:
            last = found[-1]
            found[-1] = replace(last, end=max(last.end, mask.end))
        else:
            found.append(mask)
    return tuple(found)


def masked_fix(text: str, visibility: Visibility) -> str:
    """Return a fix, as canonical JSON, with HIDDEN in place of the values of hidden fields; unchanged without any.

    With a hidden value the description is hidden too, because it is free text about the values. A text that is not a
    fix is hidden as a whole.
    """
    try:
        fix = Fix.model_validate_json(text, strict=True)
    except ValidationError:
        return HIDDEN
    named = _hidden_names(fix, visibility)

    def hides(pointer: str) -> bool:
        path = tokens(pointer)
        return visibility.hides_pattern(path) or not named.isdisjoint(path)

    steps = tuple(_masked_step(step, hides) for step in fix.steps)
    if steps == fix.steps:
        return text
    description = None if fix.description is None else HIDDEN
    return fix.model_copy(update={"steps": steps, "description": description}).text


def _hidden_names(fix: Fix, visibility: Visibility) -> frozenset[str]:
    """Return the field names under which renames of a fix move values out of hidden fields, or into them."""
    renames = [(tokens(step.field), step.to) for step in fix.steps if isinstance(step, Rename)]
    found: set[str] = set()
    for _ in renames:  # a chain of renames is at most as long as their number
        found |= {
            name
            for path, to in renames
            for name in (path[-1], to)
            if {path[-1], to} & found
            or visibility.hides_pattern(path)
            or visibility.hides_pattern((*path[:-1], to))
        }
    return frozenset(found)


def _masked_step(step: AnyStep, hides: Callable[[str], bool]) -> AnyStep:
    changes: dict[str, Any] = {}
    if hides(step.field):
        match step:
            case Set() | Default():
                changes["value"] = HIDDEN
            case Map():
                masked = {"value_from": HIDDEN, "to": HIDDEN}
                changes["values"] = tuple(each.model_copy(update=masked) for each in step.values)
            case Cast() | Rename() | Drop() | Trim() | Date():
                pass  # they name no value
            case _:
                assert_never(step)
    if step.when is not None and hides(step.when.field):
        changes["when"] = _masked_condition(step.when)
    return step.model_copy(update=changes)


def _masked_condition(condition: Condition) -> Condition:
    masked: dict[str, Any] = {"equals": HIDDEN, "not_equals": HIDDEN}
    if condition.one_of is not None:
        masked["one_of"] = (HIDDEN,) * len(condition.one_of)
    given = {name: value for name, value in masked.items() if name in condition.model_fields_set}
    return condition.model_copy(update=given)


def decoded_json(
    payload: bytes, contract: DataContract, plan: EnforcementPlan | None, header: bytes | None
) -> bytes | None:
    """Decode `payload` as the job did, and return it as JSON; None if it cannot be decoded, or without a plan.

    The writer's schema is the one that the record names if the plan knows the subject's schemas, else the contract's.
    `header` is the record's schema header.
    """
    reader = contract.schema_.definition
    if len(payload) > _MOST_BYTES or reader is None or isinstance(reader, bool) or plan is None:
        return None
    # What the judge cannot decode may take fastavro all memory, or the process.
    if isinstance(plan.record_of(payload, header), Violation):
        return None
    writer: Any = reader
    number = None
    if contract.framing in {"confluent-prefix", "auto"} and payload[:1] == b"\0":
        number, payload = int.from_bytes(payload[1:PREFIX_BYTES], "big"), payload[PREFIX_BYTES:]
    if plan.writers is not None:
        by_header = plan.writers.by_header.get(header) if header is not None else None
        named = by_header if number is None else plan.writers.by_id.get(number)
        if named is None:
            return None
        writer = json.loads(named.text)
    try:
        schemas = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
        value = fastavro.schemaless_reader(io.BytesIO(payload), *schemas)
        return json.dumps(value, default=_text, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except Exception:  # noqa: BLE001 - fastavro raises all kinds for values of logical types, such as dates out of range
        return None


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _names(definition: Any) -> Iterator[str]:
    """Yield the names of the properties of a JSON Schema, or of the fields of an Avro schema."""
    for node in objects_of(definition):
        properties = node.get("properties")
        if isinstance(properties, dict):
            yield from properties
        fields = node.get("fields")
        if isinstance(fields, list):
            yield from (str(field["name"]) for field in fields if isinstance(field, dict) and "name" in field)
