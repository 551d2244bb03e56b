"""Which refused records a chunk of a replay takes, and which it leaves: what the job does, and a preview shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.ledgers import LEDGER
from tidegate.contracts.errors import ConflictError
from tidegate.contracts.stream.evidence import SENT_BACK_HEADER, EventPointer, quarantine_headers
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import Closed, ReplayAction, ReplayTerms, Untouched
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.spark_jobs.job import replay_chunk
from tidegate.spark_jobs.job.replay_chunk import ReplayChunk, read_chunk
from tidegate.spark_jobs.sinks.kafka.sink import require_order

REFUSED = Verdict(
    Disposition.QUARANTINED,
    (Violation(Stage.RULE, "age-is-known", "/age", Severity.ERROR, "is forbidden"),),
)


@dataclass
class Read:
    """A record of the quarantine topic, as a consumer returns it."""

    place: int
    source: int
    is_sent_back: bool = False

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.place

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"{}"

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000

    def headers(self) -> list[tuple[str, bytes]]:
        own = [(SENT_BACK_HEADER, b"t/0/1")] if self.is_sent_back else []
        return own + quarantine_headers(EventPointer("t", 0, self.source), LEDGER.name, "s@1.0.0", REFUSED)


def read(terms: ReplayTerms, *records: Read, wanted: range = range(4)) -> ReplayChunk:
    messages: Iterator[Any] = iter(records)
    positions = Positions((0, place) for place in wanted)
    return read_chunk(terms, LEDGER, Closed(), {0: 3}, positions, messages)


@pytest.mark.parametrize(
    ("action", "left"),
    [
        (ReplayAction.REPLAY, {Untouched.UNORDERED: 1}),
        (ReplayAction.TO_SOURCE, {Untouched.SENT_BACK: 1}),
        (ReplayAction.DISCARD, {}),
    ],
)
def test_the_action_decides_what_is_left(action: ReplayAction, left: dict[Untouched, int]) -> None:
    """Marks of deleted keys hold only rows back, and only the source topic gets no record a second time."""
    chunk = read(ReplayTerms(action), Read(0, 2), Read(1, 4), Read(2, 5, is_sent_back=True), wanted=range(3))
    assert chunk.untouched == left
    assert len(chunk.records) == 3 - len(left)


def test_positions_without_a_record_are_missing_and_one_source_counts_once() -> None:
    chunk = read(ReplayTerms(), Read(1, 5), Read(3, 5), wanted=range(6))
    assert (chunk.taken, chunk.untouched) == (6, {Untouched.MISSING: 4, Untouched.REPLAYED: 1})
    assert chunk.places == {(0, 5): (0, 1)}


def test_a_chunk_ends_behind_its_bytes_and_the_next_begins_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_chunk, "CHUNK_BYTES", 1)
    records = [Read(1, 5), Read(3, 6)]
    first = read(ReplayTerms(), *records)
    assert (first.taken, [*first.records], first.untouched) == (2, [(0, 5)], {Untouched.MISSING: 1})
    then = read(ReplayTerms(), *records[1:], wanted=range(first.taken, 4))
    assert (then.taken, [*then.records], then.untouched) == (2, [(0, 6)], {Untouched.MISSING: 1})


@pytest.mark.parametrize(
    ("has_keys", "append_late", "is_taken"), [(True, False, False), (True, True, True), (False, False, True)]
)
def test_a_topic_takes_records_with_keys_only_when_the_request_says_so(
    *, has_keys: bool, append_late: bool, is_taken: bool
) -> None:
    if is_taken:
        require_order("t.accepted", has_keys=has_keys, append_late=append_late)
    else:
        with pytest.raises(ConflictError, match="--append-late"):
            require_order("t.accepted", has_keys=has_keys, append_late=append_late)
