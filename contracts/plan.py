"""A contract version, compiled. The one way in which a record gets a verdict."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from contracts.model import DataContract
from contracts.verdict import Severity, Stage, Verdict

VERDICT_TYPE = pa.struct(
    [pa.field("disposition", pa.int8(), nullable=False), pa.field("failed", pa.binary())]
)
"""`failed` is a bit set, least significant bit of the first byte first, over `EnforcementPlan.slots`; null for none."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What one bit of a verdict's `failed` stands for: a rule (code is its id) or a whole stage (code is its name)."""

    stage: Stage
    code: str
    severity: Severity


class EnforcementPlan:
    """Judges records of one contract version. Made by `compile_plan`; picklable (it recompiles where it arrives)."""

    contract: DataContract
    fingerprint: str
    slots: tuple[Slot, ...]
    columns: pa.Schema
    """Arrow schema of the typed columns that `judge_typed` returns, in contract order."""

    def judge(self, values: pa.Array) -> pa.StructArray:
        """Judge raw record values.

        Takes an array of binary or large_binary, one record value an element (null: a tombstone).
        Returns VERDICT_TYPE, same length, never null. Never raises on any value.
        """
        raise NotImplementedError

    def judge_typed(self, values: pa.Array) -> pa.StructArray:
        """Judge, and give the typed columns of the records that are written.

        Returns struct<disposition, failed, columns: struct<...self.columns>>, same length; `columns` is null for
        a record that is not written. A value that a column cannot hold is a violation of stage column.
        """
        raise NotImplementedError

    def explain(self, value: bytes | None) -> Verdict:
        """Judge one record with all its evidence. `judge` gives the same disposition and the same failed slots."""
        raise NotImplementedError

    def failed_slots(self, failed: bytes | None) -> tuple[Slot, ...]:
        """Decode a bit set that `judge` returned."""
        raise NotImplementedError


def compile_plan(contract: DataContract) -> EnforcementPlan:
    """Compile a self-contained contract (its schema given by `definition`).

    Raises ContractError with every problem found: a rule on a field that the schema does not have, a type-mixed
    comparison, a bad pattern or expression, an ambiguous column, a `$ref` that leaves the document.
    """
    raise NotImplementedError
