"""Whether a column holds every value that records of the earlier contract have in its field.

The job quarantines a record whose value a column cannot hold, so a column that is new, or masked in another way, may
break `BACKWARD`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final

from tidegate.contracts.columns.typed import TypedColumn, compile_columns
from tidegate.contracts.compatibility.advice import has_unnamed
from tidegate.contracts.compatibility.rule_schemas import kept_rules, with_schemas
from tidegate.contracts.compatibility.witness_search import ContractPair, Judge
from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.avro_defaults import fits
from tidegate.contracts.formats.avro_matching import field_pairs
from tidegate.contracts.formats.avro_nodes import default_value
from tidegate.contracts.formats.avro_types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    RecordField,
    Union,
    nodes,
)
from tidegate.contracts.formats.column_values import MAX_DOUBLE, MAX_FLOAT
from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.formats.json_records import decode_exactly
from tidegate.contracts.inclusion import json_schema
from tidegate.contracts.inclusion.answer import Counterexample, Inclusion, Outcome
from tidegate.contracts.rules.compiled import read
from tidegate.contracts.rules.places import Path
from tidegate.contracts.verdict import Violation

_STEPS: Final = 10_000
"""Maximum steps of a proof about some columns."""
_MAX_PROOFS: Final = 100
"""Maximum proofs about the columns of one comparison; further columns are unproven."""
_MAX_INDEX: Final = 100
_WIDER: Final = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
}
"""Column types that accept every value which a column of the type accepts."""
_DAY: Final = "(000[2-9]|00[1-9][0-9]|0[1-9][0-9][0-9]|[1-8][0-9]{3}|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
_CLOCK: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_TEXTS: Final = {
    "date": f"^{_DAY}$",
    "timestamp": f"^{_DAY}T{_CLOCK}Z$",
    "timestamp_ntz": f"^{_DAY}T{_CLOCK}$",
}
"""Patterns of texts that a column of times certainly holds."""
_EXTREMES: Final[tuple[Any, ...]] = (
    2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 10**39, -(10**39), 10**400, -(10**400), 0.5, -0.5, 1e39, -1e39, float("nan"), 2**63 - 1, 2**31 - 1, -(2**63),
    "x", "2024-01-01T00:00:00.1234567Z", "0000-01-01", "0000-01-01T00:00:00Z", "2024-01-01T00:00:00.1234567",
    True, [], {},
)  # fmt: skip
"""Values that some type of column does not hold, ordinary ones first."""


class HeldColumns:
    """The columns of two contracts, and whether those of the candidate hold the values of the base's records."""

    def __init__(self, base: Judge, candidate: Judge) -> None:
        self._base = base
        self._candidate = candidate
        self._pair = ContractPair(base, candidate)
        self._proofs = 0
        self._examples: dict[str, Counterexample] = {}

    @cached_property
    def _before(self) -> tuple[TypedColumn, ...]:
        return _compiled(self._base)

    @cached_property
    def after(self) -> dict[str, TypedColumn]:
        """Return the candidate's columns by lowercase name; none if they do not compile."""
        return {each.name.lower(): each for each in _compiled(self._candidate)}

    def unproven(self, names: Sequence[str]) -> frozenset[str]:
        """Return those candidate columns, by lowercase name, that are not proven to hold what the base accepts."""
        contract = self._candidate.contract
        columns = [
            self.after[name]
            for name in names
            if name in self.after and not self.after[name].kind.takes_all and not self._was_filled(name)
        ]
        if contract.on_violation == "alert":  # such a record is written, with null in the column
            columns = [each for each in columns if each.name in contract.primary_key]
        if not columns or self._is_held(columns):
            return frozenset()
        for each in columns:
            example = self._example(each, self._extremes(each), is_kept=True)
            if example is not None:
                self._examples[each.name.lower()] = example
        left = [each for each in columns if each.name.lower() not in self._examples]
        return frozenset({*self._examples, *(each.name.lower() for each in self._unheld(left))})

    def is_assumed(self, name: str) -> bool:
        """Return whether the base ignores undeclared properties, and the column's field is one of them."""
        fields = self._base.fields
        if self._base.contract.undeclared != "ignore" or not isinstance(fields, JsonFields):
            return False
        return has_unnamed(self.after[name].path, fields)

    def counterexample(self, name: str) -> Counterexample | None:
        """Return a record that the base writes and whose value the column does not hold; None if none is found."""
        if name not in self._examples:
            column = self.after[name]
            records = chain(self._extremes(column), self._differences(column))
            return self._example(column, records, is_kept=False)
        return self._examples[name]

    def _example(
        self, column: TypedColumn, records: Iterable[Any], *, is_kept: bool
    ) -> Counterexample | None:
        """Return the first record that the base writes and the column refuses; None if there is none.

        With `is_kept`, the candidate must write the record apart from its columns.
        """
        for record in records:
            found = self._pair.written(record)
            if found is None or column.holds(found.latter) or found.is_kept < is_kept:
                continue
            if all(each.holds(found.former) for each in self._before):
                return found.counterexample
        return None

    def _was_filled(self, name: str) -> bool:
        """Return whether the base fills an unmasked column from the same field, with a type that is no wider."""
        new = self.after[name]
        path, unwritten = self._written(new.path)
        return unwritten is None and any(
            old.path == path and old.kind.is_plain and new.kind.is_plain and _is_within(old, new)
            for old in self._before
        )

    def _unheld(self, columns: list[TypedColumn]) -> list[TypedColumn]:
        """Return the columns without a proof, halving the list, because most proofs hold for all of it."""
        self._proofs += 1
        if not columns or (self._proofs <= _MAX_PROOFS and self._is_held(columns)):
            return []
        if len(columns) == 1:
            return columns
        middle = len(columns) // 2
        return self._unheld(columns[:middle]) + self._unheld(columns[middle:])

    def _is_held(self, columns: list[TypedColumn]) -> bool:
        former, latter = self._base.contract.schema_, self._candidate.contract.schema_
        if not (isinstance(former, JsonSchema) and isinstance(latter, JsonSchema)):
            return all(self._holds_avro(each) for each in columns)
        wanted = {"allOf": [_schema_of(each) for each in columns]}
        if _includes(latter, latter.definition, wanted):  # what the new schema refuses is its own finding
            return True
        definition: Any = former.definition
        rules = kept_rules(definition, self._base.contract, self._base.fields)
        kept = with_schemas(definition, [part for _, part in rules]) if rules else definition
        return _includes(former, kept, wanted)

    def _holds_avro(self, column: TypedColumn) -> bool:
        """Return whether a column holds all that a reader decodes; a field that is not written has its default."""
        root = self._candidate.avro
        if root is None or (not column.kind.is_plain and column.type != "json"):
            return False
        path, unwritten = self._written(column.path)
        if unwritten is not None:
            if not unwritten.has_default or not fits(unwritten.default, unwritten.type):
                return True  # a finding about the schema
            value = read(default_value(unwritten.default, unwritten.type), column.path[len(path) + 1 :])
            return value is None or column.kind.convert(value) is not None
        leaves = list(_leaves(root, column.path))
        return bool(leaves) and all(_holds(column, each) for each in leaves)

    def _written(self, path: Path) -> tuple[Path, RecordField | None]:
        """Return the path of a candidate's field in records of the base.

        If Avro's base does not write it, return the path to the innermost written record, and the field that is missing.
        """
        writer, reader = self._base.avro, self._candidate.avro
        written: list[str] = []
        for name in path:
            if not (isinstance(writer, Record) and isinstance(reader, Record)):
                break
            wanted = next((each for each in reader.fields if each.name == name), None)
            source = field_pairs(writer, reader).get(name)
            if source is None or wanted is None:
                return tuple(written), wanted
            written.append(source.name)
            writer, reader = source.type, wanted.type
        return (*written, *path[len(written) :]), None

    def _extremes(self, column: TypedColumn) -> Iterator[Any]:
        """Yield records of the base with extreme values in the field of a column."""
        path, unwritten = self._written(column.path)
        for seed in self._pair.seeds((path,)):
            yield seed
            if unwritten is None:
                yield from (_placed(seed, path, value) for value in _EXTREMES)

    def _differences(self, column: TypedColumn) -> Iterator[Any]:
        """Yield the records by which the prover refutes that the column holds all values."""
        schema = self._base.contract.schema_
        if not isinstance(schema, JsonSchema):
            return
        for each in _inclusion(schema, schema.definition, _schema_of(column)).differences:
            if each.counterexample is not None:
                record = decode_exactly(each.counterexample.text.encode(errors="replace"))
                if not isinstance(record, Violation):
                    yield record


def _compiled(judge: Judge) -> tuple[TypedColumn, ...]:
    schema = judge.contract.schema_
    asserts = isinstance(schema, JsonSchema) and schema.formats == "assert"
    try:
        return compile_columns(judge.contract, judge.fields, formats_hold=asserts)
    except ContractError:
        return ()


def _is_within(old: TypedColumn, new: TypedColumn) -> bool:
    """Return whether the type of `new` accepts every value that the type of `old` accepts."""
    types = old.kind.arrow_type, new.kind.arrow_type
    if old.type.replace(" ", "") == new.type.replace(" ", ""):
        return old.kind.unit == new.kind.unit
    if old.type.startswith("decimal") and new.type.startswith("decimal"):
        return bool(types[0].scale == types[1].scale and types[0].precision <= types[1].precision)
    return new.type in _WIDER.get(old.type, ())


def _inclusion(schema: JsonSchema, definition: Any, wanted: dict[str, Any]) -> Inclusion:
    definition = True if definition is None else definition
    asserts = schema.formats == "assert"
    return json_schema.includes(definition, wanted, formats_asserted=asserts, budget=_STEPS)


def _includes(schema: JsonSchema, definition: Any, wanted: dict[str, Any]) -> bool:
    return _inclusion(schema, definition, wanted).outcome is Outcome.PROVEN


def _schema_of(column: TypedColumn) -> dict[str, Any]:
    """Return a JSON Schema of records whose value the column certainly holds."""
    inner = {"type": "null"} if not column.kind.is_plain and column.type != "json" else _value_schema(column)
    for token in reversed(column.path):
        around: dict[str, Any] = {"properties": {token: inner}}
        if token.isdecimal():
            count = int(token) if len(token) < len(str(_MAX_INDEX)) else _MAX_INDEX
            around |= (
                {"prefixItems": [*[True] * count, inner]}
                if count < _MAX_INDEX
                else {"not": {"type": "array"}}
            )
        inner = around
    return inner


def _value_schema(column: TypedColumn) -> dict[str, Any]:  # noqa: PLR0911 - one for each type
    match column.type.partition("(")[0]:
        case "json":
            return {}
        case "boolean" | "string" as kind:
            return {"type": [kind, "null"]}
        case "int" | "long" as kind:
            limit = 2**31 if kind == "int" else 2**63
            return {"type": ["integer", "null"], "minimum": -limit, "maximum": limit - 1}
        case "float" | "double" as kind:
            most = int(MAX_FLOAT if kind == "float" else MAX_DOUBLE)
            return {"type": ["number", "null"], "minimum": -most, "maximum": most}
        case "decimal":
            # Fractions are left out: a validator may round them to a step.
            digits = column.kind.arrow_type.precision - column.kind.arrow_type.scale
            return {"type": ["integer", "null"], "minimum": 1 - 10**digits, "maximum": 10**digits - 1}
        case "date" | "timestamp" | "timestamp_ntz" as kind:
            return {"type": ["string", "null"], "pattern": _TEXTS[kind]}
        case _:
            return {"type": "null"}


def _leaves(node: AvroType, path: Path) -> Iterator[AvroType | None]:
    """Yield the types of the values at a path of an Avro record; None for a place that cannot be told."""
    if isinstance(node, Union):
        for branch in node.branches:
            yield from _leaves(branch, path)
    elif not path:
        yield node
    elif isinstance(node, Record):
        inner = next((each.type for each in node.fields if each.name == path[0]), None)
        if inner is not None:
            yield from _leaves(inner, path[1:])
    elif isinstance(node, Map):
        yield from _leaves(node.values, path[1:])
    elif isinstance(node, Array):
        yield from _leaves(node.items, path[1:])


def _holds(column: TypedColumn, node: AvroType | None) -> bool:  # noqa: C901, PLR0911 - one for each type
    """Return whether a column certainly holds every value of an Avro type."""
    name = column.type.partition("(")[0]
    if node is None:
        return False
    if name == "json":  # JSON has no NaN
        kinds = {each.kind for each in nodes(node) if isinstance(each, Primitive)}
        return not kinds & {"float", "double"}
    match node:
        case Primitive(kind="null"):
            return True
        case Enum():
            return name == "string"
        case Primitive(kind="bytes", logical=logical) | Fixed(logical=logical) if logical is not None:
            if logical.name != "decimal":
                return False
            whole = logical.precision - logical.scale
            return _holds_digits(column, whole, logical.scale)
        case Primitive(kind="bytes") | Fixed():
            return name == "binary"
        case Primitive(kind="string" | "boolean" as kind):
            return name == kind
        case Primitive(kind="float" | "double" as kind):
            return name in {kind, "double"}
        case Primitive(kind="int" | "long" as kind):
            is_fast = name == kind or name in _WIDER[kind]
            return is_fast or _holds_digits(column, 10 if kind == "int" else 19, 0)
        case _:
            return False


def _holds_digits(column: TypedColumn, whole: int, fraction: int) -> bool:
    """Return whether a column holds every number with so many digits before and after the point."""
    kind = column.kind.arrow_type
    match column.type.partition("(")[0]:
        case "decimal":
            return bool(kind.scale >= fraction and kind.precision - kind.scale >= whole)
        case "int" | "long" as name:
            return fraction == 0 and whole <= (9 if name == "int" else 18)
        case "float" | "double" as name:
            return whole <= (38 if name == "float" else 308)
        case _:
            return False


def _placed(record: Any, path: Path, value: Any) -> Any:
    """Return the record with a value at a path through objects; the record itself if there is no such path."""
    if not path:
        return value
    return (
        {**record, path[0]: _placed(record.get(path[0]), path[1:], value)}
        if isinstance(record, dict)
        else record
    )
