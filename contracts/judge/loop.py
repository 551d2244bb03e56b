"""The loops in which a compiled contract judges batches of records.

A verdict has a bit set of *failed slots*: the stages of `STAGES` in the lowest bits, then one bit for each rule.
`EnforcementPlan` is the public class, and documents the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.columns.rows import NOTHING, TableRows
from tidegate.contracts.columns.table_limits import NO_LIMITS, TableLimits, Unfit, with_keys
from tidegate.contracts.columns.typed import TypedColumn
from tidegate.contracts.formats.framing import Framed, Frames
from tidegate.contracts.formats.payload import NO_PAYLOAD, PayloadFormat
from tidegate.contracts.judge.path import RecordPath
from tidegate.contracts.judge.verdict_arrays import VERDICT_TYPE, Verdicts
from tidegate.contracts.rules.clock import Moments, SetClock
from tidegate.contracts.rules.compiled import CompiledRules
from tidegate.contracts.verdict import Disposition, Stage, Verdict, Violation

STAGES: Final = (Stage.FRAME, Stage.DECODE, Stage.SCHEMA, Stage.COLUMN)
"""Stages that have one bit each, the lowest ones; the bits of the rules follow."""
_STAGE_BITS: Final = {stage: 1 << index for index, stage in enumerate(STAGES)}
_SCHEMA_BIT: Final = _STAGE_BITS[Stage.SCHEMA]
_COLUMN_BIT: Final = _STAGE_BITS[Stage.COLUMN]


@dataclass(frozen=True)
class BatchJudge:
    """Judges batches of records by the parts of a compiled contract, and by the constants of a batch.

    `path` is the strict or the fast path; both have the same verdicts. `refusal` is the disposition of a record that
    fails in a stage, and `refuses_null` is whether a tombstone fails. `now` is the time of the batch, in nanoseconds
    since 1970; None for the time of the call. `limits` are those of the table.
    """

    payload_format: PayloadFormat
    rules: CompiledRules
    columns: tuple[TypedColumn, ...]
    path: RecordPath
    frames: Frames
    refusal: Disposition
    refuses_null: bool
    now: int | None = None
    limits: TableLimits = NO_LIMITS

    @cached_property
    def column_types(self) -> pa.Schema:
        """Return the Arrow schema of the typed columns."""
        return pa.schema([(column.name, column.kind.arrow_type) for column in self.columns])

    @cached_property
    def _dispositions(self) -> tuple[Disposition, ...]:
        """Return for each slot the disposition of a record that fails in it."""
        return (*(self.refusal for _ in STAGES), *(rule.disposition for rule in self.rules.rules))

    def judge(self, values: pa.Array, moments: Moments | None, headers: pa.Array | None) -> pa.StructArray:
        """Return an array of struct<disposition, failed>, one for each value (see `EnforcementPlan.judge`)."""
        verdicts = Verdicts(len(values), self._dispositions)
        framed = self.frames.open(values, headers)
        for index, record, broken in self.path.suspects(framed, self._setting(moments, len(values))):
            bits = self._bits(record, framed, index) if broken is None else broken << len(STAGES)
            if bits:
                verdicts.add(index, bits)
        return verdicts.array()

    def judge_typed(
        self,
        values: pa.Array,
        moments: Moments | None,
        headers: pa.Array | None,
        keys: pa.Array | None,
    ) -> pa.StructArray:
        """Return an array of struct<disposition, failed, columns> by value (see `EnforcementPlan.judge_typed`)."""
        verdicts = Verdicts(len(values), self._dispositions)
        framed = self.frames.open(values, headers)
        rows = self.path.rows(framed, self._setting(moments, len(values)))
        for index, record, broken in rows.suspects():
            if broken is not None:
                verdicts.add(index, broken << len(STAGES))
                continue
            bits = self._bits(record, framed, index)
            is_written = not bits or verdicts.add(index, bits).is_written
            if is_written and type(record) is not Violation:
                rows.keep(index, record)
        arrays, refused = rows.finish()
        for index in refused:
            if verdicts.is_written(index):
                verdicts.add(index, _COLUMN_BIT)
        if self.limits != NO_LIMITS:
            arrays = with_keys(
                self.limits, self.columns, arrays, values, pa.nulls(len(values)) if keys is None else keys
            )
            for unfit in self.limits.unfit(self.columns, arrays):
                self._refuse(unfit, verdicts, arrays)
        return self._with_columns(verdicts, arrays)

    def _refuse(self, unfit: Unfit, verdicts: Verdicts, arrays: list[pa.Array]) -> None:
        """Refuse rows with a value that the table cannot hold, and replace the value with null."""
        least = self._least((unfit,))
        is_written = ~np.asarray(verdicts.not_written())
        for index in np.flatnonzero(unfit.is_row & is_written).tolist():
            verdicts.add(index, _COLUMN_BIT, least)
        array = arrays[unfit.column]
        arrays[unfit.column] = pc.if_else(pa.array(unfit.is_row), pa.scalar(None, array.type), array)

    def explain(
        self,
        values: pa.Array,
        headers: pa.Array | None,
        moments: Moments | None,
        *,
        typed: bool,
        keys: pa.Array | None,
        failed: pa.Array | None,
    ) -> Iterator[Verdict]:
        """Yield the verdict of each value with all violations (see `EnforcementPlan.explain_each`)."""
        # The driver explains refused records on one core, while workers judge. Judging a record again took 30 µs, and
        # two workers judge one in 2 µs, so refused records of a faulty producer slowed the stream. Therefore the
        # failed slots from the worker are reused, and many verdicts follow from them alone.
        if failed is None:
            yield from self._explain(values, headers, moments, [None] * len(values), typed=typed, keys=keys)
            return
        slots = [int.from_bytes(each or b"", "little") for each in failed.to_pylist()]
        known = [self._known(bits) for bits in slots]
        is_left = pa.array([verdict is None for verdict in known], pa.bool_())
        left = self._explain(
            values.filter(is_left),
            None if headers is None else headers.filter(is_left),
            None if moments is None else moments.filter(is_left),
            [bits for bits, verdict in zip(slots, known, strict=True) if verdict is None],
            typed=typed,
            keys=None if keys is None else keys.filter(is_left),
        )
        for verdict in known:
            yield next(left) if verdict is None else verdict

    def _known(self, bits: int) -> Verdict | None:
        """Return the verdict of every record that failed these slots; None if that depends on the record."""
        if bits not in self._verdicts:
            rules = bits >> len(STAGES)
            violations = self.rules.always(rules) if bits == rules << len(STAGES) else None
            known = None if violations is None else Verdict(self._disposition_of(violations), violations)
            self._verdicts[bits] = known
        return self._verdicts[bits]

    @cached_property
    def _verdicts(self) -> dict[int, Verdict | None]:
        """Return the cache of `_known` by bit set; most records of a batch fail the same few slots."""
        return {}

    def _explain(
        self,
        values: pa.Array,
        headers: pa.Array | None,
        moments: Moments | None,
        slots: Sequence[int | None],
        *,
        typed: bool,
        keys: pa.Array | None,
    ) -> Iterator[Verdict]:
        """Yield the verdict of each record; `slots` are the bit sets of failed slots, None where unknown."""
        # Opening frames, scanning and decoding took 79 µs for a record as an array of one, and takes 35 µs in a batch.
        at = self._setting(moments, len(values))
        framed = self.frames.open(values, headers)
        for index, (decoded, bits) in enumerate(zip(self.path.decode(framed), slots, strict=True)):
            if at is not None:
                at(index)
            record, violations = self._evidence(decoded, framed, index, bits)
            disposition = self._disposition_of(violations)
            if typed and disposition.is_written:
                violations += tuple(column.violation for column in self.columns if not column.holds(record))
                disposition = self._disposition_of(violations)
            if typed and disposition.is_written and self.limits != NO_LIMITS:
                key = pa.nulls(1, pa.binary()) if keys is None else keys.slice(index, 1)
                unfit = self._unfit(values.slice(index, 1), key, record)
                violations += tuple(each.violation for each in unfit)
                disposition = max(self._disposition_of(violations), self._least(unfit))
            yield Verdict(disposition, violations)

    def _least(self, unfit: Sequence[Unfit]) -> Disposition:
        """Return the lowest disposition of a row: without a primary key it is never written, even for an alert."""
        is_kept_out = self.refusal.is_written and any(each.is_of_key for each in unfit)
        return Disposition.QUARANTINED if is_kept_out else Disposition.ACCEPTED

    def _unfit(self, value: pa.Array, key: pa.Array, record: Any) -> list[Unfit]:
        """Return the parts of one record that a table cannot hold; `value` and `key` are arrays of length one."""
        rows = TableRows(self.columns)
        rows.add(record)
        arrays = with_keys(self.limits, self.columns, rows.finish()[0], value, key)
        return [each for each in self.limits.unfit(self.columns, arrays) if each.is_row[0]]

    def record_of(self, value: pa.Array, header: pa.Array | None) -> Any:
        """Decode one value, an array of length one: return the record or a Violation."""
        (record,) = self.path.decode(self.frames.open(value, header))
        return record

    def _setting(self, moments: Moments | None, length: int) -> SetClock | None:
        """Return a function that sets the clock of the rules to the record of an index; None if none uses it."""
        clock = self.rules.clock
        return None if clock is None else clock.setting(moments or Moments(), self.now, length)

    def _bits(self, record: Any, framed: Framed, index: int) -> int:
        """Return the bit set of failed slots of a record or a Violation."""
        if type(record) is Violation:
            violation = self._undecoded(record, framed, index)
            return _STAGE_BITS[violation.stage] if violation else 0
        fits = self.path.fits(record)
        bits = self.path.broken(record, fits) << len(STAGES)
        return bits if fits else bits | _SCHEMA_BIT

    def _evidence(
        self, record: Any, framed: Framed, index: int, bits: int | None
    ) -> tuple[Any, tuple[Violation, ...]]:
        """Return the decoded record, and its violations of every stage except column; `bits` as in `_explain`."""
        if type(record) is Violation:
            violation = self._undecoded(record, framed, index)
            return NOTHING, () if violation is None else (violation,)
        if bits is None:
            bits = self._bits(record, framed, index)
        fits = not bits & _SCHEMA_BIT
        of_schema = () if fits else self.payload_format.violations(record)
        return record, (*of_schema, *self.rules.violations(record, bits >> len(STAGES), fits=fits))

    def _undecoded(self, violation: Violation, framed: Framed, index: int) -> Violation | None:
        """Return the violation of a value that cannot be decoded; None for a tombstone that is accepted."""
        if violation is not NO_PAYLOAD:
            return violation
        if (refusal := framed.refusals.get(index)) is not None:
            return refusal
        return NO_PAYLOAD if self.refuses_null else None

    @cached_property
    def _of_rules(self) -> dict[str, Disposition]:
        return {rule.id: rule.disposition for rule in self.rules.rules}

    def _disposition_of(self, violations: tuple[Violation, ...]) -> Disposition:
        return max(
            (self._of_rules[each.code] if each.stage is Stage.RULE else self.refusal for each in violations),
            default=Disposition.ACCEPTED,
        )

    def _with_columns(self, verdicts: Verdicts, arrays: list[pa.Array]) -> pa.StructArray:
        """Combine columns and verdicts; columns are null where a record is not written."""
        columns = pa.StructArray.from_arrays(
            arrays, fields=list(self.column_types), mask=verdicts.not_written()
        )
        verdict = verdicts.array()
        return pa.StructArray.from_arrays(
            [verdict.field(0), verdict.field(1), columns],
            fields=[*VERDICT_TYPE, pa.field("columns", columns.type)],
        )
