"""A contract version, compiled. The one way in which a record gets a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contracts.acceptance.acceptance import Acceptance
from contracts.acceptance.compile import compile_acceptance
from contracts.acceptance.table import TypedAcceptance
from contracts.columns import TableRows, TypedColumn, compile_columns
from contracts.consistency import inconsistencies
from contracts.errors import ContractError, Problem
from contracts.expectations.compile import ExpectationPlan, compile_expectations
from contracts.fingerprint import fingerprint
from contracts.formats.avro import AvroFormat
from contracts.formats.json_schema import JsonSchemaFormat
from contracts.formats.payload import NO_PAYLOAD, PayloadFormat
from contracts.judged import VERDICT_TYPE, Verdicts
from contracts.model import AvroSchema, DataContract, JsonSchema
from contracts.privacy.masks import Masks, masks_of, privacy_problems
from contracts.privacy.tokens import MaskKey
from contracts.record import decode_value
from contracts.rules.clock import Moments, SetClock
from contracts.rules.compile import DISPOSITIONS, compile_rules
from contracts.rules.compiled import RuleSet
from contracts.table_limits import NO_LIMITS, TableLimits, Unfit, with_keys
from contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from contracts.wire import Framed, Frames
from contracts.writers import WriterSchemas

_STAGES: Final = (Stage.FRAME, Stage.DECODE, Stage.SCHEMA, Stage.COLUMN)
_STAGE_BITS: Final = {stage: 1 << index for index, stage in enumerate(_STAGES)}
_SCHEMA_BIT: Final = _STAGE_BITS[Stage.SCHEMA]
_COLUMN_BIT: Final = _STAGE_BITS[Stage.COLUMN]
_EMPTY_RECORD: Final[dict[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Slot:
    """What one bit of a verdict's `failed` stands for: a rule (code is its id) or a whole stage (code is its name)."""

    stage: Stage
    code: str
    severity: Severity


class EnforcementPlan:
    """Judges records of one contract version. Made by `compile_plan`; picklable (it recompiles where it arrives)."""

    def __init__(
        self,
        contract: DataContract,
        payload_format: PayloadFormat,
        rules: RuleSet,
        columns: tuple[TypedColumn, ...],
        acceptance: tuple[Acceptance, TypedAcceptance] | None,
        masks: Masks,
    ) -> None:
        self.contract = contract
        self.fingerprint = fingerprint(contract)
        self.slots = (
            *(Slot(stage, stage.value, Severity.ERROR) for stage in _STAGES),
            *(Slot(Stage.RULE, rule.id, rule.severity) for rule in rules.rules),
        )
        self.columns = pa.schema([(column.name, column.kind.arrow_type) for column in columns])
        """Arrow schema of the typed columns that `judge_typed` returns, in contract order."""
        self.expectations: ExpectationPlan = compile_expectations(contract.expectations, self.columns)[0]
        """What the accepted records of a batch must look like together; empty when the contract says nothing of it."""
        self.typed_columns = columns
        self.masks = masks
        self.payload_format = self._format = payload_format
        self._rules = rules
        self._columns = columns
        self._acceptance = acceptance[0] if acceptance is not None else None
        self._typed_acceptance = acceptance[1] if acceptance is not None else None
        self._reads = _fields_read(rules)
        self._frames = Frames(contract.framing, contract.schema_.type)
        self._now: int | None = None
        self._limits = NO_LIMITS
        refusal = DISPOSITIONS[contract.on_violation]
        self._dispositions = (*(refusal for _ in _STAGES), *(rule.disposition for rule in rules.rules))

    def __reduce__(
        self,
    ) -> tuple[Any, tuple[str, WriterSchemas | None, int | None, MaskKey | None, TableLimits]]:
        document = self.contract.model_dump_json(by_alias=True, exclude_defaults=True)
        return _rebuilt, (document, self._frames.writers, self._now, self.masks.key, self._limits)

    @property
    def needs_writers(self) -> bool:
        """Whether records name the schema that they were written with, so that `with_writers` is called for."""
        return self.contract.framing != "none"

    def with_writers(self, writers: WriterSchemas | None) -> EnforcementPlan:
        """Give this plan with the schemas that records may name. Without them no name is looked up."""
        plan = object.__new__(EnforcementPlan)
        plan.__dict__.update(self.__dict__, _frames=replace(self._frames, writers=writers))
        return plan

    @property
    def asks_now(self) -> bool:
        """Whether a rule compares with now, so that `judge` wants to know the moments of records."""
        return self._rules.clock is not None

    def with_now(self, now: int) -> EnforcementPlan:
        """Give this plan with the moment of one batch, in nanoseconds since 1970, for the rules that ask for it."""
        plan = object.__new__(EnforcementPlan)
        plan.__dict__.update(self.__dict__, _now=now)
        return plan

    def for_table(self, limits: TableLimits) -> EnforcementPlan:
        """Give this plan for a table that holds less than its columns' types do: `judge_typed` refuses the others."""
        plan = object.__new__(EnforcementPlan)
        plan.__dict__.update(self.__dict__, _limits=limits)
        return plan

    def judge(
        self, values: pa.Array, moments: Moments | None = None, headers: pa.Array | None = None
    ) -> pa.StructArray:
        """Judge raw record values.

        Takes an array of binary or large_binary, one record value an element (null: a tombstone), and the moments
        that are now for the rules that ask for it: that of `with_now`, or of the call, when left out. `headers` are the schema headers
        beside the values, an array of binary; without them framing confluent-header looks at none.
        Returns VERDICT_TYPE, same length, never null. Never raises on any value, but Unavailable when a record names a
        schema that only a registry which is away can know.
        """
        verdicts = Verdicts(len(values), self._dispositions)
        framed = self._frames.open(values, headers)
        for index, record in self._unsound(framed, self._setting(moments, len(values)), verdicts):
            bits = self._bits(record, framed, index)
            if bits:
                verdicts.add(index, bits)
        return verdicts.array()

    def judge_typed(
        self,
        values: pa.Array,
        moments: Moments | None = None,
        headers: pa.Array | None = None,
        keys: pa.Array | None = None,
    ) -> pa.StructArray:
        """Judge as `judge` does, and give the typed columns of the records that are written.

        Returns struct<disposition, failed, columns: struct<...self.columns>>, same length; `columns` is null for
        a record that is not written. A value that a column cannot hold is a violation of stage column; if the
        contract has such a record written (on_violation alert), the column is null there. What `for_table` asks for is
        held likewise, but a record without a primary key is never written. `keys` are the Kafka keys, an array of
        binary, for tables from which tombstones delete.
        """
        verdicts = Verdicts(len(values), self._dispositions)
        fill = self._fill_by_records if self._typed_acceptance is None else self._fill_by_rows
        framed = self._frames.open(values, headers)
        arrays, refused = fill(framed, verdicts, self._setting(moments, len(values)))
        for index in refused:
            if verdicts.is_written(index):
                verdicts.add(index, _COLUMN_BIT)
        if self._limits != NO_LIMITS:
            arrays = with_keys(
                self._limits, self._columns, arrays, values, pa.nulls(len(values)) if keys is None else keys
            )
            for unfit in self._limits.unfit(self._columns, arrays):
                self._refuse(unfit, verdicts, arrays)
        return self._with_columns(verdicts, arrays)

    def _refuse(self, unfit: Unfit, verdicts: Verdicts, arrays: list[pa.Array]) -> None:
        """Add what a table cannot hold to the verdicts of the rows that would be written; it is null there."""
        least = self._least((unfit,))
        is_written = ~np.asarray(verdicts.not_written())
        for index in np.flatnonzero(unfit.is_row & is_written).tolist():
            verdicts.add(index, _COLUMN_BIT, least)
        array = arrays[unfit.column]
        arrays[unfit.column] = pc.if_else(pa.array(unfit.is_row), pa.scalar(None, array.type), array)

    def explain(
        self,
        value: bytes | None,
        header: bytes | None = None,
        *,
        typed: bool = False,
        moments: Moments | None = None,
        key: bytes | None = None,
    ) -> Verdict:
        """Judge one record with all its evidence; `header` is its schema header, see `wire.schema_header`.

        `judge` gives the same disposition and the same failed slots of the same `moments`, and so does `judge_typed`
        with `typed`, which adds the values that columns cannot hold, and with the Kafka `key`.
        """
        if (at := self._setting(moments, 1)) is not None:
            at(0)
        record, violations = self._evidence(value, header)
        disposition = self._disposition_of(violations)
        if typed and disposition.is_written:
            violations += tuple(column.violation for column in self._columns if not column.holds(record))
            disposition = self._disposition_of(violations)
        if typed and disposition.is_written and self._limits != NO_LIMITS:
            unfit = self._unfit(value, key, record)
            violations += tuple(each.violation for each in unfit)
            disposition = max(self._disposition_of(violations), self._least(unfit))
        return Verdict(disposition, violations)

    def _least(self, unfit: Sequence[Unfit]) -> Disposition:
        """Say what becomes at least of a record that would only alert: one without a primary key cannot be written."""
        is_kept_out = DISPOSITIONS[self.contract.on_violation].is_written and any(
            each.is_of_key for each in unfit
        )
        return Disposition.QUARANTINED if is_kept_out else Disposition.ACCEPTED

    def _unfit(self, value: bytes | None, key: bytes | None, record: Any) -> list[Unfit]:
        """Say what a table cannot hold of one record."""
        rows = TableRows(self._columns)
        rows.add(record)
        values, keys = pa.array([value], pa.large_binary()), pa.array([key], pa.binary())
        arrays = with_keys(self._limits, self._columns, rows.finish()[0], values, keys)
        return [each for each in self._limits.unfit(self._columns, arrays) if each.is_row[0]]

    def record_of(self, value: bytes | None, header: bytes | None = None) -> Any:
        """Decode one value: the record, or the Violation that stands for one. Raises as `judge` does."""
        return self._decoded(self._framed(value, header))

    @property
    def writers(self) -> WriterSchemas | None:
        """The schemas that records may name; None when they were not looked up."""
        return self._frames.writers

    def failed_slots(self, failed: bytes | None) -> tuple[Slot, ...]:
        """Decode a bit set that `judge` returned."""
        bits = int.from_bytes(failed or b"", "little")
        return tuple(slot for index, slot in enumerate(self.slots) if bits >> index & 1)

    def _setting(self, moments: Moments | None, length: int) -> SetClock | None:
        """Make what sets the clock of the rules to the moment of a record, by its index; None when no rule asks."""
        clock = self._rules.clock
        return None if clock is None else clock.setting(moments or Moments(), self._now, length)

    def _unsound(self, framed: Framed, at: SetClock | None, verdicts: Verdicts) -> Iterator[tuple[int, Any]]:
        """Give all records but those of which the verdict is known, with their index, the clock set to each."""
        if self._acceptance is None:
            yield from (
                self._format.unsound(framed, self._rules.hold, self._reads)
                if at is None
                else self._timed(framed, at)
            )
            return
        for block in self._acceptance.blocks(framed.payloads, at):
            for position, bits in block.broken:
                verdicts.add(block.start + position, bits << len(_STAGES))
            for position, value, may_change in block.others:
                if at is not None:
                    at(block.start + position)
                yield block.start + position, decode_value(value, may_change=may_change)

    def _timed(self, framed: Framed, at: SetClock) -> Iterator[tuple[int, Any]]:
        fits, hold = self._format.is_valid, self._rules.hold
        for index, record in enumerate(self._format.decode(framed)):
            at(index)
            if type(record) is Violation or not fits(record) or not hold(record):
                yield index, record

    def _fill_by_rows(
        self, framed: Framed, verdicts: Verdicts, at: SetClock | None
    ) -> tuple[list[pa.Array], list[int]]:
        """Judge, and fill the columns from what was kept of accepted records; of the others, from their records."""
        assert self._typed_acceptance is not None  # noqa: S101 - narrows for the type checker
        columns = self._typed_acceptance.rows()
        length = len(framed.payloads)
        for block in self._typed_acceptance.blocks(framed.payloads, at):
            written: dict[int, Any] = {}
            for position, bits in block.broken:
                verdicts.add(block.start + position, bits << len(_STAGES))
            for position, value, may_change in block.others:
                if at is not None:
                    at(block.start + position)
                record = decode_value(value, may_change=may_change)
                bits = self._bits(record, framed, block.start + position)
                is_written = not bits or verdicts.add(block.start + position, bits).is_written
                if is_written and type(record) is not Violation:
                    written[position] = record
            columns.add(block, written)
        return columns.finish(length)

    def _fill_by_records(
        self, framed: Framed, verdicts: Verdicts, at: SetClock | None
    ) -> tuple[list[pa.Array], list[int]]:
        """Judge, and fill the columns from the records."""
        rows = TableRows(self._columns)
        fits, hold = self._format.is_valid, self._rules.hold
        for index, record in enumerate(self._format.decode(framed)):
            if at is not None:
                at(index)
            is_sound = type(record) is not Violation and fits(record) and hold(record)
            bits = 0 if is_sound else self._bits(record, framed, index)
            is_written = not bits or verdicts.add(index, bits).is_written
            # What is not written has a row too, of nulls: cheaper than to put the others back in their places.
            rows.add(record if is_written and type(record) is not Violation else _EMPTY_RECORD)
        return rows.finish()

    def _bits(self, record: Any, framed: Framed, index: int) -> int:
        """Give the bit set of failed slots of a record, or of the Violation that stands for one."""
        if type(record) is Violation:
            violation = self._undecoded(record, framed, index)
            return _STAGE_BITS[violation.stage] if violation else 0
        fits = self._format.is_valid(record)
        bits = self._rules.broken(record, fits) << len(_STAGES)
        return bits if fits else bits | _SCHEMA_BIT

    def _evidence(self, value: bytes | None, header: bytes | None) -> tuple[Any, tuple[Violation, ...]]:
        """Decode and judge one value: the record, and its violations of every stage but column."""
        framed = self._framed(value, header)
        record = self._decoded(framed)
        if type(record) is Violation:
            violation = self._undecoded(record, framed, 0)
            return _EMPTY_RECORD, () if violation is None else (violation,)
        fits = self._format.is_valid(record)
        of_schema = () if fits else self._format.violations(record)
        return record, (*of_schema, *self._rules.violations(record, fits=fits))

    def _framed(self, value: bytes | None, header: bytes | None) -> Framed:
        # Where nobody looks schemas up, nobody may have kept the headers.
        is_known = header is not None or self._frames.writers is not None
        headers = pa.array([header], pa.binary()) if is_known else None
        return self._frames.open(pa.array([value], pa.large_binary()), headers)

    def _decoded(self, framed: Framed) -> Any:
        (record,) = self._format.decode(framed)
        return record

    def _undecoded(self, violation: Violation, framed: Framed, index: int) -> Violation | None:
        """Say what a value is that gave no record; None for a tombstone that the contract lets pass."""
        if violation is not NO_PAYLOAD:
            return violation
        if (refusal := framed.refusals.get(index)) is not None:
            return refusal
        return NO_PAYLOAD if self.contract.tombstones == "refuse" else None

    def _disposition_of(self, violations: tuple[Violation, ...]) -> Disposition:
        rules = {rule.id: rule.disposition for rule in self._rules.rules}
        refusal = DISPOSITIONS[self.contract.on_violation]
        return max(
            (rules[each.code] if each.stage is Stage.RULE else refusal for each in violations),
            default=Disposition.ACCEPTED,
        )

    def _with_columns(self, verdicts: Verdicts, arrays: list[pa.Array]) -> pa.StructArray:
        """Put the columns beside the verdicts; null where a record is not written."""
        columns = pa.StructArray.from_arrays(arrays, fields=list(self.columns), mask=verdicts.not_written())
        verdict = verdicts.array()
        return pa.StructArray.from_arrays(
            [verdict.field(0), verdict.field(1), columns],
            fields=[*VERDICT_TYPE, pa.field("columns", columns.type)],
        )


def compile_plan(contract: DataContract, mask_key: MaskKey | None = None) -> EnforcementPlan:
    """Compile a self-contained contract (its schema given by `definition`).

    `mask_key` makes the tokens of hashed fields: who writes what `judge_typed` gives needs it, who only judges does not.

    Raises ContractError with every problem found: a contract that contradicts itself, a rule on a field that the
    schema does not have, a type-mixed comparison, a bad pattern or expression, an ambiguous column, a `$ref` that
    leaves the document.
    """
    problems = list(inconsistencies(contract))
    if contract.framing == "auto" and isinstance(contract.schema_, AvroSchema):
        message = "`auto` is for JSON: bare Avro may begin with a zero byte as well; say `none` or `confluent-prefix`"
        problems.append(Problem("/framing", message))
    payload_format = rules = None
    columns: tuple[TypedColumn, ...] = ()
    try:
        payload_format = _compile_format(contract)
    except ContractError as error:
        raise ContractError((*problems, *error.problems)) from None
    problems += privacy_problems(contract, payload_format.fields)
    masks = masks_of(contract, mask_key)
    formats_hold = isinstance(contract.schema_, JsonSchema) and contract.schema_.formats == "assert"
    try:
        rules = compile_rules(contract, payload_format.fields)
    except ContractError as error:
        problems += error.problems
    try:
        columns = compile_columns(contract, payload_format.fields, formats_hold=formats_hold, masks=masks)
        typed = pa.schema([(column.name, column.kind.arrow_type) for column in columns])
        problems += compile_expectations(contract.expectations, typed)[1]
    except ContractError as error:
        problems += error.problems
    if problems or rules is None:
        raise ContractError(tuple(problems))
    quick = (
        compile_acceptance(payload_format, rules, columns)
        if isinstance(payload_format, JsonSchemaFormat)
        else None
    )
    return EnforcementPlan(contract, payload_format, rules, columns, quick, masks)


def _fields_read(rules: RuleSet) -> frozenset[str] | None:
    """Name the fields of a record that rules look at; None when one may look at any."""
    paths = [rule.check.paths for rule in rules.rules]
    if not all(each and all(each) for each in paths):
        return None
    return frozenset(path[0] for each in paths for path in each)


def _compile_format(contract: DataContract) -> PayloadFormat:
    match contract.schema_:
        case JsonSchema():
            return JsonSchemaFormat(contract.schema_)
        case AvroSchema():
            return AvroFormat(contract.schema_)


def _rebuilt(
    document: str,
    writers: WriterSchemas | None,
    now: int | None,
    mask_key: MaskKey | None,
    limits: TableLimits = NO_LIMITS,
) -> EnforcementPlan:
    plan = _recompile(document, mask_key)
    plan = plan if limits == NO_LIMITS else plan.for_table(limits)
    plan = plan if writers is None else plan.with_writers(writers)
    return plan if now is None else plan.with_now(now)


@lru_cache(maxsize=64)
def _recompile(document: str, mask_key: MaskKey | None) -> EnforcementPlan:
    """Compile once in a process what arrives there many times."""
    return compile_plan(DataContract.model_validate_json(document), mask_key)
