"""A sink in memory, added as a contributor would add one: all of it is here, and no other module of the job names it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.adoption import Ahead
from tidegate.contracts.stream.decide import Decision
from tidegate.contracts.stream.ledger import Ledger, Position, Settled, Vector
from tidegate.contracts.stream.positions import Positions, Sightings
from tidegate.contracts.stream.report import TableMaintenance, TableSize
from tidegate.spark_jobs.settings import JobSettings, SinkSettings
from tidegate.spark_jobs.sinks.kind import SinkContext, SinkKind
from tidegate.spark_jobs.sinks.outputs import FindPlan, Outputs
from tidegate.spark_jobs.sinks.sink import CommittedBatch, JudgedBatch, MicroBatch, Replay, StreamStart
from tidegate.spark_jobs.worker.record_spool import SpooledRecords
from tidegate.spark_jobs.worker.result_kinds import RESULT
from tidegate.spark_jobs.worker.task_results import TaskResults

LEDGERS: Final[dict[str, Ledger]] = {}
WRITTEN: Final[dict[str, list[Position]]] = {}
"""Ledger and source positions by contract id."""


@dataclass
class AcceptedPositions:
    """The accepted records of a batch: nothing but where they came from."""

    found: list[Position]

    def release(self) -> None:
        """Nothing is held."""


class ToySink:
    """Accepts every offset of a batch without a look at its record."""

    settled = Settled()
    table_size: TableSize | None = None
    maintenance: TableMaintenance | None = None

    def __init__(self, context: SinkContext) -> None:
        self._stream = context.contract_id
        self.name = f"toy:{context.contract_id}"

    def adopt(self, plan: EnforcementPlan) -> None:
        """Every contract fits."""

    def start(self, start: StreamStart) -> Ledger:
        """Claim the ledger."""
        held = LEDGERS.get(self._stream) or start.new_ledger(f"{self._stream}@toy", {}, 1)
        LEDGERS[self._stream] = held.claim(1)
        return LEDGERS[self._stream]

    def is_held(self) -> bool:
        """There are no other producers."""
        return True

    def close(self) -> None:
        """Nothing is open."""

    def judge(self, batch: MicroBatch) -> JudgedBatch[AcceptedPositions]:
        """Take every offset."""
        found = [
            (partition, offset)
            for partition, end in batch.end.items()
            for offset in range(batch.start.get(partition, 0), end)
        ]
        results = TaskResults(RESULT.empty_table(), batch.plan, batch.asked, SpooledRecords(()))
        return JudgedBatch(batch, results, AcceptedPositions(found))

    def publish(self, judged: JudgedBatch[AcceptedPositions], decision: Decision) -> CommittedBatch:
        """Keep positions and ledger."""
        batch = judged.batch
        new = LEDGERS[self._stream].publish(batch.published(decision, {}, 1, ""))
        LEDGERS[self._stream] = new
        WRITTEN.setdefault(self._stream, []).extend(judged.accepted.found)
        return CommittedBatch(new, decision.rules)

    def deletes_known_since(self) -> Vector:
        return {}

    def require_replayable(self, *, has_keys: bool, append_late: bool) -> None:
        """Take every record."""

    def keep_positions(self) -> None:
        """Keep all positions."""

    def replay(self, judged: JudgedBatch[AcceptedPositions], replay: Replay) -> Ledger:
        """Keep positions and ledger."""
        LEDGERS[self._stream] = replay.ledger(LEDGERS[self._stream], "")
        WRITTEN.setdefault(self._stream, []).extend(judged.accepted.found)
        return LEDGERS[self._stream]


class AdoptableToy:
    """The same sink, for `tidegate adopt`."""

    kind = "toy"
    ahead: Ahead | None = None
    scanned: str | None = None
    slots = 1
    is_appended = True
    is_renamed = True

    def __init__(self, settings: JobSettings, plan: EnforcementPlan) -> None:
        self._stream = plan.contract.id
        self.name = f"{settings.sink}:{self._stream}"
        self.own_ledger = f"{self._stream}@toy"

    def has_written(self) -> bool:
        """Return whether a position is there."""
        return bool(WRITTEN.get(self._stream))

    def ledger_if_there(self) -> Ledger | None:
        """Read the ledger."""
        return self.read()

    def archive(self, name: str) -> str | None:
        """Put the positions away."""
        WRITTEN[name] = WRITTEN.pop(self._stream, [])
        return name

    def new_ledger(self, mark: str) -> str:  # noqa: ARG002 - as the protocol has it
        """Return the only name."""
        return self.own_ledger

    def prepare(self) -> None:
        """Nothing is to be made."""

    def read(self) -> Ledger | None:
        """Read the ledger."""
        return LEDGERS.get(self._stream)

    def written(self) -> Sightings:
        """Return the positions."""
        return Sightings(WRITTEN.get(self._stream, ()))

    def last_epoch(self, ledger: str) -> int:  # noqa: ARG002 - as the protocol has it
        """Return 0: no history is kept."""
        return 0

    def fence(self, ledger: str, slots: int) -> None:
        """There are no other producers."""

    def write(self, held: Ledger | None, new: Ledger, *, is_rebuilt: bool = False) -> None:  # noqa: ARG002 - as the protocol has it
        """Put the ledger there."""
        LEDGERS[self._stream] = new

    def require_rewindable(self) -> None:
        """Positions can be deleted."""

    def position_at(self, snapshot: int, held: Ledger) -> Vector:  # noqa: ARG002 - as the protocol has it
        """Return where the ledger is: no snapshot is kept."""
        return held.end

    def written_with(self, column: str, values: Sequence[str]) -> Positions:
        """Return the positions whose partition or offset is one of the values."""
        at = ("partition", "offset").index(column)
        return Positions(each for each in WRITTEN.get(self._stream, ()) if str(each[at]) in values)

    def require_replayable(self, *, has_keys: bool, append_late: bool) -> None:
        """Take every record."""

    def retract(self, taken: Vector | Positions, held: Ledger, new: Ledger) -> None:  # noqa: ARG002 - as the protocol has it
        """Delete the positions and put the ledger there."""
        WRITTEN[self._stream] = [each for each in WRITTEN.get(self._stream, []) if not _is_taken(taken, each)]
        LEDGERS[self._stream] = new

    def refused_rows(self, ledger: Ledger) -> Positions:  # noqa: ARG002 - the protocol's
        """No refused record is kept."""
        return Positions()

    def follow_quarantine(self, ledger: Ledger) -> None:
        """No refused record is kept."""


def _is_taken(taken: Vector | Positions, position: Position) -> bool:
    if isinstance(taken, Positions):
        return position in taken
    partition, offset = position
    return partition in taken and offset >= taken[partition]


def read_outputs(_: SinkSettings, contract_id: str, __: FindPlan, ___: ExitStack) -> Outputs:
    """Read ledger and positions."""
    return Outputs(LEDGERS[contract_id], Sightings(WRITTEN.get(contract_id, ())))


KIND: Final = SinkKind(ToySink, AdoptableToy, read_outputs)
