"""The compiled contract version. Every verdict on a record comes from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tidegate.contracts.columns.table_limits import NO_LIMITS, TableLimits
from tidegate.contracts.columns.typed import TypedColumn
from tidegate.contracts.compiled import compile_parts
from tidegate.contracts.document.fingerprint import fingerprint
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.expectations.compile import ExpectationPlan, compile_expectations
from tidegate.contracts.fastpath import switch
from tidegate.contracts.fastpath.compile import compile_fastpath
from tidegate.contracts.formats.framing import Frames
from tidegate.contracts.formats.payload import PayloadFormat
from tidegate.contracts.formats.writers import WriterSchemas
from tidegate.contracts.judge.loop import STAGES, BatchJudge
from tidegate.contracts.judge.path import RecordPath, StrictPath
from tidegate.contracts.privacy.masks import Masks
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.rules.compile import DISPOSITIONS
from tidegate.contracts.verdict import Severity, Stage, Verdict


@dataclass(frozen=True, slots=True)
class Slot:
    """The meaning of one bit of a verdict's `failed`: a rule (code is its id) or a whole stage (code is its name)."""

    stage: Stage
    code: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class Route:
    """The versions that judge some records, if there are several.

    `contracts` is an array of string with the `id@version` for each record. `is_newest` is an array of bool: whether
    that is the newest version.
    """

    contracts: pa.Array
    is_newest: pa.Array


class EnforcementPlan:
    """Judges records of one contract version. `compile_plan` builds it; unpickling compiles it again."""

    def __init__(self, contract: DataContract, judge: BatchJudge, masks: Masks, *, fastpath: bool) -> None:
        self.contract = contract
        self.fingerprint = fingerprint(contract)
        self.slots = (
            *(Slot(stage, stage.value, Severity.ERROR) for stage in STAGES),
            *(Slot(Stage.RULE, rule.id, rule.severity) for rule in judge.rules.rules),
        )
        self.columns = judge.column_types
        """Arrow schema of the typed columns that `judge_typed` returns, in contract order."""
        self.expectations: ExpectationPlan = compile_expectations(contract.expectations, self.columns)[0]
        """The contract's expectations of the accepted records of a batch as a whole; empty if it has none."""
        self.masks = masks
        self._judge = judge
        self._fastpath = fastpath

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        document = self.contract.model_dump_json(by_alias=True, exclude_defaults=True)
        judge = self._judge
        return _rebuilt, (document, self.masks.key, self._fastpath, judge.limits, self.writers, judge.now)

    @property
    def payload_format(self) -> PayloadFormat:
        """Return the decoder of payloads by the contract's schema."""
        return self._judge.payload_format

    @property
    def typed_columns(self) -> tuple[TypedColumn, ...]:
        """Return the typed columns, in contract order."""
        return self._judge.columns

    @property
    def name(self) -> str:
        """Return the contract version as `id@version`."""
        return f"{self.contract.id}@{self.contract.version}"

    @property
    def drops_records(self) -> bool:
        """Return whether a violation can drop a record, so that no output has it."""
        return self.contract.drops_records

    @property
    def reads_headers(self) -> bool:
        """Return whether record headers name the writer schema."""
        return self.contract.framing == "confluent-header"

    def route(self, values: pa.Array, headers: pa.Array | None = None) -> Route | None:  # noqa: ARG002 - one version
        """Return which version judges each record; None if this one judges all. Arguments are those of `judge`."""
        return None

    def plan_of(self, value: bytes | None, header: bytes | None) -> EnforcementPlan | None:  # noqa: ARG002 - one version
        """Return the plan that judges one record; None for a record that no version may judge."""
        return self

    @property
    def plans(self) -> tuple[EnforcementPlan, ...]:
        """Return the plans that judge records, one for each version."""
        return (self,)

    @property
    def needs_writers(self) -> bool:
        """Return whether records name their writer schema, so that `with_writers` is needed."""
        return self.contract.framing != "none"

    def with_writers(self, writers: WriterSchemas | None) -> EnforcementPlan:
        """Return this plan with the writer schemas that records may name; with None no schema is looked up."""
        return self._with(replace(self._judge, frames=replace(self._judge.frames, writers=writers)))

    @property
    def uses_now(self) -> bool:
        """Return whether a rule compares with now, so that `judge` needs the moments of records."""
        return self._judge.rules.clock is not None

    @property
    def now(self) -> int | None:
        """Return the moment of the batch that was given to `with_now`; None without one."""
        return self._judge.now

    def with_now(self, now: int) -> EnforcementPlan:
        """Return this plan with the moment of one batch, in nanoseconds since 1970, for the rules that use it."""
        return self._with(replace(self._judge, now=now))

    def for_table(self, limits: TableLimits) -> EnforcementPlan:
        """Return this plan for a table with limits on its rows; `judge_typed` refuses rows beyond them."""
        return self._with(replace(self._judge, limits=limits))

    def _with(self, judge: BatchJudge) -> EnforcementPlan:
        plan = object.__new__(EnforcementPlan)
        plan.__dict__.update(self.__dict__, _judge=judge)
        return plan

    def judge(
        self, values: pa.Array, moments: Moments | None = None, headers: pa.Array | None = None
    ) -> pa.StructArray:
        """Judge raw record values.

        `values` is an array of binary or large_binary with one record value in each element (null is a tombstone).
        `moments` are the times that rules use as now (default: the one of `with_now`, or the time of the call).
        `headers` is an array of binary with the schema headers of the values; without it, framing confluent-header
        reads no header. Returns VERDICT_TYPE, same length, never null. Never raises on any value, except Unavailable
        if a record names an unknown schema and the registry does not answer.
        """
        return self._judge.judge(values, moments, headers)

    def judge_typed(
        self,
        values: pa.Array,
        moments: Moments | None = None,
        headers: pa.Array | None = None,
        keys: pa.Array | None = None,
    ) -> pa.StructArray:
        """Judge as `judge` does, and return the typed columns of the records that are written.

        Returns struct<disposition, failed, columns: struct<...self.columns>>, same length; `columns` is null for a
        record that is not written. A value that a column cannot hold is a violation of stage column. If the contract
        still writes such a record (on_violation alert), the column is null there. The limits of `for_table` are
        checked in the same way, but a record without a primary key is never written. `keys` are the Kafka keys, an
        array of binary, for tables from which tombstones delete.
        """
        return self._judge.judge_typed(values, moments, headers, keys)

    def explain(
        self,
        value: bytes | None,
        header: bytes | None = None,
        *,
        typed: bool = False,
        moments: Moments | None = None,
        key: bytes | None = None,
    ) -> Verdict:
        """Judge one record with all its evidence; `header` is its schema header (see `framing.schema_header`).

        For the same `moments`, disposition and failed slots are those of `judge`. With `typed` and the Kafka `key` they
        are those of `judge_typed`, which also refuses values that columns cannot hold.
        """
        values, keys = pa.array([value], pa.large_binary()), pa.array([key], pa.binary())
        (verdict,) = self.explain_each(values, moments, self._header(header), typed=typed, keys=keys)
        return verdict

    def explain_each(
        self,
        values: pa.Array,
        moments: Moments | None = None,
        headers: pa.Array | None = None,
        *,
        typed: bool = False,
        keys: pa.Array | None = None,
        failed: pa.Array | None = None,
    ) -> Iterator[Verdict]:
        """Judge many records as `explain` does, for less than half the cost of each call.

        The arguments are those of `judge` and `judge_typed`. `failed` are the failed slots of the same records from
        `judge`, or with `typed` from `judge_typed`: then no record is judged again. A record that violated only rules
        with a fixed message is not even decoded.
        """
        return self._judge.explain(values, headers, moments, typed=typed, keys=keys, failed=failed)

    def record_of(self, value: bytes | None, header: bytes | None = None) -> Any:
        """Decode one value: return the record or a Violation. Raises as `judge` does."""
        return self._judge.record_of(pa.array([value], pa.large_binary()), self._header(header))

    def _header(self, header: bytes | None) -> pa.Array | None:
        # If no schemas are looked up, the caller may not have kept the headers; None is not a missing header then.
        is_known = header is not None or self.writers is not None
        return pa.array([header], pa.binary()) if is_known else None

    @property
    def writers(self) -> WriterSchemas | None:
        """Return the writer schemas that records may name; None if they were not looked up."""
        return self._judge.frames.writers

    def failed_slots(self, failed: bytes | None) -> tuple[Slot, ...]:
        """Return the slots of a bit set that `judge` returned; none for None."""
        bits = int.from_bytes(failed or b"", "little")
        return tuple(slot for index, slot in enumerate(self.slots) if bits >> index & 1)


def compile_plan(
    contract: DataContract, mask_key: MaskKey | None = None, *, fastpath: bool | None = None
) -> EnforcementPlan:
    """Compile a self-contained contract (its schema is in `definition`).

    `mask_key` creates the tokens of hashed fields: it is needed to write the results of `judge_typed`, but not to
    judge. `fastpath` enables generated code; None means the value of TIDEGATE_FASTPATH. Verdicts are the same.

    Raises ContractError with every problem found: for example a contract that contradicts itself, a rule on an unknown
    field, a comparison of different types, a bad pattern or expression, an ambiguous column, or a `$ref` that leaves
    the document.
    """
    parts = compile_parts(contract, mask_key)
    if fastpath is None:
        fastpath = switch.is_on()
    compiled = parts.payload_format, parts.rules, parts.columns
    path: RecordPath = compile_fastpath(*compiled) if fastpath else StrictPath(*compiled)
    judge = BatchJudge(
        *compiled,
        path,
        Frames(contract.framing, contract.schema_.type),
        refusal=DISPOSITIONS[contract.on_violation],
        refuses_null=contract.tombstones == "refuse",
    )
    return EnforcementPlan(contract, judge, parts.masks, fastpath=fastpath)


def _rebuilt(
    document: str,
    mask_key: MaskKey | None,
    fastpath: bool,  # noqa: FBT001 - pickle gives it by position
    limits: TableLimits,
    writers: WriterSchemas | None,
    now: int | None,
) -> EnforcementPlan:
    plan = _recompile(document, mask_key, fastpath)
    plan = plan if limits == NO_LIMITS else plan.for_table(limits)
    plan = plan if writers is None else plan.with_writers(writers)
    return plan if now is None else plan.with_now(now)


@lru_cache(maxsize=64)
def _recompile(document: str, mask_key: MaskKey | None, fastpath: bool) -> EnforcementPlan:  # noqa: FBT001 - a key
    """Compile a pickled plan once in each process, although tasks send it many times."""
    return compile_plan(DataContract.model_validate_json(document), mask_key, fastpath=fastpath)
