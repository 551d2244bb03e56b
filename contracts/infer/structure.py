"""Propose a JSON Schema from a profile: types, required fields and formats. Values are left to rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.contracts.infer.columns import ValueKind
from tidegate.contracts.infer.number_rules import nice_above
from tidegate.contracts.infer.pairs import Path
from tidegate.contracts.infer.profile import FieldProfile, ObjectProfile
from tidegate.contracts.infer.proposal import Proposal, label
from tidegate.contracts.infer.text_formats import TextFormat
from tidegate.contracts.infer.values import Occurrences

_EXCEPTIONAL: Final = 0.02
"""Maximum share of values whose type is a mistake, not a second type of the field."""
_MISSING: Final = 0.01
_ENOUGH: Final = 50
_TYPES: Final = {
    ValueKind.BOOLEAN: "boolean",
    ValueKind.INTEGER: "integer",
    ValueKind.NUMBER: "number",
    ValueKind.OBJECT: "object",
    ValueKind.ARRAY: "array",
}
_FORMATS: Final = {
    ValueKind.DATE: TextFormat.DATE,
    ValueKind.TIMESTAMP: TextFormat.DATE_TIME,
    ValueKind.LOCAL_TIMESTAMP: TextFormat.LOCAL_DATE_TIME,
}


@dataclass(slots=True)
class ProposedType:
    """The inferred type of a field."""

    kinds: tuple[ValueKind, ...]
    is_nullable: bool
    is_required: bool
    format: TextFormat | None = None

    def is_only(self, *kinds: ValueKind) -> bool:
        """Return whether the field has values, and only of these kinds."""
        return bool(self.kinds) and set(self.kinds) <= set(kinds)


@dataclass(slots=True)
class Structure:
    """The proposed schema of a record, with a proposal for each of its assertions, and the type of each field."""

    definition: dict[str, Any]
    proposals: list[Proposal] = field(default_factory=list)
    types: dict[Path, ProposedType] = field(default_factory=dict)
    texts: dict[Path, dict[str, Any]] = field(default_factory=dict)
    """The parts of `definition` for texts without a format, by path; length rules change them in place."""


def structure_of(root: ObjectProfile, title: str) -> Structure:
    """Return the proposed JSON Schema for the records of a profile."""
    found = Structure({})
    definition = _object(root, found)
    found.definition = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **definition,
    }
    return found


def _object(profile: ObjectProfile, found: Structure) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if profile.is_map:
        schema["description"] = (
            "An object with very many names, which are taken to be keys; its values are not described."
        )
        return schema
    required = []
    properties = {}
    for name, each in profile.fields.items():
        properties[name] = _field(each, found)
        if found.types[each.path].is_required:
            required.append(name)
    if required:
        schema["required"] = required
    if properties:
        schema["properties"] = properties
    return schema


def _field(profile: FieldProfile, found: Structure) -> dict[str, Any]:
    kind = found.types[profile.path] = _type(profile, found)
    names = list(dict.fromkeys(_TYPES.get(each, "string") for each in kind.kinds))
    if not names:
        return (
            {"description": "Always null in the records that this schema was inferred from."}
            if profile.rows
            else {}
        )
    schema: dict[str, Any] = {}
    if ValueKind.OBJECT in kind.kinds and profile.properties is not None:
        schema = _object(profile.properties, found)
    types = [*names, "null"] if kind.is_nullable else names
    schema["type"] = types[0] if len(types) == 1 else types
    if ValueKind.ARRAY in kind.kinds:
        if profile.items is not None:
            schema["items"] = _field(profile.items, found)
        if profile.fewest_items > 0:
            schema["minItems"] = 1
        if profile.most_items:
            schema["maxItems"] = int(nice_above(3 * profile.most_items))
    if kind.format is not None:
        schema["format"] = str(kind.format)
    elif ValueKind.BYTES in kind.kinds:
        schema["contentEncoding"] = "base64"
    elif ValueKind.STRING in kind.kinds:
        found.texts[profile.path] = schema
    return schema


def _type(profile: FieldProfile, found: Structure) -> ProposedType:
    """Return the proposed type of a field, and add its assertions to the proposals."""
    kinds = _kinds(profile, found)
    present = profile.rows - profile.absent.count
    is_enough = profile.rows >= _ENOUGH
    is_required = profile.path[-1:] != ("*",) and (
        profile.absent.count <= _MISSING * profile.rows if is_enough else not profile.absent.count
    )
    if is_required:
        found.proposals.append(
            _proposal(
                "required",
                profile.path,
                f"{label(profile.path)} is in nearly every record",
                profile.rows,
                profile.absent,
            )
        )
    format_ = None
    if ValueKind.STRING in kinds and profile.texts.count >= min(20, present):
        format_ = next(
            (
                each
                for each, fails in profile.texts.formats.items()
                if fails.count <= _EXCEPTIONAL * profile.texts.count
            ),
            None,
        )
    if format_ is not None:
        fails = profile.texts.formats[format_]
        found.proposals.append(
            _proposal(
                "format",
                profile.path,
                f"{label(profile.path)} has the format {format_}",
                profile.texts.count,
                fails,
            )
        )
    elif len(kinds) == 1 and kinds[0] in _FORMATS:
        format_ = _FORMATS[kinds[0]]
    return ProposedType(kinds, profile.null.count > 0 or not kinds, is_required, format_)


def _kinds(profile: FieldProfile, found: Structure) -> tuple[ValueKind, ...]:
    """Return the kinds of values that the field may have; a kind with few values is taken for a mistake."""
    counts = {kind: tally.count for kind, tally in profile.kinds.items() if tally.count}
    if profile.untyped:
        return _untyped_kinds(profile, counts, found)
    if ValueKind.NUMBER in counts and ValueKind.INTEGER in counts:  # the type `number` includes integers
        counts[ValueKind.NUMBER] += counts.pop(ValueKind.INTEGER)
    total = sum(counts.values())
    usual = [kind for kind, count in counts.items() if count > _EXCEPTIONAL * total or total < _ENOUGH]
    others = Occurrences()
    for kind, tally in profile.kinds.items():
        if kind in counts and kind not in usual:
            others.add_counted(tally.count, tally.first)
    if usual:
        because = f"{label(profile.path)} is of type {' or '.join(usual)}"
        found.proposals.append(_proposal("type", profile.path, because, total, others))
    return tuple(usual)


def _untyped_kinds(
    profile: FieldProfile, counts: dict[ValueKind, int], found: Structure
) -> tuple[ValueKind, ...]:
    """Return the kind of the cells of a column: numbers or booleans if nearly all can be read so, else texts."""
    total = profile.texts.count
    numbers = counts.get(ValueKind.INTEGER, 0) + counts.get(ValueKind.NUMBER, 0)
    for kind, count in ((ValueKind.BOOLEAN, counts.get(ValueKind.BOOLEAN, 0)), (ValueKind.NUMBER, numbers)):
        if count and total - count <= _EXCEPTIONAL * total:
            name = ValueKind.INTEGER if kind is ValueKind.NUMBER and ValueKind.NUMBER not in counts else kind
            wrong = (
                (ValueKind.INTEGER, ValueKind.NUMBER) if kind is ValueKind.BOOLEAN else (ValueKind.BOOLEAN,)
            )
            others = Occurrences()
            others.merge(profile.words)
            for each in wrong:
                others.merge(profile.kinds.get(each, Occurrences()))
            found.proposals.append(
                _proposal("type", profile.path, f"{label(profile.path)} is of type {name}", total, others)
            )
            return (name,)
    return (ValueKind.STRING,) if total else ()


def _proposal(code: str, path: Path, because: str, support: int, exceptions: Occurrences) -> Proposal:
    return Proposal(
        code, path, because, support, exceptions.count, tuple(exceptions.first) if exceptions.count else ()
    )
