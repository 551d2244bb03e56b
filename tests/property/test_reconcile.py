"""Reconciling a stream that runs: whatever is published while it is looked at, what is right holds and what is wrong shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from contracts.fates import Reconciliation, Retained
from contracts.ledger import BatchTotals, Ledger, Position, PublishedBatch, Vector
from tests.ledgers import NEW
from tests.reconciling import reconcile

FATES = ("written", "quarantined", "dropped", "absent", "replaces", "deletes")
"""`replaces` is a row that takes the place of the oldest one, `deletes` a tombstone that takes it away."""

batches = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(FATES)), max_size=6), min_size=1, max_size=6
)


@dataclass(frozen=True)
class Moment:
    """What there is at one moment: the ledger, rows, quarantined records, and what the source holds."""

    ledger: Ledger = NEW
    rows: tuple[Position, ...] = ()
    quarantined: tuple[Position, ...] = ()
    source: tuple[Position, ...] = ()


def history(batches: list[list[tuple[int, str]]]) -> list[Moment]:
    """Give the moment before each batch, the one when its refused records are there and it is not, and the last."""
    moments = [Moment()]
    for batch in batches:
        before = moments[-1]
        end, totals = dict(before.ledger.end), Counter[str]()
        rows, refused, source = list(before.rows), list(before.quarantined), list(before.source)
        for partition, fate in batch:
            position = (partition, end.get(partition, 0))
            end[partition] = position[1] + 1
            if fate != "absent":
                source.append(position)
            _apply(fate, position, rows, refused, totals)
        start = {partition: before.ledger.end.get(partition, 0) for partition in end}
        published = PublishedBatch(start, end, {}, BatchTotals.model_construct(**totals), "s@1.0.0", 1)
        after = before.ledger.publish(published)
        settled = Moment(before.ledger, before.rows, tuple(refused), tuple(source))
        moments += [settled, Moment(after, tuple(rows), tuple(refused), tuple(source))]
    return moments


def _apply(
    fate: str, position: Position, rows: list[Position], refused: list[Position], totals: Counter[str]
) -> None:
    match fate:
        case "quarantined":
            refused.append(position)
            totals["quarantined"] += 1
        case "replaces" | "deletes":
            taken = bool(rows)
            if taken:
                rows.pop(0)
                totals["superseded"] += 1
            totals["written"] -= taken
            if fate == "replaces":
                rows.append(position)
                totals["written"] += 1
            else:
                totals["deleted"] += 1
        case "written":
            rows.append(position)
            totals["written"] += 1
        case _:
            totals[fate] += 1


def moments_of(data: st.DataObject, among: list[Moment], count: int) -> list[Moment]:
    """Draw moments, the earlier ones first."""
    indices = sorted(data.draw(st.lists(st.integers(0, len(among) - 1), min_size=count, max_size=count)))
    return [among[index] for index in indices]


def look_at_table(first: Moment, second: Moment, third: Moment) -> Reconciliation:
    """As a table is looked at: ledger and rows at once, then the topics."""
    return reconcile(first.ledger, second.source, first.rows, third.quarantined)


def look_at_topic(first: Moment, second: Moment, third: Moment, fourth: Moment) -> Reconciliation:
    """As a topic is looked at: the ledger, the accepted records, the ledger again, then the other topics."""
    return reconcile(first.ledger, third.source, second.rows, fourth.quarantined, None, later=third.ledger)


@given(batches, st.data())
def test_a_table_that_is_written_meanwhile_holds(
    batches: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    found = look_at_table(*moments_of(data, history(batches), 3))
    assert found.holds, found


@given(batches, st.data())
def test_a_topic_that_is_written_meanwhile_holds(
    batches: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    appended = [
        [(p, "written" if fate in {"replaces", "deletes"} else fate) for p, fate in each] for each in batches
    ]
    found = look_at_topic(*moments_of(data, history(appended), 4))
    assert found.holds, found


@given(batches, st.data())
def test_what_is_wrong_with_what_the_ledger_covers_shows(
    batches: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    first, second, third = moments_of(data, history(batches), 3)
    if first.rows:
        chosen = data.draw(st.sampled_from(first.rows))
        left = tuple(each for each in first.rows if each != chosen)
        lost = reconcile(first.ledger, second.source, left, third.quarantined)
        assert (lost.holds, lost.lost) == (False, 1)
        assert chosen in lost.unaccounted
        doubled = reconcile(first.ledger, second.source, (*first.rows, chosen), third.quarantined)
        assert (doubled.holds, doubled.written_twice) == (False, {chosen})
        both = reconcile(first.ledger, second.source, first.rows, (*third.quarantined, chosen))
        assert (both.holds, both.in_both) == (False, {chosen})
    beyond = (7, 0)
    stray = reconcile(first.ledger, second.source, (*first.rows, beyond), third.quarantined)
    assert (stray.holds, stray.beyond) == (False, {beyond})


@given(batches, st.data())
def test_a_record_that_no_later_ledger_covers_shows_in_a_topic(
    batches: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    appended = [[(p, "written") for p, _ in each] for each in batches]
    first, second, third, fourth = moments_of(data, history(appended), 4)
    ahead = (0, third.ledger.end.get(0, 0))
    found = reconcile(
        first.ledger, third.source, (*second.rows, ahead), fourth.quarantined, None, third.ledger
    )
    assert (found.holds, found.beyond) == (False, {ahead})


@given(batches, st.data())
def test_what_topics_delete_meanwhile_is_unverifiable_and_no_fault(
    batches: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    """Retention takes records off the front at any time before it is asked where the front is."""
    first, second, third = moments_of(data, history(batches), 3)
    read_from: Vector = {p: data.draw(st.integers(0, end)) for p, end in first.ledger.end.items()}
    asked_later = {p: data.draw(st.integers(read_from[p], end)) for p, end in first.ledger.end.items()}
    source = [(p, offset) for p, offset in second.source if offset >= read_from.get(p, 0)]
    retained = Retained(source=asked_later)
    found = reconcile(first.ledger, source, first.rows, third.quarantined, retained)
    assert found.holds, found
    assert found.past_retention == sum(asked_later.values())


@given(batches, st.data())
def test_what_is_compacted_since_is_unverifiable_and_no_fault(
    batches: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    first, second, third = moments_of(data, history(batches), 3)
    gone = data.draw(st.sets(st.sampled_from(second.source))) if second.source else set[Position]()
    source = [position for position in second.source if position not in gone]
    found = reconcile(first.ledger, source, first.rows, third.quarantined, Retained(is_source_compacted=True))
    assert found.holds, found
    assert found.compacted == sum(offset < first.ledger.end.get(p, 0) for p, offset in gone)
    if first.rows:
        doubled = (*first.rows, first.rows[0])
        again = reconcile(
            first.ledger, source, doubled, third.quarantined, Retained(is_source_compacted=True)
        )
        assert not again.holds


positions = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7)), max_size=20)
vectors = st.dictionaries(st.integers(0, 2), st.integers(0, 7))
spans = st.dictionaries(st.integers(0, 2), st.tuples(st.integers(0, 7), st.integers(0, 7)).map(sorted))
totals = st.builds(
    BatchTotals,
    dropped=st.integers(0, 3),
    quarantined=st.integers(0, 9),
    absent=st.integers(0, 9),
    deleted=st.integers(0, 2),
)


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    drawn = draw(spans)
    begin, end = ({p: places[side] for p, places in drawn.items()} for side in (0, 1))
    return NEW.model_copy(update={"begin": begin, "end": end, "totals": draw(totals)})


@dataclass(frozen=True)
class Looked:
    """Everything that a reconciliation looks at, whatever stream it may be of."""

    ledger: Ledger
    source: list[Position]
    written: list[Position]
    quarantined: list[Position]
    retained: Retained
    later: Ledger | None


def one_by_one(given: Looked) -> dict[str, object]:
    """Say of each position by itself what is wrong with it: the definition that bitmaps must not change."""
    ledger, held, later = given.ledger, given.retained, given.later
    source, table, refused = map(set, (given.source, given.written, given.quarantined))
    begin = {p: max(first, held.source.get(p, 0)) for p, first in ledger.begin.items()}

    def is_between(position: Position, start: Vector, end: Vector) -> bool:
        return start.get(position[0], 0) <= position[1] < end.get(position[0], 0)

    def is_explained(position: Position) -> bool:
        p, offset = position
        is_past = is_between(position, ledger.begin, ledger.end) and offset < begin.get(p, 0)
        is_compacted = held.is_source_compacted and is_between(position, begin, ledger.end)
        is_ahead = held.is_written_ahead and offset >= ledger.end.get(p, 0)
        is_new = later is not None and is_between(position, later.begin | ledger.end, later.end)
        return is_past or is_compacted or is_ahead or is_new

    covered = {each for each in source if is_between(each, begin, ledger.end)}
    absent = sum(max(0, ledger.end[p] - first) for p, first in begin.items()) - len(covered)
    compacted = max(0, absent - ledger.totals.absent) if held.is_source_compacted else 0
    found = sum(is_between(each, ledger.begin, ledger.end) for each in refused)
    return {
        "unaccounted": covered - table - refused,
        "written_twice": {each for each in table if given.written.count(each) > 1},
        "quarantined_twice": {each for each in refused if given.quarantined.count(each) > 1},
        "in_both": table & refused,
        "beyond": {each for each in table - covered if not is_explained(each)},
        "written": len(table & covered),
        "quarantined": len(refused & covered),
        "absent": absent - compacted,
        "compacted": compacted,
        "forgotten": 0 if held.is_quarantine_whole else max(0, ledger.totals.quarantined - found),
    }


@given(
    st.builds(
        Looked,
        ledger=ledgers(),
        source=positions,
        written=positions,
        quarantined=positions,
        retained=st.builds(Retained, vectors, st.booleans(), st.booleans(), st.booleans()),
        later=st.none() | ledgers(),
    )
)
def test_whatever_is_there_is_found_as_one_by_one_in_plain_sets(given: Looked) -> None:
    found = reconcile(
        given.ledger, given.source, given.written, given.quarantined, given.retained, given.later
    )
    assert {name: getattr(found, name) for name in one_by_one(given)} == one_by_one(given)
