"""One plan for each compatibility group of a subject: a record is judged by the group of the schema that it names.

Groups coexist on purpose. An older producer writes by the schema of its group, and the newest version of that group
judges its records. The newest version of the contract, the *lead*, decides about whole batches and the table: error
budget, expectations, retention, primary key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.contracts.columns.table_limits import TableLimits
from tidegate.contracts.columns.typed import TypedColumn
from tidegate.contracts.columns.union import GroupColumns, conflicts, united, widened
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.formats.writers import WriterSchemas
from tidegate.contracts.judge.loop import STAGES
from tidegate.contracts.judge.plan import EnforcementPlan, Route
from tidegate.contracts.judge.routing import UNNAMED, Router
from tidegate.contracts.judge.verdict_arrays import VERDICT_TYPE, Verdicts
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.rules.compile import DISPOSITIONS
from tidegate.contracts.verdict import Severity, Stage, Verdict, Violation

MOST_GROUPS: Final = 16
"""Maximum number of groups with an enforced version: each has a plan in every worker, and costs requests."""

_FRAME: Final = STAGES.index(Stage.FRAME)


def _violation(code: str, message: str) -> Violation:
    return Violation(Stage.FRAME, code, "", Severity.ERROR, message)


_UNGROUPED: Final = _violation(
    "frame.group-unnamed",
    "names no schema, and the contract names no compatibility group with an enforced version for such records: set "
    "`unframed_group` in the contract",
)
_NOT_ENFORCED: Final = _violation(
    "frame.group-not-enforced",
    "names a schema of a compatibility group without an enforced version: promote or register a version of that group, "
    "or have the producer use another one",
)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A compatibility group: its name, its schema ids, and the plan of its newest enforced version, if any."""

    name: str
    ids: frozenset[int]
    plan: EnforcementPlan | None


def group_plans(groups: Sequence[GroupPlan], newest: str) -> EnforcementPlan:
    """Return the plan that judges each record by its group; `newest` is the group of the newest version.

    Raises ContractError if the versions cannot write one table, or if more than MOST_GROUPS are enforced.
    """
    lead = next(place for place, group in enumerate(groups) if group.name == newest)
    found = tuple(conflicts(_parts(groups, lead)))
    enforced = sum(group.plan is not None for group in groups)
    if enforced > MOST_GROUPS:
        found += (
            f"{enforced} compatibility groups have an enforced version, and {MOST_GROUPS} may; retire some",
        )
    if found:
        raise ContractError(tuple(Problem("", sentence) for sentence in found))
    return GroupedPlan(tuple(groups), lead, None)


class GroupedPlan(EnforcementPlan):
    """Judges records of several compatibility groups, each by its group's plan. Use `group_plans` to build one."""

    def __init__(self, groups: tuple[GroupPlan, ...], lead: int, writers: WriterSchemas | None) -> None:
        """Initialise from the groups; `lead` is the index of the one with the newest version."""
        leader = groups[lead].plan
        assert leader is not None, "the newest version is enforced"  # noqa: S101 - a programming error
        self.__dict__.update(leader.__dict__)
        self._groups, self._lead, self._known = groups, lead, writers
        self._plans = [_with_own_writers(group, writers) for group in groups]
        self._columns = united(_parts(groups, lead))
        self.columns = pa.schema([(each.name, each.kind.arrow_type) for each in self._columns])
        self.fingerprint = _fingerprint(groups)
        self.slots = tuple(dict.fromkeys(slot for plan in (leader, *self.plans) for slot in plan.slots))
        self._refusal = DISPOSITIONS[leader.contract.on_violation]
        framings = {plan.contract.framing for plan in self.plans}
        self._router = Router(
            {number: place for place, group in enumerate(groups) for number in group.ids},
            lead,
            self._unframed(takes_bare=bool(framings & {"none", "auto"})),
            has_prefixes=bool(framings & {"confluent-prefix", "auto"}),
            has_headers="confluent-header" in framings,
            writers=writers,
        )

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return GroupedPlan, (self._groups, self._lead, self._known)

    @property
    def plans(self) -> tuple[EnforcementPlan, ...]:
        """Return the plans of the groups that have an enforced version."""
        return tuple(plan for plan in self._plans if plan is not None)

    @property
    def typed_columns(self) -> tuple[TypedColumn, ...]:
        """Return the typed columns of all groups, those of the newest version first."""
        return self._columns

    @property
    def drops_records(self) -> bool:
        """Return whether a violation can drop a record of any group, so that no output has it."""
        return any(plan.drops_records for plan in self.plans)

    @property
    def reads_headers(self) -> bool:
        """Return whether record headers of any group name the writer schema."""
        return any(plan.reads_headers for plan in self.plans)

    @property
    def needs_writers(self) -> bool:
        """Return whether records of any group name their writer schema."""
        return any(plan.needs_writers for plan in self.plans)

    @property
    def uses_now(self) -> bool:
        """Return whether a rule of any group compares with now."""
        return any(plan.uses_now for plan in self.plans)

    @property
    def writers(self) -> WriterSchemas | None:
        """Return the writer schemas that records of all groups may name; None if they were not looked up."""
        return self._known

    def with_writers(self, writers: WriterSchemas | None) -> EnforcementPlan:
        """Return this plan with the writer schemas that records may name; without them groups are unknown."""
        return GroupedPlan(self._groups, self._lead, writers)

    @property
    def now(self) -> int | None:
        """Return the moment of the batch that was given to `with_now`; None without one."""
        return self.plans[0].now

    def with_now(self, now: int) -> EnforcementPlan:
        """Return this plan with the moment of one batch, in nanoseconds since 1970."""
        return self._mapped(lambda plan: plan.with_now(now))

    def for_table(self, limits: TableLimits) -> EnforcementPlan:
        """Return this plan for a table with limits on its rows; they apply to the rows of each group."""
        return self._mapped(lambda plan: plan.for_table(limits))

    def route(self, values: pa.Array, headers: pa.Array | None = None) -> Route | None:
        """Return which version judges each record. A record that no version may judge is refused under the newest."""
        places = self._places(values, headers)
        leader = self.name
        names = [leader if plan is None else plan.name for plan in self._plans]
        contracts = pa.array([*names, leader]).take(pa.array(places % (len(names) + 1)))
        return Route(contracts, pa.array(places == self._lead))

    def plan_of(self, value: bytes | None, header: bytes | None) -> EnforcementPlan | None:
        """Return the plan of the group that one record belongs to; None if none judges it."""
        (place,) = self._places(pa.array([value], pa.large_binary()), self._header(header)).tolist()
        return None if place == UNNAMED else self._plans[place]

    def record_of(self, value: bytes | None, header: bytes | None = None) -> Any:
        """Decode one value by the schema of its group: return the record or a Violation."""
        (place,) = self._places(pa.array([value], pa.large_binary()), self._header(header)).tolist()
        plan = self._plan_at(place)
        return self._refused_at(place) if plan is None else plan.record_of(value, header)

    def judge(
        self, values: pa.Array, moments: Moments | None = None, headers: pa.Array | None = None
    ) -> pa.StructArray:
        """Judge each record by its group, as `EnforcementPlan.judge` does."""

        def judge(plan: EnforcementPlan, mask: pa.Array | None) -> pa.StructArray:
            return plan.judge(*_filtered(mask, values, moments, headers))

        return self._judge_by_group(values, headers, judge, VERDICT_TYPE)

    def judge_typed(
        self,
        values: pa.Array,
        moments: Moments | None = None,
        headers: pa.Array | None = None,
        keys: pa.Array | None = None,
    ) -> pa.StructArray:
        """Judge each record by its group; the columns that its group lacks are null."""

        def judge(plan: EnforcementPlan, mask: pa.Array | None) -> pa.StructArray:
            return plan.judge_typed(*_filtered(mask, values, moments, headers, keys))

        columns = pa.struct(list(self.columns))
        return self._judge_by_group(
            values, headers, judge, pa.struct([*VERDICT_TYPE, pa.field("columns", columns)])
        )

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
        """Judge many records as `explain` does, each by its group."""
        places = self._places(values, headers)
        verdicts: dict[int, Iterator[Verdict]] = {}
        for place in np.unique(places).tolist():
            plan = self._plan_at(place)
            if plan is None:
                continue
            mask = pa.array(places == place)
            some = _filtered(mask, values, moments, headers)
            slots = None if failed is None else self._own_slots(place, failed.filter(mask))
            own_keys = None if keys is None else keys.filter(mask)
            verdicts[place] = plan.explain_each(*some, typed=typed, keys=own_keys, failed=slots)
        for place in places.tolist():
            if place in verdicts:
                yield next(verdicts[place])
            else:
                yield Verdict(self._refusal, (self._refused_at(place),))

    def _places(self, values: pa.Array, headers: pa.Array | None) -> npt.NDArray[np.int64]:
        return self._router.places(values, headers)

    def _plan_at(self, place: int) -> EnforcementPlan | None:
        return None if place == UNNAMED else self._plans[place]

    @staticmethod
    def _refused_at(place: int) -> Violation:
        return _UNGROUPED if place == UNNAMED else _NOT_ENFORCED

    def _unframed(self, *, takes_bare: bool) -> int:
        """Return the place of records without a schema id."""
        named = self.contract.unframed_group
        enforced = [place for place, plan in enumerate(self._plans) if plan is not None]
        if named is not None:
            return next((place for place in enforced if self._groups[place].name == named), UNNAMED)
        # One enforced group needs no name. If every group requires a frame, the lead reports the missing one.
        return UNNAMED if takes_bare and len(enforced) > 1 else self._lead

    def _mapped(self, change: Callable[[EnforcementPlan], EnforcementPlan]) -> EnforcementPlan:
        groups = (
            GroupPlan(group.name, group.ids, None if group.plan is None else change(group.plan))
            for group in self._groups
        )
        return GroupedPlan(tuple(groups), self._lead, self._known)

    def _judge_by_group(
        self,
        values: pa.Array,
        headers: pa.Array | None,
        judge: Callable[[EnforcementPlan, pa.Array | None], pa.StructArray],
        result: pa.StructType,
    ) -> pa.StructArray:
        """Judge the records of each group separately, and return the results in the order of the records."""
        places = self._places(values, headers)
        parts, rows = [pa.array([], result)], [np.empty(0, np.int64)]
        for place in np.unique(places).tolist():
            is_here = places == place
            rows.append(np.flatnonzero(is_here))
            plan = self._plan_at(place)
            if plan is None:
                parts.append(self._refused(len(rows[-1]), result))
            else:
                judged = judge(plan, None if is_here.all() else pa.array(is_here))
                parts.append(self._widened(result, place, judged))
        if len(parts) == 2:
            return parts[1]
        order = np.argsort(np.concatenate(rows), kind="stable")
        return pa.concat_arrays(parts).take(pa.array(order))

    def _widened(self, result: pa.StructType, place: int, judged: pa.StructArray) -> pa.StructArray:
        """Return the verdicts of a group's plan with the slots and columns of all groups."""
        arrays = [judged.field(0), self._shared_slots(place, judged.field(1))]
        if result.num_fields > len(arrays):
            arrays.append(widened(judged.field(2), self.columns))
        return pa.StructArray.from_arrays(arrays, fields=list(result))

    def _refused(self, count: int, result: pa.StructType) -> pa.StructArray:
        """Return the verdicts of records that no group may judge."""
        verdicts = Verdicts(count, (self._refusal,) * len(STAGES))
        for index in range(count):
            verdicts.add(index, 1 << _FRAME)
        judged = verdicts.array()
        arrays = [judged.field(0), judged.field(1)]
        if result.num_fields > len(arrays):
            nulls = [pa.nulls(count, field.type) for field in self.columns]
            is_null = pa.repeat(pa.scalar(not self._refusal.is_written), count)
            arrays.append(pa.StructArray.from_arrays(nulls, fields=list(self.columns), mask=is_null))
        return pa.StructArray.from_arrays(arrays, fields=list(result))

    @cached_property
    def _slot_maps(self) -> list[list[int]]:
        """Return, for each group's plan, the slots of this plan in the order of its own slots."""
        index = {slot: place for place, slot in enumerate(self.slots)}
        return [[] if plan is None else [index[slot] for slot in plan.slots] for plan in self._plans]

    def _shared_slots(self, place: int, failed: pa.Array) -> pa.Array:
        return _renumbered(failed, dict(enumerate(self._slot_maps[place])))

    def _own_slots(self, place: int, failed: pa.Array) -> pa.Array:
        return _renumbered(failed, {slot: own for own, slot in enumerate(self._slot_maps[place])})


def _parts(groups: Sequence[GroupPlan], lead: int) -> list[GroupColumns]:
    """Return the columns of the enforced versions, those of the newest first."""
    ordered = [groups[lead], *(group for place, group in enumerate(groups) if place != lead)]
    plans = (group.plan for group in ordered)
    return [GroupColumns(plan.contract, plan.typed_columns) for plan in plans if plan is not None]


def _with_own_writers(group: GroupPlan, writers: WriterSchemas | None) -> EnforcementPlan | None:
    """Return the plan of a group with only the writer schemas of the group.

    A schema of no group is then unknown to every plan. Its records are refused, or wait while the registry is
    unavailable.
    """
    if group.plan is None or writers is None:
        return group.plan
    own = tuple(schema for schema in writers.schemas if schema.id in group.ids)
    return group.plan.with_writers(WriterSchemas(own, writers.is_current))


def _fingerprint(groups: Sequence[GroupPlan]) -> str:
    """Return a hash of the names and versions of the groups, as 64 lower-case hexadecimal digits."""
    listed = ((group.name, "" if group.plan is None else group.plan.fingerprint) for group in groups)
    return sha256(repr(sorted(listed)).encode()).hexdigest()


def _filtered(mask: pa.Array | None, *arrays: Any) -> tuple[Any, ...]:
    """Return the arrays filtered by `mask`; unchanged without a mask."""
    return arrays if mask is None else tuple(None if each is None else each.filter(mask) for each in arrays)


def _renumbered(failed: pa.Array, slots: dict[int, int]) -> pa.Array:
    """Return bit sets of failed slots with the slots renumbered."""
    if failed.null_count == len(failed) or all(old == new for old, new in slots.items()):
        return failed
    encoded = failed.dictionary_encode()
    renumbered = [_renumber(bits, slots) for bits in encoded.dictionary.to_pylist()]
    return pa.array(renumbered, pa.binary()).take(encoded.indices)


def _renumber(failed: bytes, slots: dict[int, int]) -> bytes:
    bits = int.from_bytes(failed, "little")
    new = sum(1 << slots[index] for index in range(bits.bit_length()) if bits >> index & 1)
    return new.to_bytes((new.bit_length() + 7) // 8, "little")
