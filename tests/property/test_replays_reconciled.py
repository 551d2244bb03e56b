"""Reconciling a stream that replays: whenever its parts are read, what is right holds and what is wrong shows."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tests.ledgers import NEW
from tests.reconciling import reconcile
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, Position, PublishedBatch
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.reconcile import Reconciliation
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer
from tidegate.contracts.stream.replay import ReplayRequest, digest_of_refusals, runs_of
from tidegate.contracts.stream.replayed_chunk import ReplayedChunk
from tidegate.contracts.stream.segments import FateCounts

PARTITIONS = 2


@dataclass(frozen=True)
class Moment:
    """The ledger, the rows, all refusals and the replayed records at one moment."""

    ledger: Ledger = NEW
    rows: tuple[Position, ...] = ()
    refused: tuple[Position, ...] = ()
    replayed: tuple[Position, ...] = ()

    def batch(self, fates: list[tuple[int, bool]]) -> Moment:
        """Publish a batch of records, each of a partition, and refused or not."""
        end = {p: self.ledger.end.get(p, 0) for p in range(PARTITIONS)}
        start, rows, refused = dict(end), [*self.rows], [*self.refused]
        counts = {p: FateCounts() for p in range(PARTITIONS)}
        for partition, is_refused in fates:
            (refused if is_refused else rows).append((partition, end[partition]))
            counts[partition] += FateCounts(quarantined=1) if is_refused else FateCounts(accepted=1)
            end[partition] += 1
        number = sum(is_refused for _, is_refused in fates)
        totals = BatchTotals(written=len(fates) - number, quarantined=number)
        published = PublishedBatch(start, end, {}, totals, "s@1.0.0", 1, counts)
        return Moment(self.ledger.publish(published), tuple(rows), tuple(refused), self.replayed)

    def replay(self, chosen: list[int]) -> Moment:
        """Replay some refusals by their number; those that were replayed before are left, and every third fails again."""
        wanted = (
            sorted({self.refused[number % len(self.refused)] for number in chosen}) if self.refused else []
        )
        fresh = [each for each in wanted if each not in self.replayed]
        written = [each for number, each in enumerate(fresh) if number % 3 != 2]
        chunk = ReplayedChunk(Positions(written), len(fresh) - len(written), len(wanted) - len(fresh))
        ledger = self.ledger
        if wanted:
            request = request_of(wanted, ledger.n)
            ledger = chunk.ledger(ledger, request.begun(ledger), f"d{ledger.n}" if written else "")
            assert ledger.replay is not None
            assert ledger.replay.is_finished
        rows, replayed = (*self.rows, *written), (*self.replayed, *written)
        return Moment(ledger, rows, self.refused, replayed)

    @property
    def source(self) -> list[Position]:
        return [(p, offset) for p, end in self.ledger.end.items() for offset in range(end)]


def request_of(places: list[Position], number: int) -> ReplayRequest:
    positions = Positions(places)
    return ReplayRequest.model_validate(
        {
            "id": UUID(int=number),
            "stream": "s",
            "topic": "t.quarantine",
            "topic_id": "id",
            "positions": runs_of(positions),
            "records": len(positions),
            "digest": digest_of_refusals("t.quarantine", positions),
        }
    )


changes = st.lists(
    st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.booleans()), min_size=1, max_size=6)
    | st.lists(st.integers(0, 20), min_size=1, max_size=4).map(tuple),
    min_size=1,
    max_size=8,
)
"""Lists are batches, tuples are replays."""


def history(changes: list[list[tuple[int, bool]] | tuple[int, ...]]) -> list[Moment]:
    moments = [Moment()]
    for change in changes:
        last = moments[-1]
        moments.append(last.replay([*change]) if isinstance(change, tuple) else last.batch(change))
    return moments


def look_at_table(first: Moment, second: Moment) -> Reconciliation:
    """Read ledger and rows of one moment, and the topics later, as `reconcile_stream` does."""
    refused = [each for each in second.refused if each not in first.replayed]
    return reconcile(first.ledger, second.source, first.rows, refused)


def look_at_topic(first: Moment, second: Moment, third: Moment) -> Reconciliation:
    """Read the ledger, later the accepted topic, and then the ledger again."""
    fresh = {*third.replayed} - {*first.replayed}
    rows = [each for each in second.rows if each not in fresh]
    refused = [each for each in third.refused if each not in first.replayed]
    return reconcile(first.ledger, third.source, rows, refused, later=third.ledger)


@given(changes, st.data())
def test_a_stream_that_replays_meanwhile_holds(
    changes: list[list[tuple[int, bool]] | tuple[int, ...]], data: st.DataObject
) -> None:
    moments = history(changes)
    numbers = sorted(data.draw(st.lists(st.integers(0, len(moments) - 1), min_size=3, max_size=3)))
    first, second, third = (moments[number] for number in numbers)
    assert first.ledger.totals.offsets == sum(first.ledger.end.values())
    assert first.ledger.replayed == len(first.replayed)
    found = look_at_table(first, second)
    assert found.holds, found
    found = look_at_topic(first, second, third)
    assert found.holds, found


@given(changes, st.data())
def test_a_row_of_a_replay_that_is_lost_or_doubled_shows(
    changes: list[list[tuple[int, bool]] | tuple[int, ...]], data: st.DataObject
) -> None:
    last = history(changes)[-1]
    if not last.replayed:
        return
    harmed = data.draw(st.sampled_from(last.replayed))
    lost = Moment(
        last.ledger, tuple(each for each in last.rows if each != harmed), last.refused, last.replayed
    )
    assert look_at_table(lost, lost).answer is ReconciliationAnswer.LOST
    doubled = Moment(last.ledger, (*last.rows, harmed), last.refused, last.replayed)
    assert look_at_table(doubled, doubled).twice == 1
