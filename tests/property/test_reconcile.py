"""Reconciling a stream that runs: whatever is published while it is looked at, what is right holds and what is wrong shows."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledgers import NEW
from tests.property.histories import Moment, batches, history, moments_of, upserts_of
from tests.reconciling import reconcile
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, Position, Vector
from tidegate.contracts.stream.reconcile import Reconciliation, Retained
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer

UNHURRIED = settings(deadline=None)  # Arrow loads its functions at the first call


def look_at_table(first: Moment, second: Moment, third: Moment) -> Reconciliation:
    """As a table is looked at: ledger and rows at once, then the topics."""
    upserts = upserts_of(first, second.source, first.rows)
    return reconcile(first.ledger, second.source, first.rows, third.quarantined, upserts=upserts)


def has_unclear_drops(moment: Moment) -> bool:
    """Return whether dropped records hide what became of others: no key tells them from those of a table that is upserted into."""
    return moment.is_upserted and moment.ledger.totals.dropped > 0


def look_at_topic(first: Moment, second: Moment, third: Moment, fourth: Moment) -> Reconciliation:
    """As a topic is looked at: the ledger, the accepted records, the ledger again, then the other topics."""
    return reconcile(first.ledger, third.source, second.rows, fourth.quarantined, None, later=third.ledger)


@UNHURRIED
@given(batches, st.data())
def test_a_table_that_is_written_meanwhile_holds(
    batches: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    moments = moments_of(data, history(batches, uncounted=data.draw(st.integers(0, 3))), 3)
    found = look_at_table(*moments)
    assert found.answer is (
        ReconciliationAnswer.UNPROVEN if has_unclear_drops(moments[0]) else ReconciliationAnswer.HOLDS
    ), found


@given(batches, st.data())
def test_a_topic_that_is_written_meanwhile_holds(
    batches: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    appended = [
        [(p, "written" if fate in {"replaces", "deletes"} else fate) for p, fate in each] for each in batches
    ]
    found = look_at_topic(*moments_of(data, history(appended), 4))
    assert found.holds, found


@UNHURRIED
@given(batches, st.data())
def test_what_is_wrong_with_what_the_ledger_covers_shows(
    batches: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    first, second, third = moments_of(data, history(batches), 3)
    if first.rows:
        chosen = data.draw(st.sampled_from(first.rows))
        left = tuple(each for each in first.rows if each != chosen)
        upserts = upserts_of(first, second.source, left)
        lost = reconcile(first.ledger, second.source, left, third.quarantined, upserts=upserts)
        if has_unclear_drops(first):
            assert not lost.holds
        else:
            assert (lost.answer, lost.lost) == (ReconciliationAnswer.LOST, 1)
        assert chosen in lost.unaccounted
        # Old ledgers and no keys: the counts of all time are enough where all is visible.
        unkeyed = reconcile(first.ledger, second.source, left, third.quarantined)
        assert (unkeyed.answer, unkeyed.lost) == (ReconciliationAnswer.LOST, 1)
        doubled = reconcile(first.ledger, second.source, (*first.rows, chosen), third.quarantined)
        assert (doubled.answer, doubled.written_twice) == (ReconciliationAnswer.LOST, {chosen})
        both = reconcile(first.ledger, second.source, first.rows, (*third.quarantined, chosen))
        assert (both.answer, both.in_both) == (ReconciliationAnswer.LOST, {chosen})
    beyond = (7, 0)
    stray = reconcile(first.ledger, second.source, (*first.rows, beyond), third.quarantined)
    assert (stray.answer, stray.beyond) == (ReconciliationAnswer.LOST, {beyond})


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


@UNHURRIED
@given(batches, st.data())
def test_what_topics_delete_meanwhile_is_no_fault(
    batches: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    """Retention takes records off the front at any time before it is asked where the front is."""
    first, second, third = moments_of(data, history(batches), 3)
    read_from: Vector = {p: data.draw(st.integers(0, end)) for p, end in first.ledger.end.items()}
    asked_later = {p: data.draw(st.integers(read_from[p], end)) for p, end in first.ledger.end.items()}
    source = [(p, offset) for p, offset in second.source if offset >= read_from.get(p, 0)]
    retained = Retained(source=asked_later)
    upserts = upserts_of(first, source, first.rows)
    found = reconcile(first.ledger, source, first.rows, third.quarantined, retained, upserts=upserts)
    assert found.past_retention == sum(asked_later.values())
    # Rows and quarantined records are as many as were counted; only of records that were replaced nothing is left.
    gone = {
        position
        for position in first.source
        if position[1] < asked_later.get(position[0], 0) and position not in {*first.rows, *first.quarantined}
    }
    is_proven = not has_unclear_drops(first) and not (first.is_upserted and gone)
    assert found.answer is (ReconciliationAnswer.HOLDS if is_proven else ReconciliationAnswer.UNPROVEN), found


@UNHURRIED
@given(batches, st.data())
def test_what_is_compacted_since_is_no_fault(
    batches: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    first, second, third = moments_of(data, history(batches), 3)
    gone = data.draw(st.sets(st.sampled_from(second.source))) if second.source else set[Position]()
    source = [position for position in second.source if position not in gone]
    compacted = Retained(is_source_compacted=True)
    upserts = upserts_of(first, source, first.rows)
    found = reconcile(first.ledger, source, first.rows, third.quarantined, compacted, upserts=upserts)
    covered = {position for position in gone if position[1] < first.ledger.end.get(position[0], 0)}
    is_proven = not first.is_upserted or not (
        first.ledger.totals.dropped or covered - {*first.rows, *first.quarantined}
    )
    assert found.answer is (ReconciliationAnswer.HOLDS if is_proven else ReconciliationAnswer.UNPROVEN), found
    assert found.compacted == sum(offset < first.ledger.end.get(p, 0) for p, offset in gone)
    if first.rows:
        doubled = (*first.rows, first.rows[0])
        again = reconcile(
            first.ledger, source, doubled, third.quarantined, Retained(is_source_compacted=True)
        )
        assert not again.holds


@dataclass(frozen=True)
class Damage:
    """What was taken away: by a fault (`lost`, and rows that became an older one), and by the retention of topics."""

    rows: tuple[Position, ...]
    quarantined: tuple[Position, ...]
    source: tuple[Position, ...]
    retained: Retained
    lost: int


def damaged(data: st.DataObject, moment: Moment) -> Damage:
    """Draw what goes wrong with a moment and what topics delete, each of it perhaps nothing."""
    rows = list(moment.rows)
    lost = 0
    for row in moment.rows:
        fault = data.draw(st.sampled_from(("none", "none", "lost", "stale")))
        older = [
            position
            for position, each in moment.keyed.items()
            if each.key == moment.keyed[row].key and position != row and not each.deletes
        ]
        if fault == "stale" and older:
            rows[rows.index(row)] = older[-1]
            lost += 1
        elif fault == "lost":
            rows.remove(row)
            lost += 1
    covered = [each for each in moment.quarantined if each[1] < moment.ledger.end.get(each[0], 0)]
    trimmed = data.draw(st.sampled_from((0, 0, 1, 3)))
    taken = set(data.draw(st.lists(st.sampled_from(covered), max_size=2))) if covered else set()
    refused = [each for each in covered[trimmed:] if each not in taken]
    lost += len(taken & set(covered))
    first = {p: data.draw(st.sampled_from((0, 0, end // 2, end))) for p, end in moment.ledger.end.items()}
    source = [(p, offset) for p, offset in moment.source if offset >= first.get(p, 0)]
    retained = Retained(source=first, is_quarantine_whole=trimmed == 0)
    return Damage(tuple(rows), tuple(refused), tuple(source), retained, lost)


@UNHURRIED
@given(batches, st.booleans(), st.integers(0, 3), st.data())
def test_no_answer_says_more_than_can_be_known(
    batches: list[list[tuple[int, str]]], shares_keys: bool, uncounted: int, data: st.DataObject
) -> None:
    """Never *holds* when something was lost, never *lost* when nothing was, and never more than was."""
    moment = history(batches, uncounted=uncounted, shares_keys=shares_keys)[-1]
    given = damaged(data, moment)
    upserts = data.draw(st.sampled_from((upserts_of(moment, given.source, given.rows), None)))
    # What the topic of dropped positions still holds: its newest records.
    kept = moment.dropped[data.draw(st.sampled_from((0, 0, 1, 2, len(moment.dropped)))) :]
    found = reconcile(
        moment.ledger,
        given.source,
        given.rows,
        given.quarantined,
        given.retained,
        upserts=upserts,
        dropped=kept,
    )
    if found.holds:
        assert given.lost == 0, found
    if found.answer is ReconciliationAnswer.LOST:
        assert given.lost > 0, found
    assert found.lost <= given.lost
    is_whole = not any(given.retained.source.values()) and given.retained.is_quarantine_whole
    if is_whole and not moment.is_upserted:
        assert (found.answer, found.lost) == (
            ReconciliationAnswer.LOST if given.lost else ReconciliationAnswer.HOLDS,
            given.lost,
        )
    knows_drops = kept == moment.dropped
    if is_whole and upserts is not None and not shares_keys and knows_drops:
        assert found.answer is (ReconciliationAnswer.LOST if given.lost else ReconciliationAnswer.HOLDS)


@given(batches, st.integers(0, 3), st.data())
def test_a_table_without_upserts_holds_whatever_the_source_has_deleted(
    batches: list[list[tuple[int, str]]], uncounted: int, data: st.DataObject
) -> None:
    """Its rows are counted: also of an older ledger, which has the counts of all time alone."""
    appended = [
        [(p, "written" if fate in {"replaces", "deletes"} else fate) for p, fate in each] for each in batches
    ]
    moment = history(appended, uncounted=uncounted)[-1]
    first = {p: data.draw(st.integers(0, end)) for p, end in moment.ledger.end.items()}
    source = [(p, offset) for p, offset in moment.source if offset >= first.get(p, 0)]
    found = reconcile(moment.ledger, source, moment.rows, moment.quarantined, Retained(source=first))
    assert found.holds, found
    if moment.rows:
        chosen = data.draw(st.sampled_from(moment.rows))
        left = [each for each in moment.rows if each != chosen]
        found = reconcile(moment.ledger, source, left, moment.quarantined, Retained(source=first))
        assert not found.holds, found


@UNHURRIED
@given(batches, st.data())
def test_a_dropped_record_that_is_written_does_not_hide_one_that_is_lost(
    batches: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    appended = [
        [(p, "written" if fate in {"replaces", "deletes"} else fate) for p, fate in each] for each in batches
    ]
    moment = history(appended)[-1]
    if not (moment.rows and moment.dropped):
        return
    lost, dropped = (data.draw(st.sampled_from(each)) for each in (moment.rows, moment.dropped))
    rows = [dropped if row == lost else row for row in moment.rows]
    found = reconcile(moment.ledger, moment.source, rows, moment.quarantined, dropped=moment.dropped)
    assert (found.answer, found.lost, found.surplus) == (ReconciliationAnswer.LOST, 1, 1)
    assert found.unaccounted == {lost}


THOUSAND = [(0, offset) for offset in range(1_000)]


def thousand(fates: list[str], *, upserted: bool = False) -> Moment:
    """Return a stream of 1,000 records of one partition, published in ten batches; upserted ones take the oldest row."""
    assert len(fates) == len(THOUSAND)
    assert upserted == ("replaces" in fates)
    return history([[(0, fate) for fate in fates[first : first + 100]] for first in range(0, 1_000, 100)])[-1]


def test_50_lost_records_are_not_taken_for_those_that_the_quarantine_topic_has_deleted() -> None:
    moment = thousand(["quarantined"] * 500 + ["written"] * 500)
    retained = Retained(source={0: 500}, is_quarantine_whole=False)
    found = reconcile(moment.ledger, THOUSAND[500:], THOUSAND[550:], [], retained)
    assert (found.answer, found.lost) == (ReconciliationAnswer.LOST, 50)
    assert found.unaccounted == set(THOUSAND[500:550])


def test_400_lost_records_are_not_taken_for_those_that_were_superseded() -> None:
    moment = thousand((["written"] * 100 + ["replaces"] * 400) + ["written"] * 500, upserted=True)
    retained = Retained(source={0: 500})
    left = [row for row in moment.rows if not 500 <= row[1] < 900]
    upserts = upserts_of(moment, THOUSAND[500:], left)
    found = reconcile(moment.ledger, THOUSAND[500:], left, [], retained, upserts=upserts)
    assert (found.answer, found.lost) == (ReconciliationAnswer.LOST, 400)
    assert found.unaccounted == set(THOUSAND[500:900])


def test_500_lost_records_are_not_taken_for_those_that_were_dropped() -> None:
    moment = thousand(["dropped"] * 500 + ["written"] * 500)
    found = reconcile(moment.ledger, THOUSAND[500:], [], [], Retained(source={0: 500}))
    assert (found.answer, found.lost) == (ReconciliationAnswer.LOST, 500)


def test_what_no_segment_counts_is_not_called_lost() -> None:
    """The same 500 records of a ledger of an older version: 500 of 1,000 were dropped, and which is not known."""
    moment = thousand(["dropped"] * 500 + ["written"] * 500)
    old = moment.ledger.model_copy(update={"segments": {}})
    found = reconcile(old, THOUSAND[500:], [], [], Retained(source={0: 500}))
    assert (found.answer, found.lost, found.unverifiable) == (ReconciliationAnswer.UNPROVEN, 0, 500)


def test_what_an_accepted_topic_may_have_deleted_is_not_called_lost() -> None:
    moment = thousand(["written"] * 1_000)
    trimmed = Retained(is_written_whole=False)
    found = reconcile(moment.ledger, THOUSAND, THOUSAND[300:], [], trimmed)
    assert (found.answer, found.lost, found.unverifiable) == (ReconciliationAnswer.UNPROVEN, 0, 300)


def test_rows_of_a_table_that_was_rolled_back_are_lost_though_they_are_as_many() -> None:
    moment = thousand(["written"] * 500 + ["replaces"] * 500, upserted=True)
    rolled_back = THOUSAND[:500]
    upserts = upserts_of(moment, THOUSAND, rolled_back)
    found = reconcile(moment.ledger, THOUSAND, rolled_back, [], upserts=upserts)
    assert (found.answer, found.lost) == (ReconciliationAnswer.LOST, 500)
    # Without the keys the counts are as they should be.
    assert reconcile(moment.ledger, THOUSAND, rolled_back, []).answer is ReconciliationAnswer.UNPROVEN


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
    """Return for each position by itself what is wrong with it: the definition that bitmaps must not change."""
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
