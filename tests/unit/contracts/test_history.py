"""The manifest of a history, and the ledger that counts its records as one more partition."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.ledgers import LEDGER
from tidegate.contracts.errors import SettingsError, StreamStopped
from tidegate.contracts.stream.history import (
    HISTORY_PARTITION,
    HistoryInput,
    HistoryLoad,
    HistoryManifest,
    HistoryMark,
    HistoryPart,
    of_topic,
)
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, PublishedBatch, span

AT = datetime(2026, 1, 1, tzinfo=UTC)


def batch(partition: int, start: int, end: int) -> PublishedBatch:
    totals = BatchTotals(written=end - start)
    return PublishedBatch({partition: start}, {partition: end}, {}, totals, "orders@1.0.0", 1)


def test_a_history_is_one_more_partition_of_the_ledger() -> None:
    begun = LEDGER.model_copy(update={"history": HistoryMark(load="h/load-0", end=6)})
    assert begun.pending_history == 6
    published = begun.publish(batch(HISTORY_PARTITION, 0, 4))
    assert (published.begin[HISTORY_PARTITION], published.end[HISTORY_PARTITION]) == (0, 4)
    assert (of_topic(published.begin), of_topic(published.end)) == (LEDGER.begin, LEDGER.end)
    assert published.pending_history == 2
    later = published.publish(batch(0, LEDGER.end[0], LEDGER.end[0] + 3))
    assert (later.end[HISTORY_PARTITION], later.end[0]) == (4, LEDGER.end[0] + 3)
    assert span(later.begin, later.end) == span(LEDGER.begin, LEDGER.end) + 7
    assert Ledger.parse(later.text) == later


def test_a_ledger_without_a_history_is_stored_as_before() -> None:
    assert "history" not in LEDGER.text
    assert (Ledger.parse(LEDGER.text), LEDGER.pending_history) == (LEDGER, 0)


def manifest(*sizes: int) -> HistoryManifest:
    loads = [
        HistoryLoad(
            id=f"load-{n}",
            at=AT,
            inputs=(HistoryInput(name=f"/{n}.jsonl", size=size, changed_ns=1, sha256="s"),),
            parts=(
                HistoryPart(path=f"load-{n}/a", records=size, size=1),
                HistoryPart(path=f"load-{n}/b", records=1, size=1),
            ),
        )
        for n, size in enumerate(sizes)
    ]
    return HistoryManifest(id="h", stream="orders", loads=tuple(loads))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, None, [0, 3, 4, 9]),
        (2, 3, [0]),
        (3, 4, [3]),
        (4, 10, [4, 9]),
        (10, None, []),
    ],
)
def test_parts_are_numbered_on(start: int, end: int | None, expected: list[int]) -> None:
    found = manifest(3, 5)
    assert [each.first for each in found.placed(start, end)] == expected
    assert found.marks == (HistoryMark(load="h/load-0", end=4), HistoryMark(load="h/load-1", end=10))
    assert (found.end, [each.records for each in found.loads]) == (10, [4, 6])


def test_a_load_continues_the_parts_before_it() -> None:
    assert manifest(1).with_load(manifest(1, 5).loads[1]) == manifest(1, 5)
    assert [each.first for each in manifest(1, 5).placed()] == [0, 1, 2, 7]


def test_inputs_are_compared_with_what_was_loaded() -> None:
    found = manifest(3, 5)
    same = HistoryInput(name="/0.jsonl", size=3, changed_ns=1)
    grown = HistoryInput(name="/1.jsonl", size=6, changed_ns=1)
    new = HistoryInput(name="/2.jsonl", size=1, changed_ns=1)
    assert found.unread((same, grown, new)) == (new,)
    assert found.touched((same, grown, new)) == ((found.loads[1].inputs[0], grown),)
    with pytest.raises(SettingsError, match=r"^/2\.jsonl is named twice"):
        found.unread((same, new, new))


def test_a_damaged_manifest_stops_the_stream() -> None:
    text = manifest(3).model_dump_json()
    assert HistoryManifest.parse(text, "m.json") == manifest(3)
    for damaged in (text[:-1], text.replace('"h"', "7"), "{}"):
        with pytest.raises(StreamStopped, match=r"m\.json cannot be read as the manifest"):
            HistoryManifest.parse(damaged, "m.json")
    twice = manifest(3).model_copy(update={"loads": manifest(3).loads * 2})
    with pytest.raises(StreamStopped, match="loaded twice"):
        HistoryManifest.parse(twice.model_dump_json(), "m.json")
