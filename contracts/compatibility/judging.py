"""Records judged by two contracts at once, by their compiled plans: what one writes and the other refuses.

`old` is the contract whose records are asked about, `new` the one that they meet: base and candidate for backward
compatibility, candidate and base for forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Final

import orjson
import pyarrow as pa

from tidegate.contracts.compatibility.samples import listed, sample
from tidegate.contracts.document.fields import SchemaFields, join
from tidegate.contracts.document.model import AvroSchema, Column, DataContract, JsonSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.avro import AvroFormat
from tidegate.contracts.formats.avro_types import AvroType, TooDeepError, parse
from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.formats.json_records import decode_exactly
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.inclusion import json_schema
from tidegate.contracts.inclusion.answer import Counterexample
from tidegate.contracts.inclusion.avro.data import Sizes, encode, json_text, read
from tidegate.contracts.inclusion.avro.documents import schema_of
from tidegate.contracts.inclusion.avro.places import Filling
from tidegate.contracts.inclusion.avro.plain import NoDatumError, datum_of, plain_of, symbols_at
from tidegate.contracts.inclusion.json_schema.values import text_of
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.rules.compiled import Path
from tidegate.contracts.verdict import Disposition, Stage, Violation

_BATCH: Final = 256


class Judge:
    """One contract, its plan compiled when it is first asked."""

    def __init__(self, contract: DataContract) -> None:
        self.contract = contract

    @cached_property
    def plan(self) -> EnforcementPlan | None:
        """The plan, for payloads without a frame; None when the contract does not compile.

        Columns play no part in what it judges, and deriving many of them takes longer than all else.
        """
        names = self.fields.top_level()[:1]
        column = [
            Column.model_validate({"name": "c", "from": join((name,)), "type": "json"}) for name in names
        ]
        changes = {"framing": "none", "primary_key": (), "columns": tuple(column)}
        try:
            return compile_plan(self.contract.model_copy(update=changes))
        except ContractError:
            return None

    @cached_property
    def fields(self) -> SchemaFields:
        """The fields that the schema declares. Raises ContractError for what is no schema."""
        schema = self.contract.schema_
        if isinstance(schema, JsonSchema):
            return JsonFields(schema.definition if schema.definition is not None else True)
        return AvroFormat(schema).fields

    def takes_long(self, record: Any) -> bool:
        """Return whether the schema looks at a record more often than is judged; a nesting of forty levels may take 2^40 looks."""
        payload_format = None if self.plan is None else self.plan.payload_format
        return isinstance(payload_format, JsonSchemaFormat) and payload_format.takes_long(record)

    @cached_property
    def avro(self) -> AvroType | None:
        """The types of an Avro schema; None for a JSON Schema, and for what cannot be looked at."""
        try:
            is_avro = isinstance(self.contract.schema_, AvroSchema)
            return parse(self.contract.schema_.definition) if is_avro else None
        except TooDeepError:
            return None

    def listed(self, path: Path) -> tuple[Any, ...]:
        """Return values that the schema names for a field: of an enum, of bounds."""
        schema = self.contract.schema_
        if isinstance(schema, JsonSchema):
            return listed(schema.definition, path)
        return () if self.avro is None else symbols_at(self.avro, path)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What `new` says of a record that `old` writes."""

    record: Any
    counterexample: Counterexample
    rules: frozenset[str]
    """Ids of the rules of `new` that the record breaks."""
    fits: bool
    """Whether the record fits the schema of `new`."""
    is_refused: bool
    """Whether `new` does not write it."""


class Pair:
    """Two contracts between which records are sought."""

    def __init__(self, old: Judge, new: Judge) -> None:
        self.old = old
        self.new = new

    def seeds(self, needed: tuple[Path, ...]) -> Iterator[Any]:
        """Yield some small records that should fit the schema of `old`, with the objects at some paths."""
        schema = self.old.contract.schema_
        if isinstance(schema, JsonSchema):
            yield sample(schema.definition, needed)
            yield from self._found
            return
        root = self.old.avro
        if root is not None and (sizes := Sizes(root)).exists(root):
            yield plain_of(Filling(sizes).fill(root, self.new.avro))

    def judge(self, records: Iterable[Any]) -> Iterator[Refusal]:
        """Yield the records that `old` writes and that break something of `new`."""
        iterator = iter(records)
        while batch := list(islice(iterator, _BATCH)):
            yield from self._judge(batch)

    def broken(self, record: Any) -> frozenset[str] | None:
        """Return the rules of `old` that keep it from writing a record; None when the schema does."""
        plan = self.old.plan
        value = self._old_value(record)
        if plan is None or value is None:
            return None
        verdict = plan.explain(value)
        if any(violation.stage is not Stage.RULE for violation in verdict.violations):
            return None
        if verdict.disposition.is_written:
            return frozenset()
        return frozenset(violation.code for violation in verdict.violations)

    def _judge(self, batch: Sequence[Any]) -> Iterator[Refusal]:
        if self.old.plan is None or self.new.plan is None:
            return
        values = [self._old_value(record) for record in batch]
        known = [(record, value) for record, value in zip(batch, values, strict=True) if value is not None]
        judged = self.old.plan.judge(pa.array([value for _, value in known], pa.large_binary()))
        written = [Disposition(code).is_written for code in judged.field("disposition").to_pylist()]
        met = [
            (record, value) for (record, value), is_written in zip(known, written, strict=True) if is_written
        ]
        read_values = [self._new_value(value) for _, value in met]
        verdicts = self.new.plan.judge(pa.array(read_values, pa.large_binary())).to_pylist()
        for (record, value), new_value, verdict in zip(met, read_values, verdicts, strict=True):
            slots = self.new.plan.failed_slots(verdict["failed"])
            if new_value is None or not slots:
                continue
            yield Refusal(
                record,
                self._counterexample(record, value),
                frozenset(slot.code for slot in slots if slot.stage is Stage.RULE),
                all(slot.stage is Stage.RULE for slot in slots),
                not Disposition(verdict["disposition"]).is_written,
            )

    def _old_value(self, record: Any) -> bytes | None:
        """Write a record with the schema of `old`; None when it is no such record."""
        if isinstance(self.old.contract.schema_, JsonSchema):
            takes_long = self.old.takes_long(record) or self.new.takes_long(record)
            return None if takes_long else _json(record)
        try:
            return None if self.old.avro is None else encode(self.old.avro, datum_of(self.old.avro, record))
        except NoDatumError:
            return None

    def _new_value(self, value: bytes) -> bytes | None:
        """Return what `new` reads of a value that `old` wrote, written with its own schema; None when it reads none."""
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
        except TooDeepError:
            return None

    def _counterexample(self, record: Any, value: bytes) -> Counterexample:
        if self.old.avro is None:
            return Counterexample(value.decode())
        return Counterexample(json_text(self.old.avro, datum_of(self.old.avro, record)), value)

    @cached_property
    def _found(self) -> tuple[Any, ...]:
        """The record by which a proof shows that the schema of `old` does not refuse everything; sought once."""
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
    except orjson.JSONEncodeError:  # integers beyond 64 bits, decimals
        return text_of(record).encode()
