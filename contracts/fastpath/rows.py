"""Build the typed row for the records of a JSON Schema, and the checks that its types do not cover.

The decoder checks types, bounds, lengths, enumerations, required properties and closed objects. Strings with patterns
and formats are collected, to be matched for many records in one pass. A property whose schema says more is decoded
without a type and checked by its own validator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from types import GenericAlias
from typing import Annotated, Any, Final, Literal

import msgspec

from tidegate.contracts.fastpath.code_writer import DATE
from tidegate.contracts.fastpath.patterns import FORMATS, searched_strings
from tidegate.contracts.rules.compiled import Path

ValidatorFor = Callable[[Any], Callable[[Any], bool]]
"""Compiles a subschema to the test whether a value fits it."""

_ANNOTATIONS: Final = frozenset(
    {
        "$comment",
        "$schema",
        "default",
        "deprecated",
        "description",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    }
)
_KEYWORDS: Final = {
    "array": frozenset({"items", "maxItems", "minItems"}),
    "boolean": frozenset[str](),
    "integer": frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"}),
    "null": frozenset[str](),
    "number": frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"}),
    "object": frozenset({"additionalProperties", "properties", "required"}),
    "string": frozenset({"format", "maxLength", "minLength", "pattern"}),
}
"""The keywords by type that a row can express; a schema with any other keyword is left to its validator."""
_EXPRESSED: Final = frozenset({"type"}).union(_ANNOTATIONS, *_KEYWORDS.values())
_EXACT_INTEGER: Final = 2**53
_LONGEST: Final = 2**31


class NotExpressibleError(Exception):
    """A schema that typed rows cannot express."""


@dataclass(frozen=True, slots=True)
class RowValue:
    """The typed value of a property in a row; `type` is the type that msgspec decodes.

    `text` and `item_text` are regular expressions for the string, or for each string of the array. `fits` is a validator
    to call, and `row` the row of an object; each is None if not needed. `kinds` are the Python types of the values
    besides null, None if unknown. `holds_strings` marks a list of strings.
    """

    type: Any
    is_nullable: bool = False
    text: str | None = None
    item_text: str | None = None
    fits: Callable[[Any], bool] | None = None
    row: RowType | None = None
    kinds: frozenset[type] | None = None
    holds_strings: bool = False


@dataclass(frozen=True, slots=True)
class RowMember:
    """An attribute of a row. If missing, it is None, or UNSET where a validator or a rule needs to know."""

    attribute: str
    value: RowValue
    is_required: bool
    is_told_apart: bool = False

    @property
    def may_be_none(self) -> bool:
        """Return whether the attribute may be None: null in the record, or missing."""
        return self.value.is_nullable or not self.is_required

    @property
    def may_be_unset(self) -> bool:
        """Return whether a missing attribute is UNSET, because a validator or rule distinguishes it from null."""
        is_asked = self.value.fits is not None or (self.is_told_apart and self.value.is_nullable)
        return is_asked and not self.is_required


@dataclass(slots=True)
class RowType:
    """A struct type for rows, with its attributes by the names of the properties."""

    members: dict[str, RowMember] = field(default_factory=dict)
    type: type[msgspec.Struct] = msgspec.Struct


class RowBuilder:
    """Builds the rows of one schema.

    `whole` are the paths of values that must stay as decoded from JSON. `told_apart` are the paths where a rule
    distinguishes null from missing. Strings with the format date become dates, which is cheaper than matching them,
    except at the paths `texts`. With `texts` None all of them stay strings.
    """

    def __init__(
        self,
        validator_for: ValidatorFor,
        whole: frozenset[Path],
        *,
        formats_hold: bool,
        told_apart: frozenset[Path] = frozenset(),
        texts: frozenset[Path] | None = None,
    ) -> None:
        self._validator_for = validator_for
        self._whole = whole
        self._told_apart = told_apart
        self._formats_hold = formats_hold
        self._texts = texts

    def row(self, schema: Any, path: Path = ()) -> RowType:
        """Return the row for an object schema without references. Raises NotExpressibleError if there is none."""
        if not isinstance(schema, dict) or schema.get("type") != "object" or not schema.keys() <= _EXPRESSED:
            raise NotExpressibleError
        properties, required = schema.get("properties", {}), schema.get("required", [])
        is_closed = schema.get("additionalProperties", True) is False
        if not is_closed and schema.get("additionalProperties", True) is not True:
            raise NotExpressibleError
        names = dict.fromkeys((*properties, *required))
        if is_closed and not names.keys() <= properties.keys():
            raise NotExpressibleError
        row = RowType()
        for index, name in enumerate(names):
            place = (*path, name)
            value = self._value(properties.get(name, True), place)
            if self._texts is not None and place not in self._texts:
                value = _as_date(value)
            is_told_apart = place in self._told_apart
            row.members[name] = RowMember(f"f{index}", value, name in required, is_told_apart)
        row.type = msgspec.defstruct(
            "Row",
            [_definition(member) for member in row.members.values()],
            rename={member.attribute: name for name, member in row.members.items()},
            forbid_unknown_fields=is_closed,
            kw_only=True,
            gc=False,
        )
        return row

    def _value(self, schema: Any, path: Path) -> RowValue:
        if schema is True or schema == {}:
            return RowValue(Any, is_nullable=True)
        try:
            return self._typed(schema, path)
        except (NotExpressibleError, TypeError, ValueError, OverflowError):
            return RowValue(Any, is_nullable=True, fits=self._validator_for(schema))

    def _typed(self, schema: Any, path: Path) -> RowValue:
        if not isinstance(schema, dict):
            raise NotExpressibleError
        listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if listed is not None:
            return self._listed(schema, listed)
        if schema.keys() <= _ANNOTATIONS:
            return RowValue(Any, is_nullable=True)
        types = schema.get("type")
        if not schema.keys() <= _EXPRESSED or types is None:
            raise NotExpressibleError
        names = {types} if isinstance(types, str) else set(types)
        others = names - {"null"}
        if len(others) > 1:
            raise NotExpressibleError
        if not others:
            return RowValue(None, is_nullable=True)
        value = self._of_type(others.pop(), schema, path)
        return replace(value, type=value.type | None, is_nullable=True) if "null" in names else value

    def _of_type(self, name: str, schema: dict[str, Any], path: Path) -> RowValue:
        match name:
            case "boolean":
                return RowValue(bool, kinds=frozenset({bool}))
            case "integer":
                return RowValue(
                    Annotated[int, msgspec.Meta(**_integer_bounds(schema))], kinds=frozenset({int})
                )
            case "number":
                whole = Annotated[int, msgspec.Meta(**_integer_bounds(schema))]
                return RowValue(
                    whole | Annotated[float, msgspec.Meta(**_float_bounds(schema))],
                    kinds=frozenset({int, float}),
                )
            case "string":
                return self._string(schema)
            case "array":
                return self._array(schema, path)
            case "object":
                if path in self._whole:
                    raise NotExpressibleError
                row = self.row({**schema, "type": "object"}, path)
                return RowValue(row.type, row=row)
            case _:
                raise NotExpressibleError

    def _string(self, schema: dict[str, Any]) -> RowValue:
        lengths = _limits(schema, minLength="min_length", maxLength="max_length")
        texts = [
            expression
            for keyword, expression in (
                ("pattern", searched_strings(schema.get("pattern", ""))),
                ("format", FORMATS.get(schema.get("format", "")) if self._formats_hold else ""),
            )
            if keyword in schema and expression != ""
        ]
        if len(texts) > 1 or None in texts:  # no expression can require both a pattern and a format
            raise NotExpressibleError
        # `_as_date` only takes a plain `str`: one without limits of length.
        kind = Annotated[str, msgspec.Meta(**lengths)] if lengths else str
        return RowValue(kind, text=texts[0] if texts else None, kinds=frozenset({str}))

    def _array(self, schema: dict[str, Any], path: Path) -> RowValue:
        lengths = _limits(schema, minItems="min_length", maxItems="max_length")
        items = schema.get("items", True)
        if isinstance(items, list):
            raise NotExpressibleError
        item = RowValue(Any) if items in (True, {}) else self._typed(items, path)
        if item.row is not None or item.item_text is not None or item.fits is not None:
            raise NotExpressibleError
        if item.text is not None and item.is_nullable:
            raise NotExpressibleError
        return RowValue(
            Annotated[GenericAlias(list, (item.type,)), msgspec.Meta(**lengths)],
            item_text=item.text,
            kinds=frozenset({list}),
            holds_strings=item.kinds == frozenset({str}) and not item.is_nullable,
        )

    def _listed(self, schema: dict[str, Any], values: list[Any]) -> RowValue:
        """Return an enumeration as a Literal of the listed values that fit the rest of the schema."""
        fits = self._validator_for(schema)
        allowed = [value for value in values if fits(value)]
        named = [value for value in allowed if value is not None]
        kinds = {type(value) for value in named}
        if kinds not in ({str}, {int}) or any(type(v) is int and abs(v) > _EXACT_INTEGER for v in named):
            raise NotExpressibleError
        is_nullable = len(named) < len(allowed)
        return RowValue(Literal[tuple(allowed)], is_nullable=is_nullable, kinds=frozenset(kinds))


def _as_date(value: RowValue) -> RowValue:
    """Return a string of format date typed as a date, if the schema checks nothing else.

    The decoder rejects the year 0, which is then left to the strict path.
    """
    if value.text != FORMATS["date"] or value.type not in {str, str | None}:
        return value
    return replace(value, type=date | None if value.is_nullable else date, text=None, kinds=DATE)


def _definition(member: RowMember) -> tuple[str, Any] | tuple[str, Any, Any]:
    if member.is_required:
        return member.attribute, member.value.type
    if member.may_be_unset:
        return member.attribute, member.value.type, msgspec.UNSET
    return member.attribute, member.value.type, None


def _limits(schema: dict[str, Any], **names: str) -> dict[str, Any]:
    """Return limits of length under the decoder's `names`. Raises NotExpressibleError for limits it cannot take."""
    limits = {new: schema[keyword] for keyword, new in names.items() if keyword in schema}
    if any(type(limit) is not int or limit > _LONGEST for limit in limits.values()):
        raise NotExpressibleError
    return limits


def _bounds(schema: dict[str, Any]) -> Iterator[tuple[str, int | float]]:
    for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        if keyword in schema:
            bound = schema[keyword]
            # In draft 4 exclusive bounds are booleans.
            if type(bound) not in {int, float} or abs(bound) > _EXACT_INTEGER:
                raise NotExpressibleError
            yield keyword, bound


def _integer_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the bounds of an integer as inclusive integer bounds."""
    bounds: dict[str, int] = {}
    for keyword, bound in _bounds(schema):
        is_exclusive = keyword.startswith("exclusive")
        if keyword.lower().endswith("minimum"):
            least = math.floor(bound) + 1 if is_exclusive else math.ceil(bound)
            bounds["ge"] = max(least, bounds.get("ge", least))
        else:
            most = math.ceil(bound) - 1 if is_exclusive else math.floor(bound)
            bounds["le"] = min(most, bounds.get("le", most))
    return bounds


def _float_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    names = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "exclusiveMaximum": "lt"}
    bounds = {names[keyword]: float(bound) for keyword, bound in _bounds(schema)}
    if {"ge", "gt"} <= bounds.keys() or {"le", "lt"} <= bounds.keys():
        raise NotExpressibleError
    return bounds
