"""Histories of a stream: what ledger, tables and topics hold at each moment, for tests that reconcile them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import strategies as st

from tests.ledgers import NEW
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, Position, PublishedBatch
from tidegate.contracts.stream.reconcile import RECORDS, Upserts, find_replaced
from tidegate.contracts.stream.segments import FateCounts

FATES = ("written", "quarantined", "dropped", "absent", "replaces", "deletes")
"""`replaces` is a row that takes the place of the oldest one, `deletes` a tombstone that takes it away: of its partition."""

batches = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(FATES)), max_size=6), min_size=1, max_size=6
)


@dataclass(frozen=True)
class Keyed:
    """A record with a primary key: when it came, and whether it is a tombstone."""

    key: int
    time: int
    deletes: bool = False


@dataclass(frozen=True)
class Moment:
    """What there is at one moment: the ledger, rows, quarantined records, and what the source holds.

    `keyed` are all records that were accepted so far.
    """

    ledger: Ledger = NEW
    rows: tuple[Position, ...] = ()
    quarantined: tuple[Position, ...] = ()
    source: tuple[Position, ...] = ()
    keyed: dict[Position, Keyed] = field(default_factory=dict)
    dropped: tuple[Position, ...] = ()

    @property
    def is_upserted(self) -> bool:
        return bool(self.ledger.totals.superseded or self.ledger.totals.deleted)


def history(
    batches: list[list[tuple[int, str]]], *, uncounted: int = 0, shares_keys: bool = False
) -> list[Moment]:
    """Return the moment before each batch, the one when its refused records are there and it is not, and the last.

    The first `uncounted` batches are those of a version that counted no segments. With `shares_keys` a record takes the
    place of the oldest row of any partition.
    """
    moments = [Moment()]
    for number, batch in enumerate(batches):
        before = moments[-1]
        end, totals = dict(before.ledger.end), Counter[str]()
        rows, refused, source = list(before.rows), list(before.quarantined), list(before.source)
        dropped = list(before.dropped)
        keyed, counts = dict(before.keyed), dict[int, FateCounts]()
        for partition, fate in batch:
            position = (partition, end.get(partition, 0))
            end[partition] = position[1] + 1
            if fate != "absent":
                source.append(position)
                counts[partition] = counts.get(partition, FateCounts()) + _counted(fate)
            if fate == "quarantined":
                refused.append(position)
            if fate == "dropped":
                dropped.append(position)
            if fate in {"written", "replaces", "deletes"}:
                _accept(fate, position, rows, keyed, totals, shares_keys=shares_keys)
            else:
                totals[fate] += 1
        start = {partition: before.ledger.end.get(partition, 0) for partition in end}
        published = PublishedBatch(
            start,
            end,
            {},
            BatchTotals.model_construct(**totals),
            "s@1.0.0",
            1,
            counts if number >= uncounted else None,
        )
        after = before.ledger.publish(published)
        settled = Moment(
            before.ledger, before.rows, tuple(refused), tuple(source), before.keyed, before.dropped
        )
        moments += [
            settled,
            Moment(after, tuple(rows), tuple(refused), tuple(source), keyed, tuple(dropped)),
        ]
    return moments


def _counted(fate: str) -> FateCounts:
    match fate:
        case "quarantined":
            return FateCounts(quarantined=1)
        case "dropped":
            return FateCounts(dropped=1)
    return FateCounts(accepted=1)


def _accept(
    fate: str,
    position: Position,
    rows: list[Position],
    keyed: dict[Position, Keyed],
    totals: Counter[str],
    *,
    shares_keys: bool,
) -> None:
    deletes = fate == "deletes"
    among = [row for row in rows if shares_keys or row[0] == position[0]]
    taken = among[0] if among and fate != "written" else None
    key = len(keyed) if taken is None else keyed[taken].key
    keyed[position] = Keyed(key, len(keyed), deletes)
    if taken is not None:
        rows.remove(taken)
        totals["superseded"] += 1
        totals["written"] -= 1
    if deletes:
        totals["deleted"] += 1
    else:
        rows.append(position)
        totals["written"] += 1


def upserts_of(moment: Moment, source: Iterable[Position], rows: Iterable[Position]) -> Upserts | None:
    """Look for the keys of records that are in no output, as of a table that is upserted into."""
    if not moment.is_upserted:
        return None
    rows = set(rows)
    out = [
        position
        for position in source
        if position not in rows and position[1] < moment.ledger.end.get(position[0], 0)
    ]
    return find_replaced(pa.Table.from_batches([_records(moment, out)]), [_records(moment, sorted(rows))])


def _records(moment: Moment, positions: Iterable[Position]) -> pa.RecordBatch:
    keyed = [(position, moment.keyed.get(position)) for position in positions]
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": None if found is None else str(found.key).encode(),
                "partition": position[0],
                "offset": position[1],
                "timestamp_ms": 0 if found is None else found.time,
                "deletes": found is not None and found.deletes,
            }
            for position, found in keyed
        ],
        RECORDS,
    )


def moments_of(data: st.DataObject, among: list[Moment], count: int) -> list[Moment]:
    """Draw moments, the earlier ones first."""
    indices = sorted(data.draw(st.lists(st.integers(0, len(among) - 1), min_size=count, max_size=count)))
    return [among[index] for index in indices]
