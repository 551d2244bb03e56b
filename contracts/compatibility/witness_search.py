"""Search for records that one contract writes and the other refuses, by judging with the compiled plans of both.

`old` is the contract that accepts the records, `new` the one that must accept them too. These are base and candidate
for backward compatibility, candidate and base for forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Final

import orjson
import pyarrow as pa

from tidegate.contracts.document.fields import SchemaFields, join
from tidegate.contracts.document.model import AvroSchema, Column, DataContract, JsonSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.avro import AvroFormat
from tidegate.contracts.formats.avro_types import AvroTooDeepError, AvroType, parse
from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.formats.json_keywords import referred
from tidegate.contracts.formats.json_records import decode_exactly
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.inclusion import json_schema
from tidegate.contracts.inclusion.answer import Counterexample
from tidegate.contracts.inclusion.avro.data import (
    NoDatumError,
    Sizes,
    datum_of,
    encode,
    json_text,
    plain_of,
    read,
    symbols_at,
)
from tidegate.contracts.inclusion.avro.documents import schema_of
from tidegate.contracts.inclusion.avro.places import Filling
from tidegate.contracts.inclusion.json_schema.regular import Question, answer
from tidegate.contracts.inclusion.json_schema.values import text_of
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.rules.places import EACH, Path
from tidegate.contracts.verdict import Disposition, Stage, Violation

_MAX_DEPTH: Final = 24
_MAX_STEPS: Final = 20_000
_MAX_LISTED: Final = 50
_FORMATS: Final = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "a@example.org",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "uri": "urn:a",
    "ipv4": "192.0.2.1",
    "hostname": "example.org",
}
_EMPTY: Final[dict[str, Any]] = {"null": None, "boolean": False, "array": [], "object": {}}
_ORDER: Final = ("object", "string", "integer", "number", "boolean", "array", "null")


def sample(schema: Any, needed: tuple[Path, ...] = ()) -> Any:
    """Return a guess of a small value that fits a schema, with the members at the paths in `needed`.

    The caller must check whether it fits.
    """
    return _Guess(schema).value(schema, needed, 0)


def listed(schema: Any, path: Path) -> tuple[Any, ...]:
    """Return the values that a schema lists for the member at a path, and its bounds with their neighbours."""
    guess = _Guess(schema)
    values: list[Any] = []
    for part in guess.at(schema, path):
        values += part.get("enum", [])[:_MAX_LISTED] if isinstance(part.get("enum"), list) else []
        values += [part["const"]] if "const" in part else []
        for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            bound = part.get(keyword)
            if isinstance(bound, int | float) and not isinstance(bound, bool):
                values += [bound, bound - 1, bound + 1]
    return tuple(values)


class _Guess:
    """Guesses small values of a JSON Schema, with local references followed and a limited number of steps."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._steps = 0

    def value(self, schema: Any, needed: tuple[Path, ...], depth: int) -> Any:  # noqa: PLR0911 - one for each type
        merged = self._merged(schema, depth)
        if "const" in merged:
            return merged["const"]
        if isinstance(merged.get("enum"), list) and merged["enum"]:
            return merged["enum"][0]
        needed = tuple(path for path in needed if path)
        match _type(merged, is_object=bool(needed)):
            case "object" if depth < _MAX_DEPTH:
                return self._object(merged, needed, depth)
            case "array" if depth < _MAX_DEPTH:
                return self._array(merged, needed, depth)
            case "string":
                return _string(merged)
            case "integer" | "number" as kind:
                return _number(merged, is_whole=kind == "integer")
            case kind:
                return _EMPTY[kind]

    def at(self, schema: Any, path: Path) -> list[dict[str, Any]]:
        """Return the constraints of a schema on the member at a path, one dict for each alternative."""
        parts = self._alternatives(schema, 0)
        if not path:
            return parts
        inner = [part.get("items" if path[0] == EACH else "properties") for part in parts]
        if path[0] != EACH:
            inner = [(properties or {}).get(path[0]) for properties in inner]
        return [found for each in inner if each is not None for found in self.at(each, path[1:])]

    def _alternatives(self, schema: Any, depth: int) -> list[dict[str, Any]]:
        merged = self._merged(schema, depth)
        branches = [each for keyword in ("anyOf", "oneOf") for each in merged.get(keyword, [])]
        found = [merged]
        if depth < _MAX_DEPTH and self._steps < _MAX_STEPS:
            found += [each for branch in branches for each in self._alternatives(branch, depth + 1)]
        return found

    def _object(self, schema: dict[str, Any], needed: tuple[Path, ...], depth: int) -> Any:
        properties = schema.get("properties", {})
        names = dict.fromkeys([*schema.get("required", []), *(path[0] for path in needed)])
        return {
            name: self.value(
                properties.get(name, {}), tuple(path[1:] for path in needed if path[0] == name), depth + 1
            )
            for name in names
        }

    def _array(self, schema: dict[str, Any], needed: tuple[Path, ...], depth: int) -> list[Any]:
        items = schema.get("items", {})
        leading = schema.get("prefixItems", items if isinstance(items, list) else [])
        rest = items if isinstance(items, dict) else {}
        within = tuple(path[1:] for path in needed if path[0] == EACH)
        count = max(min(int(schema.get("minItems", 0)), 10), bool(within))
        return [
            self.value(leading[index] if index < len(leading) else rest, within, depth + 1)
            for index in range(count)
        ]

    def _merged(self, schema: Any, depth: int) -> dict[str, Any]:
        """Return a schema merged with its `$ref`, its `allOf` and the first alternative of `anyOf` and `oneOf`."""
        self._steps += 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            return {}
        parts = [referred(self._root, schema["$ref"])] if isinstance(schema.get("$ref"), str) else []
        parts += schema.get("allOf", [])
        parts += [schema[keyword][0] for keyword in ("anyOf", "oneOf") if schema.get(keyword)]
        merged = dict(schema)
        for part in parts:
            for keyword, value in self._merged(part, depth + 1).items():
                match merged.get(keyword), value:
                    case dict(ours), dict():
                        merged[keyword] = {**value, **ours}
                    case list(ours), list() if keyword == "required":
                        merged[keyword] = [*ours, *value]
                    case None, _:
                        merged[keyword] = value
        return merged


def _type(schema: dict[str, Any], *, is_object: bool) -> str:
    written = schema.get("type")
    types = [written] if isinstance(written, str) else written if isinstance(written, list) else list(_ORDER)
    if is_object and "object" in types:
        return "object"
    return next((kind for kind in _ORDER if kind in types), "null")


def _string(schema: dict[str, Any]) -> str:
    if isinstance(schema.get("pattern"), str) and (text := _matching(schema)) is not None:
        return text
    text = _FORMATS.get(str(schema.get("format")), "")
    return text.ljust(min(int(schema.get("minLength", 0)), 1_000), "a")


def _matching(schema: dict[str, Any]) -> str | None:
    """Return a shortest string that matches the pattern and the length limits of a schema; None if none is found."""
    most = schema.get("maxLength")
    length = int(schema.get("minLength", 0)), None if most is None else int(most)
    return answer(Question((schema["pattern"],), (), *length))[0]


def _number(schema: dict[str, Any], *, is_whole: bool) -> Any:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    number: Any = 0
    if low is not None and number < low:
        number = low
    if isinstance(above, int | float) and not isinstance(above, bool) and number <= above:
        number = above + 1
    if high is not None and number > high:
        number = high
    if isinstance(below, int | float) and not isinstance(below, bool) and number >= below:
        number = below - 1
    step = schema.get("multipleOf")
    if step:
        number = step * -(-number // step)
    return int(number) if is_whole and number == int(number) else number


_BATCH: Final = 256
_FEW: Final = 100
"""Records that are judged without the fast path."""


class Judge:
    """One contract, with its plans, which are compiled on first use."""

    def __init__(self, contract: DataContract) -> None:
        self.contract = contract
        self._judged = 0

    @cached_property
    def plan(self) -> EnforcementPlan | None:
        """Return the plan for payloads without framing, without a fast path; None if the contract does not compile.

        It has only one column: columns do not affect the verdict, and deriving many of them is slow.
        """
        return self._compiled(fastpath=False)

    @cached_property
    def _fast_plan(self) -> EnforcementPlan | None:
        return self._compiled(fastpath=None)

    def plan_for(self, records: int) -> EnforcementPlan | None:
        """Return the plan for judging so many more records; None if the contract does not compile.

        Most comparisons judge few records. For 300 fields, the fast path then takes longer to compile than it saves.
        """
        self._judged += records
        return self.plan if self._judged <= _FEW else self._fast_plan

    def _compiled(self, *, fastpath: bool | None) -> EnforcementPlan | None:
        names = self.fields.top_level()[:1]
        column = [
            Column.model_validate({"name": "c", "from": join((name,)), "type": "json"}) for name in names
        ]
        changes = {"framing": "none", "primary_key": (), "columns": tuple(column)}
        try:
            return compile_plan(self.contract.model_copy(update=changes), fastpath=fastpath)
        except ContractError:
            return None

    @cached_property
    def fields(self) -> SchemaFields:
        """Return the fields that the schema declares. Raises ContractError for an invalid schema."""
        schema = self.contract.schema_
        if isinstance(schema, JsonSchema):
            return JsonFields(schema.definition if schema.definition is not None else True)
        return AvroFormat(schema).fields

    def takes_long(self, record: Any) -> bool:
        """Return whether validating a record exceeds the work limit; forty nested levels may take 2^40 steps."""
        payload_format = None if self.plan is None else self.plan.payload_format
        return isinstance(payload_format, JsonSchemaFormat) and payload_format.takes_long(record)

    @cached_property
    def avro(self) -> AvroType | None:
        """Return the parsed Avro schema; None for a JSON Schema, and for an Avro schema that is too deeply nested."""
        try:
            is_avro = isinstance(self.contract.schema_, AvroSchema)
            return parse(self.contract.schema_.definition) if is_avro else None
        except AvroTooDeepError:
            return None

    def listed(self, path: Path) -> tuple[Any, ...]:
        """Return the values that the schema names for a field: those of an enum, and bounds with their neighbours."""
        schema = self.contract.schema_
        if isinstance(schema, JsonSchema):
            return listed(schema.definition, path)
        return () if self.avro is None else symbols_at(self.avro, path)


@dataclass(frozen=True, slots=True)
class WitnessRefusal:
    """The verdict of `new` on a record that `old` writes and that breaks `new`."""

    record: Any
    counterexample: Counterexample
    rules: frozenset[str]
    """Ids of the rules of `new` that the record breaks."""
    fits: bool
    """Whether the record fits the schema of `new`."""
    is_refused: bool
    """Whether `new` does not write the record."""


@dataclass(frozen=True, slots=True)
class WrittenRecord:
    """A record that `old` writes, as both contracts decode it."""

    former: Any
    latter: Any
    counterexample: Counterexample
    is_kept: bool
    """Whether `new` writes it too, apart from its columns."""


class ContractPair:
    """Two contracts, and the search for records that they judge differently."""

    def __init__(self, old: Judge, new: Judge) -> None:
        self.old = old
        self.new = new

    def seeds(self, needed: tuple[Path, ...]) -> Iterator[Any]:
        """Yield a few small records that should fit the schema of `old`; `needed` are paths of required objects."""
        schema = self.old.contract.schema_
        if isinstance(schema, JsonSchema):
            yield sample(schema.definition, needed)
            yield from self._found
            return
        root = self.old.avro
        if root is not None and (sizes := Sizes(root)).exists(root):
            yield plain_of(Filling(sizes).fill(root, self.new.avro))

    def judge(self, records: Iterable[Any]) -> Iterator[WitnessRefusal]:
        """Yield the verdict of `new` on each record that `old` writes and that breaks something of `new`."""
        iterator = iter(records)
        while batch := list(islice(iterator, _BATCH)):
            yield from self._judge(batch)

    def written(self, record: Any) -> WrittenRecord | None:
        """Return a record as both contracts decode it; None if `old` does not write it, or `new` cannot read it.

        The columns of `old` are not considered.
        """
        old, new, value = self.old.plan_for(1), self.new.plan_for(1), self._old_value(record)
        if old is None or new is None or value is None or not old.explain(value).disposition.is_written:
            return None
        new_value = self._new_value(value)
        former, latter = old.record_of(value), None if new_value is None else new.record_of(new_value)
        if new_value is None or isinstance(former, Violation) or isinstance(latter, Violation):
            return None
        is_kept = new.explain(new_value).disposition.is_written
        return WrittenRecord(former, latter, self._counterexample(record, value), is_kept)

    def broken(self, record: Any) -> frozenset[str] | None:
        """Return the ids of the rules of `old` that a record breaks; empty if `old` writes the record.

        None if its schema refuses the record, or the record cannot be judged.
        """
        plan = self.old.plan_for(1)
        value = self._old_value(record)
        if plan is None or value is None:
            return None
        verdict = plan.explain(value)
        if any(violation.stage is not Stage.RULE for violation in verdict.violations):
            return None
        if verdict.disposition.is_written:
            return frozenset()
        return frozenset(violation.code for violation in verdict.violations)

    def _judge(self, batch: Sequence[Any]) -> Iterator[WitnessRefusal]:
        old, new = self.old.plan_for(len(batch)), self.new.plan_for(len(batch))
        if old is None or new is None:
            return
        values = [self._old_value(record) for record in batch]
        known = [(record, value) for record, value in zip(batch, values, strict=True) if value is not None]
        judged = old.judge(pa.array([value for _, value in known], pa.large_binary()))
        written = [Disposition(code).is_written for code in judged.field("disposition").to_pylist()]
        met = [
            (record, value) for (record, value), is_written in zip(known, written, strict=True) if is_written
        ]
        read_values = [self._new_value(value) for _, value in met]
        verdicts = new.judge(pa.array(read_values, pa.large_binary())).to_pylist()
        for (record, value), new_value, verdict in zip(met, read_values, verdicts, strict=True):
            slots = new.failed_slots(verdict["failed"])
            if new_value is None or not slots:
                continue
            yield WitnessRefusal(
                record,
                self._counterexample(record, value),
                frozenset(slot.code for slot in slots if slot.stage is Stage.RULE),
                all(slot.stage is Stage.RULE for slot in slots),
                not Disposition(verdict["disposition"]).is_written,
            )

    def _old_value(self, record: Any) -> bytes | None:
        """Return a record as a payload of `old`; None if judging takes too long or it does not fit an Avro schema."""
        if isinstance(self.old.contract.schema_, JsonSchema):
            takes_long = self.old.takes_long(record) or self.new.takes_long(record)
            return None if takes_long else _json(record)
        try:
            return None if self.old.avro is None else encode(self.old.avro, datum_of(self.old.avro, record))
        except (NoDatumError, OverflowError):  # a number may exceed the type float
            return None

    def _new_value(self, value: bytes) -> bytes | None:
        """Return a payload of `old` as a payload in the schema of `new`; None if `new` cannot read it.

        An Avro payload is resolved against the schema of `new`; JSON stays the same.
        """
        if isinstance(self.old.contract.schema_, JsonSchema):
            return value
        if self._avro_schemas is None or self.new.avro is None:
            return None
        resolved, failure = read(value, *self._avro_schemas)
        try:
            return None if failure else encode(self.new.avro, datum_of(self.new.avro, resolved))
        except NoDatumError:
            return None

    @cached_property
    def _avro_schemas(self) -> tuple[Any, Any] | None:
        if self.old.avro is None or self.new.avro is None:
            return None
        try:
            return schema_of(self.old.avro), schema_of(self.new.avro)
        except AvroTooDeepError:
            return None

    def _counterexample(self, record: Any, value: bytes) -> Counterexample:
        if self.old.avro is None:
            return Counterexample(value.decode())
        return Counterexample(json_text(self.old.avro, datum_of(self.old.avro, record)), value)

    @cached_property
    def _found(self) -> tuple[Any, ...]:
        """Return records that the JSON Schema of `old` accepts: counterexamples to a schema that accepts nothing."""
        schema = self.old.contract.schema_
        if not isinstance(schema, JsonSchema):
            return ()
        definition = True if schema.definition is None else schema.definition
        inclusion = json_schema.includes(definition, False, formats_asserted=schema.formats == "assert")
        shown = [each.counterexample.text for each in inclusion.differences if each.counterexample]
        records = (decode_exactly(text.encode()) for text in shown)
        return tuple(record for record in records if type(record) is not Violation)


def _json(record: Any) -> bytes:
    try:
        return orjson.dumps(record)
    except orjson.JSONEncodeError:  # integers beyond 64 bits, or Decimals
        return text_of(record).encode()
