"""Typed columns of a contract, and their conversion from records. No silent nulls, no silent rounding.

A value is kept exactly, or it is a violation of stage column. The exception is part of the types' meaning: `float` and
`double` hold the IEEE 754 number nearest to any number in their range. An absent or null value becomes null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from tidegate.contracts.document.fields import FieldType, SchemaFields, join, suggestion, tokens
from tidegate.contracts.document.model import Column, DataContract, Mask
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.formats import column_values as to
from tidegate.contracts.privacy.masks import Masks, masks_of
from tidegate.contracts.rules.compiled import Path, item_at, read
from tidegate.contracts.rules.places import ANYWHERE
from tidegate.contracts.suggestions import did_you_mean
from tidegate.contracts.verdict import Severity, Stage, Violation

TYPES: Final = (
    "boolean", "int", "long", "float", "double", "decimal(p,s)", "string", "binary", "date", "timestamp",
    "timestamp_ntz", "json",
)  # fmt: skip
"""Names of the column types."""

_NANOSECONDS: Final = {"millis": 10**6, "micros": 10**3, "nanos": 1}
_DECIMAL = re.compile(r"decimal\((\d{1,2}), ?(\d{1,2})\)", re.ASCII)
_MAX_PRECISION: Final = 38
_NUMBER: Final = frozenset({"number", "integer"})
_TAKES: Final = {
    "boolean": frozenset({"boolean"}),
    "int": _NUMBER,
    "long": _NUMBER,
    "float": _NUMBER,
    "double": _NUMBER,
    "decimal": _NUMBER,
    "string": frozenset({"string"}),
    "binary": frozenset({"bytes"}),
    "date": frozenset({"string", "integer"}),
    "timestamp": frozenset({"string", "integer"}),
    "timestamp_ntz": frozenset({"string", "integer"}),
}
VALUE_TYPES: Final = {
    "string": frozenset({"string"}),
    "number": _NUMBER,
    "boolean": frozenset({"boolean"}),
    "bytes": frozenset({"bytes"}),
}
"""The types of values that a Kafka key can hold as one text."""


_PLAIN_TYPES: Final = {
    "boolean": "boolean",
    "string": "string",
    "integer": "long",
    "number": "double",
    "bytes": "binary",
}
_TIME_TYPES: Final = {
    "date": "date",
    "date-time": "timestamp",
    "timestamp": "timestamp",
    "local-timestamp": "timestamp_ntz",
}


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A column type: its Arrow type, and the function that converts values of records to it.

    `unit` is the number of nanoseconds that an integer counts in a column of times. `takes_all` means that any value is
    accepted, because a mask replaces it. `is_plain` means that `convert` is the type's own, and masks nothing. `mask`,
    if given, returns what is written of a value that `convert` accepts; None for null. `tells_types` means that the
    number 5 and the text 5 are different values of the column.
    """

    arrow_type: pa.DataType
    convert: to.Converter
    unit: int = 1
    takes_all: bool = False
    is_plain: bool = True
    tells_types: bool = False
    mask: to.Converter | None = None


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """One column of the table: where in a record its values are, and how they are converted.

    `value_type` is the type of all values of its field, one of VALUE_TYPES, or "" if they may have several types.
    """

    name: str
    type: str
    path: Path
    kind: ColumnKind
    value_type: str = ""

    @property
    def violation(self) -> Violation:
        """Return the violation of a record whose value does not fit the column."""
        message = f"column {self.name} of type {self.type} cannot hold this value"
        return Violation(Stage.COLUMN, self.name, join(self.path), Severity.ERROR, message)

    def convert(self, records: list[Any]) -> tuple[pa.Array, list[int]]:
        """Return the column of some records, and the positions of those whose value it cannot hold (null there)."""
        return self.convert_values(self._read(records))

    def convert_values(self, values: list[Any]) -> tuple[pa.Array, list[int]]:
        """Return the column of some values, and the positions of those that it cannot hold (null there)."""
        convert = self.kind.convert
        converted = [None if value is None else convert(value) for value in values]
        if self.kind.takes_all:
            return pa.array(converted, self.kind.arrow_type), []
        refused = [
            position
            for position, (value, new) in enumerate(zip(values, converted, strict=True))
            if new is None and value is not None
        ]
        if (mask := self.kind.mask) is not None:
            converted = [
                None if new is None else mask(value) for value, new in zip(values, converted, strict=True)
            ]
        return pa.array(converted, self.kind.arrow_type), refused

    def holds(self, record: Any) -> bool:
        """Return whether the column can hold the value of a record."""
        value = read(record, self.path)
        return value is None or self.kind.takes_all or self.kind.convert(value) is not None

    def _read(self, records: list[Any]) -> list[Any]:
        values = records
        for token in self.path:
            try:
                values = [value.get(token) for value in values]
            except AttributeError:  # not all values are objects: some are arrays or missing
                values = [
                    value.get(token) if type(value) is dict else item_at(value, token) for value in values
                ]
        return values


def compile_columns(
    contract: DataContract, fields: SchemaFields, *, formats_hold: bool, masks: Masks | None = None
) -> tuple[TypedColumn, ...]:
    """Compile the columns of a contract, or derive them from the top level of its schema.

    `formats_hold` means that the schema refuses strings that do not match their format. Raises ContractError with every
    problem found.
    """
    problems: list[Problem] = []
    masks = masks_of(contract) if masks is None else masks
    if contract.columns:
        columns = tuple(_declared(contract.columns, fields, masks, problems))
    else:
        columns = tuple(_derived(fields, masks, problems, formats_hold=formats_hold))
    problems += _key_problems(contract, columns, is_complete=not problems)
    if problems:
        raise ContractError(tuple(problems))
    return columns


def _key_problems(
    contract: DataContract, columns: tuple[TypedColumn, ...], *, is_complete: bool
) -> Iterator[Problem]:
    """Yield the problems of the primary key; `is_complete` says whether every column could be compiled."""
    names = [column.name for column in columns]
    named = dict(zip(names, columns, strict=True))
    for index, name in enumerate(contract.primary_key):
        place = f"/primary_key/{index}"
        column = named.get(name)
        if column is None:
            if is_complete:
                near = did_you_mean(name, names) if names else ""
                yield Problem(place, f"no column is named `{name}`{near}")
        elif column.kind.convert is to.nothing:
            yield Problem(
                place, f"column `{name}` is redacted, and rows without a value have no key; hash it instead"
            )
        elif contract.tombstones == "delete" and column.kind.tells_types and not column.value_type:
            yield Problem(
                place,
                f"with `tombstones: delete`, a Kafka key does not say which type `{join(column.path)}` has: the column "
                "holds the number 5 and the text 5 as different keys. Give the field one type in the schema: string, "
                "number or boolean",
            )


def _declared(
    columns: tuple[Column, ...], fields: SchemaFields, masks: Masks, problems: list[Problem]
) -> Iterator[TypedColumn]:
    for index, column in enumerate(columns):
        place = f"/columns/{index}"
        if ANYWHERE in tokens(column.from_):
            message = f"a column holds one value, and `{ANYWHERE}` stands for many; name one field"
            problems.append(Problem(f"{place}/from", message))
            continue
        found = fields.find(column.from_)
        if found is None:
            near = suggestion(column.from_, fields)
            problems.append(Problem(f"{place}/from", f"the schema declares no field `{column.from_}`{near}"))
            continue
        if (array := _array_in(column.from_, fields)) is not None:
            message = f"a column holds one value, and `*` stands for many; take `{array}` whole, as json"
            problems.append(Problem(f"{place}/from", message))
            continue
        name = column.type.partition("(")[0]
        path = tokens(column.from_)
        kind = kind_of(column.type, found)
        if (refusal := mask_refusal(masks, path, column.type)) is not None:
            problems.append(Problem(place + refusal[0], refusal[1]))
        elif kind is None:
            message = f"no column type is named `{column.type}`{did_you_mean(name, TYPES)}"
            problems.append(Problem(f"{place}/type", message))
        elif name != "json" and not found.types & _TAKES[name] and not _is_hashed(masks, path):
            held = " or ".join(sorted(found.types)) or "nothing"
            message = f"a column of type {column.type} never holds what `{column.from_}` is: {held}"
            problems.append(Problem(f"{place}/type", message))
        else:
            masked = masked_kind(masks, path, kind)
            yield TypedColumn(column.name, column.type, path, masked, value_type_of(found))


def mask_refusal(masks: Masks, path: Path, type_name: str) -> tuple[str, str] | None:
    """Return why a column cannot hold the masked values of its field: (place in the column, reason), else None."""
    over = masks.over(path)
    if over is None:
        return None
    mask, steps = over
    field = join(path[:steps])
    if steps < len(path):
        return (
            "/from",
            f"`{field}` is masked as a whole, and nothing of it is written; mask its members instead",
        )
    if mask is Mask.DROP:
        return (
            "/from",
            f"`{field}` is dropped, and no column has it; remove the column, or write `mask: redact`",
        )
    if mask is Mask.HASH and type_name != "string":
        return "/type", f"`{field}` is hashed, and a token is text; give the column the type string"
    return None


def masked_kind(masks: Masks, path: Path, kind: ColumnKind) -> ColumnKind:
    """Return the kind of a column under the contract's masks: `kind` itself if the field is not masked."""
    match masks.over(path):
        case (Mask.HASH, _):
            return ColumnKind(pa.string(), masks.token, takes_all=True, is_plain=False, tells_types=True)
        case (Mask.REDACT, _):
            return ColumnKind(kind.arrow_type, to.nothing, takes_all=True, is_plain=False)
        case _ if masks.is_below(path):

            def mask(value: Any) -> Any:
                masked = masks.applied(value, path)
                return None if masked is None else kind.convert(masked)

            return replace(kind, is_plain=False, mask=mask)
        case _:
            return kind


def _is_hashed(masks: Masks, path: Path) -> bool:
    over = masks.over(path)
    return over is not None and over[0] is Mask.HASH


def _array_in(pointer: str, fields: SchemaFields) -> str | None:
    """Return the array whose elements a pointer selects; None if it selects one value."""
    path = tokens(pointer)
    arrays = (join(path[:index]) for index, name in enumerate(path) if name == "*")
    return next((array for array in arrays if "array" in (fields.find(array) or FieldType()).types), None)


def _derived(
    fields: SchemaFields, masks: Masks, problems: list[Problem], *, formats_hold: bool
) -> Iterator[TypedColumn]:
    taken: dict[str, str] = {}
    for field_name in fields.top_level():
        over = masks.over((field_name,))
        if over is not None and over[0] is Mask.DROP:
            continue
        name = column_name(field_name)
        pointer = join((field_name,))
        place = f"/schema/definition/properties{pointer}"
        found = fields.find(pointer) or FieldType()
        is_hashed = _is_hashed(masks, (field_name,))
        type_name = "string" if is_hashed else derived_type(found, formats_hold=formats_hold)
        # Query engines compare column names without case.
        if name.lower() in taken:
            message = f"`{pointer}` and `{taken[name.lower()]}` would both be column {name.lower()}"
            problems.append(Problem(place, f"{message}; name the columns under `columns`"))
        else:
            kind = kind_of(type_name, found)
            assert kind is not None, type_name  # noqa: S101 - derived types exist
            taken[name.lower()] = pointer
            masked = masked_kind(masks, (field_name,), kind)
            yield TypedColumn(name, type_name, (field_name,), masked, value_type_of(found))


def column_name(field_name: str) -> str:
    """Return a column name for a field: letters, digits and underscores, beginning with a letter."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", field_name).lstrip("_")
    return name if name[:1].isalpha() else f"c_{name}"


def derived_type(found: FieldType, *, formats_hold: bool) -> str:
    """Return the column type for a field; `json` if no other type holds its values, as for text or a number."""
    types = found.types - {"null"}
    if types & {"object", "array"} or not types:
        return "json"
    if found.decimal is not None:
        precision, scale = found.decimal
        return f"decimal({precision},{scale})" if precision <= _MAX_PRECISION else "json"
    is_text_time = types == {"string"} and formats_hold and not found.is_mixed
    is_time = is_text_time or (types == {"integer"} and not found.is_unclear)
    if len(found.times) == 1 and is_time:
        time = next(iter(found.times)).removesuffix("-millis").removesuffix("-micros").removesuffix("-nanos")
        if time in _TIME_TYPES:
            return _TIME_TYPES[time]
    if len(types) == 1:
        return _PLAIN_TYPES[next(iter(types))]
    return "double" if types <= _NUMBER else "json"


def value_type_of(found: FieldType) -> str:
    """Return the type of all values of a field, one of VALUE_TYPES; "" if they may have several types."""
    types = found.possible - {"null"}
    return next((name for name, held in VALUE_TYPES.items() if types and types <= held), "")


def kind_of(name: str, found: FieldType) -> ColumnKind | None:
    """Return the column type of this name for values of a field; None for an unknown name."""
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        if not 1 <= precision <= _MAX_PRECISION or scale > precision:
            return None
        return ColumnKind(pa.decimal128(precision, scale), to.decimal_number(precision, scale))
    unit = next((n for suffix, n in _NANOSECONDS.items() for time in found.times if time.endswith(suffix)), 1)
    build = _KINDS.get(name)
    return None if build is None else build(unit)


_KINDS: Final[dict[str, Callable[[int], ColumnKind]]] = {
    "boolean": lambda _: ColumnKind(pa.bool_(), to.of_type(bool)),
    "int": lambda _: ColumnKind(pa.int32(), to.whole_number(32)),
    "long": lambda _: ColumnKind(pa.int64(), to.whole_number(64)),
    "float": lambda _: ColumnKind(pa.float32(), to.floating_point(to.MAX_FLOAT)),
    "double": lambda _: ColumnKind(pa.float64(), to.floating_point(to.MAX_DOUBLE)),
    "string": lambda _: ColumnKind(pa.string(), to.of_type(str)),
    "json": lambda _: ColumnKind(pa.string(), to.json_text, tells_types=True),
    "binary": lambda _: ColumnKind(pa.binary(), to.of_type(bytes)),
    "date": lambda _: ColumnKind(pa.date32(), to.day),
    "timestamp": lambda unit: ColumnKind(pa.timestamp("us", "UTC"), to.instant(unit), unit),
    "timestamp_ntz": lambda unit: ColumnKind(pa.timestamp("us"), to.local_time(unit), unit),
}
