"""The models of replays and rewinds drive the code, as in test_schedules.py: their counterexamples are run on real sinks.

Left out are schedules of what happens between reading a chunk and publishing it, of chunks of a part of a request, and of
retention: test_replay.py, test_replay_upserts.py and test_closed_records.py have these. Parts that are halves of a commit or
of a transaction have schedules that end where others do. test_rewind.py kills rewinds at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.integration.enforce.hand_schedules import REWINDS_BY_HAND
from tests.integration.enforce.line import Line
from tests.integration.enforce.mutants import Apply, Source, all_of, ids_of_their_own
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.schedule import IN_ONE_TRANSACTION, STAGED, Gates, Replay
from tests.integration.enforce.test_faults import SINKS
from tests.integration.enforce.test_schedules import require_harm
from tests.model.closures import ClosurePart
from tests.model.replay import ReplayPart
from tests.model.rewind import RewindPart, RewindProtocol
from tests.model.schedules import AnyPart, kafka_counterexample, replay_counterexample, world_of
from tests.model.upserts import UpsertPart
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import Closed
from tidegate.contracts.stream.replayed_chunk import ReplayedChunk
from tidegate.contracts.stream.rewind import Rewind
from tidegate.spark_jobs.adopt import rewind as rewinding
from tidegate.spark_jobs.adopt.rewind import Rewinder
from tidegate.spark_jobs.job import replay_chunk, resend
from tidegate.spark_jobs.job.resend import ClosedRecords
from tidegate.spark_jobs.kafka import replayed
from tidegate.spark_jobs.sinks import adoption, merging, staged
from tidegate.spark_jobs.sinks.kafka import sink as kafka_sink
from tidegate.spark_jobs.sinks.staged import StagedSink

RUN: tuple[AnyPart, ...] = (
    ReplayPart.SKIP_REPLAYED,
    ReplayPart.SKIP_OVERRULED,
    ReplayPart.SKIP_AHEAD,
    ReplayPart.COMPARES,
    ReplayPart.COUNT,
    ReplayPart.NAMES_POSITIONS,
    ReplayPart.REWIND_FORGETS,
    UpsertPart.NEWER_ROW,
    UpsertPart.MARKS,
    ClosurePart.SKIP_CLOSED,
    ClosurePart.FENCE_SENDER,
    ClosurePart.CHECKS_CLAIM,
    ClosurePart.LOOKS_AHEAD,
    ClosurePart.NAMES_POSITIONS,
    ClosurePart.LEFT_OUT,
    ClosurePart.COUNTS_LEFT_OUT,
    ClosurePart.REWIND_FENCES_SENDER,
    ClosurePart.REWIND_KEEPS_SENT,
    ClosurePart.REWIND_LOOKS_AHEAD,
    ClosurePart.REWIND_REOPENS,
    RewindPart.CLAIM,
    RewindPart.FENCE,
    RewindPart.LOOK_AFTER_FENCE,
    RewindPart.COUNT_AGAIN,
    RewindPart.POINTS,
    RewindPart.COMMIT_COMPARES,
    RewindPart.SCAN_COMPARES,
    RewindPart.HEADER,
)
"""The parts whose schedules differ. Those of halves of a commit end where the schedules of `COUNT` and `COUNT_AGAIN` do.

The schedule of `ClosurePart.COMPARES` has a chunk between two batches of what Spark offers at once. The attempt holds its
lock there, so that no chunk can begin. `ReplayPart.COMPARES` drives the same commit.
"""

RUN_ON_KAFKA = (ReplayPart.SKIP_REPLAYED, ReplayPart.COMPARES, ReplayPart.COUNT)
"""The same of the Kafka sink, which has no rewinds."""

_WRITES_MARKS = "marked, marks_digest = self._marks.records(held, {**held.end, **end}, marks)"
_NAMED = "if discarded == found.discarded and"
_KEPT = "Closure.RESENT: found.resent}"
_FORGOTTEN = "Closure.RESENT: found.resent.within({}, {**ledger.end, **points})}"


_LOOKS = "rewind_to(shown.points, claimed, self._found(claimed, shown.points))"
_CLAIMS = "self._sink.write(held, claimed)"
_RETRACTS = "self._sink.retract(shown.points,"


def ordering_by_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let any record replace the row of its key."""
    monkeypatch.setattr(merging, "_NEWER", "true")


def finding_nothing(owner: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a function of a module find no positions."""
    monkeypatch.setattr(owner, name, lambda *_: Positions())


def fencing_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands leave the producer alone that sends records back."""
    monkeypatch.setattr(adoption, "fenced_sender", lambda *_: None)


def leaving(old: str) -> tuple[str, str]:
    """Return the change of a condition to one that never holds."""
    return old, f"{old.partition(' ')[0]} False:"


MUTANTS: dict[AnyPart, Apply] = {
    ReplayPart.SKIP_REPLAYED: Source(Closed, "why", (leaving("if position in self.replayed:"),)),
    ReplayPart.POSITIONS_FIRST: Source(
        StagedSink, "_publish_chunk", (("if records := [*replayed, *marked]:", "if records := []:"),)
    ),
    ReplayPart.COUNT: Source(
        ReplayedChunk, "ledger", (('totals["quarantined"] -= count', 'totals["absent"] -= 0'),)
    ),
    ReplayPart.NAMES_POSITIONS: Source(
        ReplayedChunk,
        "ledger",
        (('(digest if count else "") or held.replayed_digest', "held.replayed_digest"),),
    ),
    ReplayPart.REWIND_FORGETS: Source(
        rewinding,  # its own name of the function is the one that it calls
        "rewind_to",
        (("found.replayed.within({}, {**held.end, **points})", "found.replayed"),),
    ),
    UpsertPart.NEWER_ROW: ordering_by_nothing,
    UpsertPart.MARKS: all_of(
        Source(StagedSink, "_write_positions", ((_WRITES_MARKS, 'marked, marks_digest = [], ""'),)),
        Source(StagedSink, "_note_marks", (("self._newest_marks = marks", "pass"),)),
    ),
    ClosurePart.SKIP_CLOSED: Source(Closed, "why", (leaving("if position in self.discarded:"),)),
    ClosurePart.FENCE_SENDER: ids_of_their_own(replayed),
    ClosurePart.CHECKS_CLAIM: Source(ClosedRecords, "known", (leaving("if not self._sink.is_held():"),)),
    ClosurePart.LOOKS_AHEAD: all_of(
        partial(finding_nothing, replayed, "resent_ahead"), partial(finding_nothing, resend, "resent_ahead")
    ),
    ClosurePart.NAMES_POSITIONS: Source(
        ReplayedChunk, "_closed", (("if self.closure is None or not count:", "if True:"),)
    ),
    ClosurePart.LEFT_OUT: partial(finding_nothing, staged, "left_out"),
    ClosurePart.COUNTS_LEFT_OUT: Source(
        StagedSink, "judge", (("left_out=sent_back", "left_out=Positions()"),)
    ),
    ClosurePart.REWIND_FENCES_SENDER: fencing_nobody,
    ClosurePart.REWIND_KEEPS_SENT: Source(
        Rewinder, "_with_closed", ((_NAMED, "if False and"), (_KEPT, _FORGOTTEN))
    ),
    ClosurePart.REWIND_LOOKS_AHEAD: partial(finding_nothing, replayed, "resent_ahead"),
    RewindPart.CLAIM: Source(
        Rewinder,
        "rewind",
        (
            ("claimed = held.claim(held.slots, identity[:8])", "claimed = held"),
            (_CLAIMS, "pass"),
        ),
    ),
    RewindPart.FENCE: ids_of_their_own(adoption),
    RewindPart.LOOK_AFTER_FENCE: Source(
        Rewinder,
        "rewind",
        (
            (f"found = {_LOOKS}", "found = early"),
            (_CLAIMS, f"{_CLAIMS}; early = {_LOOKS}"),
        ),
    ),
    RewindPart.COUNT_AGAIN: Source(
        Rewind,
        "ledger",
        (
            (
                "totals[name] = totals.get(name, 0) - count",
                'totals[name] = totals.get(name, 0) - count * (name != "quarantined")',
            ),
        ),
    ),
    RewindPart.POINTS: Source(
        Rewind,
        "ledger",
        (
            (
                "rewound(claimed.rewinds, self.points,",
                "rewound(claimed.rewinds, dict.fromkeys(self.points, 0),",
            ),
        ),
    ),
    RewindPart.COMMIT_COMPARES: Source(
        Rewinder,
        "rewind",
        ((f"{_RETRACTS} claimed, new)", f"{_RETRACTS} self._sink.read(), new)"),),
    ),
    RewindPart.DELETE: Source(
        Rewinder, "rewind", ((f"{_RETRACTS} claimed, new)", "self._sink.write(claimed, new)"),)
    ),
    RewindPart.SCAN_COMPARES: Source(
        staged,
        "settled_in",
        (("if not ledger.counts(source.partition, source.offset, found[0].generation):", "if False:"),),
    ),
}
"""What takes out each part, where a line of the code has it and no other line holds as well."""

MUTANTS_OF_KAFKA: dict[AnyPart, Apply] = {
    **{
        part: MUTANTS[part]
        for part in (ReplayPart.SKIP_REPLAYED, ReplayPart.COUNT, ReplayPart.NAMES_POSITIONS)
    },
    ReplayPart.POSITIONS_FIRST: Source(kafka_sink.KafkaSink, "replay", (("positions,\n", "\n"),)),
    ReplayPart.COMPARES: ids_of_their_own(kafka_sink),
}
"""The same of the Kafka sink."""

SAME_SCHEDULE: dict[AnyPart, AnyPart] = {
    ReplayPart.POSITIONS_FIRST: ReplayPart.COUNT,
    RewindPart.DELETE: RewindPart.CLAIM,
}
"""Parts whose own schedule ends within a commit, and another that shows the harm."""

STANDS_WITHOUT: dict[AnyPart, Apply] = {
    ReplayPart.SKIP_AHEAD: Source(
        replay_chunk, "why_untouched", (leaving("if offset >= held.end.get(partition, 0):"),)
    ),
    ReplayPart.SKIP_OVERRULED: Source(
        replay_chunk,
        "why_untouched",
        (leaving("if not held.counts(partition, offset, found.generation):"),),
    ),
}
"""The ledger does not count a record from ahead of it, so the request is stopped."""

TESTED_BY_HAND: dict[AnyPart, str] = {
    ReplayPart.ONE_COMMIT_ROWS_FIRST: "test_replay.py::test_an_attempt_that_ends_in_a_replay_is_finished_by_the_next",
    ReplayPart.ONE_COMMIT_LEDGER_FIRST: "test_replay.py::test_an_attempt_that_ends_in_a_replay_is_finished_by_the_next",
    UpsertPart.MARKS_FIRST: "test_replay_killed.py::test_killed_in_a_replay",
    UpsertPart.REPLAYED_DELETES: "test_replay_upserts.py::test_a_replayed_tombstone_deletes_and_leaves_a_mark",
    UpsertPart.LOOK_AT_PUBLISH: "test_replay_upserts.py::test_a_key_that_is_deleted_while_its_record_is_replayed_stays_deleted",
    UpsertPart.KEPT_IN_MEMORY: "test_replay_upserts.py::test_marks_that_retention_deletes_during_a_replay_bring_no_deleted_key_back",
    UpsertPart.KNOWN_MARKS: "test_replay_upserts.py::test_records_from_before_the_oldest_mark_are_left",
    ClosurePart.SENDS_FIRST: "test_closed_records.py::test_killed_while_records_are_sent_to_the_source",
    ClosurePart.ONE_TRANSACTION_RECORDS_FIRST: "test_closed_records.py::test_records_and_the_positions_that_name_them_are_sent_in_one_transaction",
    ClosurePart.ONE_TRANSACTION_POSITIONS_FIRST: "test_closed_records.py::test_records_and_the_positions_that_name_them_are_sent_in_one_transaction",
    ClosurePart.POSITIONS_FIRST: "test_closed_records.py::test_killed_in_a_discard",
    ClosurePart.COMPARES: "test_closed_records.py::test_a_zombie_of_a_discard_changes_nothing",
    ClosurePart.NAMES_AHEAD: "test_closed_records.py::test_records_that_a_cancelled_request_has_sent_stay_closed",
    RewindPart.ONE_COMMIT_ROWS_FIRST: "test_rewind.py::test_a_stream_continues_after_a_rewind_that_was_cut_off",
    RewindPart.ONE_COMMIT_LEDGER_FIRST: "test_rewind.py::test_a_stream_continues_after_a_rewind_that_was_cut_off",
    RewindPart.GENERATION: "test_rewind.py::test_a_bad_contract_is_undone",
}  # fmt: skip
"""Parts whose schedules the code cannot be driven through, and the tests that end, overtake or disturb it there."""


def test_every_part_is_run_on_the_code_or_tested_by_hand() -> None:
    parts = {*ReplayPart, *UpsertPart, *ClosurePart, *RewindPart}
    assert {*RUN, *MUTANTS, *STANDS_WITHOUT, *TESTED_BY_HAND} == parts
    assert not TESTED_BY_HAND.keys() & {*RUN, *MUTANTS, *STANDS_WITHOUT}
    for place in TESTED_BY_HAND.values():
        file, _, name = place.partition("::")
        assert f"\ndef {name}(" in (Path(__file__).parent / file).read_text()


StartReplay = Callable[[str, AnyPart], Replay]


@pytest.fixture
def replay(
    make_line: Callable[..., Line], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[StartReplay]:
    """Yield a function that makes a line with the records of the model that has a part."""
    started: list[Replay] = []

    def start(sink: str, part: AnyPart) -> Replay:
        Gates(monkeypatch)
        world = world_of(part)
        line = make_line(**SINKS[sink if world.deletes is None else f"{sink}-upsert"])
        open_rewinder = None
        if world.rewinds:
            registry: Registry = request.getfixturevalue("registry")
            request.getfixturevalue("publish")(line.document())
            settings = line.settings.model_copy(update={"registry_url": registry.url})
            open_rewinder = partial(Rewinder.opened, settings, line.contract_id)
        order = IN_ONE_TRANSACTION if sink == "kafka" else STAGED
        started.append(Replay(line, world.bounds, order, world, open_rewinder))
        return started[-1]

    yield start
    for each in started:
        each.close()


def chosen(*places: tuple[str, AnyPart]) -> list[object]:
    """Name a sink and a part each; all but two are left to the long run."""
    quick = {("iceberg", UpsertPart.MARKS), ("kafka", ReplayPart.COMPARES)}
    return [
        pytest.param(
            *each, id=f"{each[0]}-{named(each[1])}", marks=[] if each in quick else [pytest.mark.full]
        )
        for each in places
    ]


def named(part: AnyPart) -> str:
    """Return the name of a part, which those of another model may have too."""
    return f"{type(part).__name__}-{part.name}"


def schedule_of(sink: str, part: AnyPart) -> tuple[str, ...]:
    """Return the schedule that does harm to a sink without a part."""
    if sink == "kafka":
        assert isinstance(part, ReplayPart)
        return kafka_counterexample(part)
    by_hand = REWINDS_BY_HAND.get(part) if isinstance(part, RewindPart) else None
    return by_hand or replay_counterexample(part)


@pytest.mark.parametrize("part", REWINDS_BY_HAND)
def test_a_schedule_by_hand_does_harm_in_the_model(part: RewindPart) -> None:
    world = world_of(part)
    protocol = RewindProtocol(world.bounds, world.rewinds, part)
    state = protocol.first()
    for line in REWINDS_BY_HAND[part]:
        state = dict(protocol.following(state))[line]
    assert protocol.violation(state) is not None


@pytest.mark.parametrize(
    ("sink", "part"),
    chosen(
        *((sink, part) for sink in ("iceberg", "delta", "postgresql") for part in RUN),
        *(("kafka", part) for part in RUN_ON_KAFKA),
    ),
)
def test_replays_stand_what_harms_them_without_a_part(sink: str, part: AnyPart, replay: StartReplay) -> None:
    replay(sink, part).run(schedule_of(sink, part))


@pytest.mark.full
@pytest.mark.parametrize(
    ("sink", "part"),
    chosen(*(("iceberg", part) for part in MUTANTS), *(("kafka", part) for part in MUTANTS_OF_KAFKA)),
)
def test_without_a_part_its_schedule_does_harm(
    sink: str, part: AnyPart, replay: StartReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant = (MUTANTS_OF_KAFKA if sink == "kafka" else MUTANTS)[part]
    same = SAME_SCHEDULE.get(part, part)
    require_harm(mutant, monkeypatch, lambda: replay(sink, same), schedule_of(sink, same))


@pytest.mark.full
@pytest.mark.parametrize("part", STANDS_WITHOUT, ids=named)
def test_without_a_part_another_line_holds(
    part: AnyPart, replay: StartReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    STANDS_WITHOUT[part](monkeypatch)
    replay("iceberg", part).run(replay_counterexample(part))


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=f"{sink}-{named(part)}")
        for sink, found in (("table", {**MUTANTS, **STANDS_WITHOUT}), ("kafka", MUTANTS_OF_KAFKA))
        for part, mutant in found.items()
    ],
)
def test_every_part_is_where_it_is_taken_out(mutant: Apply, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed line of the code shows at once, and not in the long run only."""
    mutant(monkeypatch)
