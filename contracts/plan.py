"""A contract version, compiled. The one way in which a record gets a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from contracts.errors import ContractError
from contracts.fingerprint import canonical_bytes, fingerprint
from contracts.formats.json_schema import JsonSchemaFormat
from contracts.formats.payload import PayloadFormat
from contracts.model import DataContract, JsonSchema
from contracts.record import NO_PAYLOAD
from contracts.rules.compile import ACTIONS, compile_rules
from contracts.rules.compiled import CompiledRule
from contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from contracts.wire import frame_violation, payloads

VERDICT_TYPE = pa.struct(
    [pa.field("disposition", pa.int8(), nullable=False), pa.field("failed", pa.binary())]
)
"""`failed` is a bit set, least significant bit of the first byte first, over `EnforcementPlan.slots`; null for none."""

_STAGES = (Stage.FRAME, Stage.DECODE, Stage.SCHEMA, Stage.COLUMN)


@dataclass(frozen=True, slots=True)
class Slot:
    """What one bit of a verdict's `failed` stands for: a rule (code is its id) or a whole stage (code is its name)."""

    stage: Stage
    code: str
    severity: Severity


class EnforcementPlan:
    """Judges records of one contract version. Made by `compile_plan`; picklable (it recompiles where it arrives)."""

    def __init__(
        self, contract: DataContract, payload_format: PayloadFormat, rules: tuple[CompiledRule, ...]
    ) -> None:
        self.contract = contract
        self.fingerprint = fingerprint(contract)
        self.slots = (
            *(Slot(stage, stage.value, Severity.ERROR) for stage in _STAGES),
            *(Slot(Stage.RULE, rule.id, rule.severity) for rule in rules),
        )
        self.columns = pa.schema([])
        self._format = payload_format
        self._rules = rules
        refusal = ACTIONS[contract.on_violation]
        self._dispositions = (*(refusal for _ in _STAGES), *(rule.disposition for rule in rules))
        self._checks = [(rule.violates, 1 << index) for index, rule in enumerate(rules, start=len(_STAGES))]

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return _recompile, (canonical_bytes(self.contract),)

    def judge(self, values: pa.Array) -> pa.StructArray:
        """Judge raw record values.

        Takes an array of binary or large_binary, one record value an element (null: a tombstone).
        Returns VERDICT_TYPE, same length, never null. Never raises on any value.
        """
        dispositions = bytearray(len(values))
        failed: list[bytes | None] = [None] * len(values)
        is_valid, checks = self._format.is_valid, self._checks
        for index, record in enumerate(self._format.decode(payloads(values, self.contract.framing))):
            if type(record) is Violation:
                violation = self._undecoded(record, values[index].as_py())
                bits = _bit(violation.stage) if violation else 0
            else:
                bits = 0 if is_valid(record) else _SCHEMA_BIT
                for violates, bit in checks:
                    if violates(record):
                        bits |= bit
            if bits:
                dispositions[index] = self._disposition(bits)
                failed[index] = _pack(bits)
        return pa.StructArray.from_arrays(
            [pa.array(dispositions, pa.int8()), pa.array(failed, pa.binary())], fields=list(VERDICT_TYPE)
        )

    def judge_typed(self, values: pa.Array) -> pa.StructArray:
        """Judge, and give the typed columns of the records that are written.

        Returns struct<disposition, failed, columns: struct<...self.columns>>, same length; `columns` is null for
        a record that is not written. A value that a column cannot hold is a violation of stage column.
        """
        raise NotImplementedError

    def explain(self, value: bytes | None) -> Verdict:
        """Judge one record with all its evidence. `judge` gives the same disposition and the same failed slots."""
        (record,) = self._format.decode(payloads(pa.array([value], pa.binary()), self.contract.framing))
        if type(record) is Violation:
            violation = self._undecoded(record, value)
            violations = () if violation is None else (violation,)
        else:
            violations = () if self._format.is_valid(record) else self._format.violations(record)
            violations += tuple(
                Violation(Stage.RULE, rule.id, rule.pointer, rule.severity, rule.message)
                for rule in self._rules
                if rule.violates(record)
            )
        slots = {
            (slot.stage, slot.code if slot.stage is Stage.RULE else slot.stage.value): index
            for index, slot in enumerate(self.slots)
        }
        bits = 0
        for each in violations:
            bits |= 1 << slots[each.stage, each.code if each.stage is Stage.RULE else each.stage.value]
        return Verdict(self._disposition(bits) if bits else Disposition.ACCEPTED, violations)

    def failed_slots(self, failed: bytes | None) -> tuple[Slot, ...]:
        """Decode a bit set that `judge` returned."""
        if failed is None:
            return ()
        bits = int.from_bytes(failed, "little")
        return tuple(slot for index, slot in enumerate(self.slots) if bits >> index & 1)

    def _undecoded(self, violation: Violation, value: bytes | None) -> Violation | None:
        """Say what a value is that gave no record; None for a tombstone that the contract lets pass."""
        if violation is not NO_PAYLOAD:
            return violation
        if value is not None:
            return frame_violation(value)
        return NO_PAYLOAD if self.contract.tombstones == "refuse" else None

    def _disposition(self, bits: int) -> Disposition:
        return max(each for index, each in enumerate(self._dispositions) if bits >> index & 1)


def compile_plan(contract: DataContract) -> EnforcementPlan:
    """Compile a self-contained contract (its schema given by `definition`).

    Raises ContractError with every problem found: a rule on a field that the schema does not have, a type-mixed
    comparison, a bad pattern or expression, an ambiguous column, a `$ref` that leaves the document.
    """
    payload_format = _compile_format(contract)
    rules, problems = compile_rules(contract, payload_format.fields)
    if problems:
        raise ContractError(tuple(problems))
    return EnforcementPlan(contract, payload_format, tuple(rules))


def _compile_format(contract: DataContract) -> PayloadFormat:
    match contract.schema_:
        case JsonSchema():
            return JsonSchemaFormat(contract.schema_)
        case _:
            raise ContractError.at("/schema/type", "avro is not read yet")


@lru_cache(maxsize=64)
def _recompile(document: bytes) -> EnforcementPlan:
    """Compile once in a process what arrives there many times."""
    return compile_plan(DataContract.model_validate_json(document))


def _bit(stage: Stage) -> int:
    return 1 << _STAGES.index(stage)


_SCHEMA_BIT = _bit(Stage.SCHEMA)


def _pack(bits: int) -> bytes:
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")
