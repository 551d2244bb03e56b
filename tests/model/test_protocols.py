"""The protocols have no violation in any reachable state, and no part of them can be removed."""

from __future__ import annotations

import pytest

from tests.marks import full
from tests.model import one_transaction
from tests.model.one_transaction import OneTransactionProtocol
from tests.model.parts import Part
from tests.model.replay import KafkaReplayProtocol, ReplayPart, ReplayProtocol
from tests.model.rewind import RewindPart, RewindProtocol
from tests.model.schedules import (
    KEEPS_NO_REFUSAL,
    OF_KAFKA,
    ONE_EACH,
    ONE_PARTITION,
    OTHER_SLOTS,
    REFUSED_WHEN_REWOUND,
    REWOUND,
    THREE,
    THREE_SUCCESSORS,
    TWO_INSTANCES,
    bounds_of,
)
from tests.model.search import search
from tests.model.staged import Recovery, StagedProtocol
from tests.model.task_slots import TaskSlotsProtocol
from tests.model.upserts import UpsertPart, UpsertProtocol
from tests.model.world import ACCEPT, REFUSE, Bounds, Pointer, World

ONE_RECORD = Bounds({(0, 0): (REFUSE, ACCEPT)}, (1, 1))
MENDED = frozenset({(0, 0)})

TWO_OF_A_KEY = Bounds({(0, 0): (REFUSE, REFUSE), (0, 1): (ACCEPT, ACCEPT)}, (1, 1))
"""A refused record, and a newer record or a tombstone of its key."""
BOTH_REFUSED = Bounds({(0, 0): (REFUSE, ACCEPT), (0, 1): (REFUSE, REFUSE)}, (1, 1))
"""Two refused records. The tombstone can be replayed before the older record, which another contract accepts."""
TOMBSTONE = frozenset({(0, 1)})

WIDEST = (Bounds(THREE, (2, 1, 2)), Bounds(ONE_PARTITION, (1, 1, 1, 1)))


@pytest.mark.parametrize("bounds", [TWO_INSTANCES, THREE_SUCCESSORS, *full(OTHER_SLOTS)])
def test_nothing_is_lost_or_duplicated_in_any_order_of_steps(bounds: Bounds) -> None:
    found = search(StagedProtocol(bounds))
    assert found.violation is None, str(found)
    assert found.states > 10_000


@pytest.mark.full
@pytest.mark.parametrize("bounds", WIDEST)
def test_the_same_with_more_records_and_more_instances(bounds: Bounds) -> None:
    found = search(StagedProtocol(bounds))
    assert found.violation is None, str(found)
    assert found.states > 400_000


@pytest.mark.parametrize("part", Part)
def test_no_part_can_be_left_out(part: Part) -> None:
    found = search(StagedProtocol(bounds_of(part), part))
    print(f"without {part}\n{found}")  # noqa: T201 - the trace is what one wants to see
    assert found.violation is not None
    assert found.trace


@pytest.mark.parametrize("bounds", [TWO_INSTANCES, THREE_SUCCESSORS])
def test_whatever_has_happened_the_next_instance_continues_to_the_end(bounds: Bounds) -> None:
    found = search(Recovery(bounds))
    assert found.violation is None, str(found)


class RewindRecovery(Recovery, RewindProtocol):
    """The check of `Recovery` after a rewind that may have been killed at any step."""


@pytest.mark.parametrize("bounds", [REWOUND, KEEPS_NO_REFUSAL])
def test_whatever_a_rewind_has_done_the_next_instance_continues_to_the_end(bounds: Bounds) -> None:
    found = search(RewindRecovery(bounds, 1))
    assert found.violation is None, str(found)


def test_every_kind_of_fate_is_reached() -> None:
    """The search reaches refusals, acceptances and drops by different contracts; otherwise it would show nothing."""
    protocol = StagedProtocol(THREE_SUCCESSORS)
    fates = set()

    class Watched(StagedProtocol):
        def violation(self, world: World) -> str | None:
            if protocol.is_complete(world):
                fates.add((len(world.table), world.ledger.quarantined, world.ledger.dropped))
            return None

    search(Watched(THREE_SUCCESSORS))
    assert fates == {(0, 2, 0), (1, 0, 1), (0, 1, 1)}


@pytest.mark.parametrize("bounds", [TWO_INSTANCES, *full(THREE_SUCCESSORS, OTHER_SLOTS)])
def test_tasks_that_take_slots_over_lose_nothing_and_write_nothing_twice(bounds: Bounds) -> None:
    found = search(TaskSlotsProtocol(bounds))
    assert found.violation is None, str(found)
    assert found.states > 10_000


def test_a_task_that_has_taken_a_slot_over_must_look_at_the_ledger() -> None:
    """The code's look: `test_a_task_that_takes_a_slot_over_looks_at_the_ledger` in test_task_slots.py."""
    found = search(TaskSlotsProtocol(TWO_INSTANCES, looks=False))
    print(f"without the look\n{found}")  # noqa: T201 - the trace is what one wants to see
    assert found.violation is not None


@pytest.mark.parametrize(
    ("bounds", "rewinds"),
    [
        (REWOUND, 1),
        (KEEPS_NO_REFUSAL, 1),
        *(
            pytest.param(*each, marks=pytest.mark.full)
            for each in ((TWO_INSTANCES, 1), (REWOUND, 2), (Bounds(ONE_EACH, (1, 1)), 2))
        ),
    ],
)
def test_a_rewind_loses_nothing_and_leaves_no_verdict_of_before(bounds: Bounds, rewinds: int) -> None:
    found = search(RewindProtocol(bounds, rewinds))
    assert found.violation is None, str(found)
    assert found.states > 5_000


@pytest.mark.parametrize("part", RewindPart)
def test_no_part_of_a_rewind_can_be_left_out(part: RewindPart) -> None:
    found = search(RewindProtocol(KEEPS_NO_REFUSAL if part in REFUSED_WHEN_REWOUND else REWOUND, 1, part))
    print(f"without {part}\n{found}")  # noqa: T201 - the trace is what one wants to see
    assert found.violation is not None


@pytest.mark.parametrize(
    ("bounds", "requests", "rewinds", "mended"),
    [
        (REWOUND, 1, 0, frozenset()),
        (ONE_RECORD, 2, 0, MENDED),
        (ONE_RECORD, 1, 1, MENDED),
        *(
            pytest.param(*each, marks=pytest.mark.full)
            for each in (
                (REWOUND, 2, 0, frozenset()),
                (REWOUND, 1, 1, MENDED),
                (ONE_RECORD, 2, 1, MENDED),
                (Bounds(ONE_EACH, (1, 1)), 1, 1, MENDED),
                (Bounds(ONE_RECORD.verdicts, (1, 1, 1)), 2, 0, MENDED),
            )
        ),
    ],
)
def test_a_replay_loses_nothing_and_writes_nothing_twice(
    bounds: Bounds, requests: int, rewinds: int, mended: frozenset[Pointer]
) -> None:
    found = search(ReplayProtocol(bounds, requests, rewinds, None, mended))
    assert found.violation is None, str(found)
    assert found.states > 1_000


@pytest.mark.parametrize("part", ReplayPart)
def test_no_part_of_a_replay_can_be_left_out(part: ReplayPart) -> None:
    needs_rewind = part in {ReplayPart.SKIP_OVERRULED, ReplayPart.REWIND_FORGETS}
    requests, rewinds = (1, 1) if needs_rewind else (2, 0)
    found = search(ReplayProtocol(ONE_RECORD, requests, rewinds, part, MENDED))
    print(f"without {part}\n{found}")  # noqa: T201 - the trace is what one wants to see
    assert found.violation is not None


@pytest.mark.parametrize(
    ("bounds", "requests", "mended"),
    [
        (REWOUND, 1, frozenset()),
        (ONE_RECORD, 2, MENDED),
        (Bounds(ONE_RECORD.verdicts, (1, 1, 1)), 2, MENDED),
        pytest.param(REWOUND, 2, frozenset(), marks=pytest.mark.full),
        pytest.param(Bounds(ONE_EACH, (1, 1)), 2, MENDED, marks=pytest.mark.full),
    ],
)
def test_a_replay_into_topics_loses_nothing_and_writes_nothing_twice(
    bounds: Bounds, requests: int, mended: frozenset[Pointer]
) -> None:
    found = search(KafkaReplayProtocol(bounds, requests, mended=mended))
    assert found.violation is None, str(found)
    assert found.states > 500


@pytest.mark.parametrize("part", OF_KAFKA)
def test_no_part_of_a_replay_into_topics_can_be_left_out(part: ReplayPart) -> None:
    found = search(KafkaReplayProtocol(ONE_RECORD, 2, without=part, mended=MENDED))
    print(f"without {part}\n{found}")  # noqa: T201 - the trace is what one wants to see
    assert found.violation is not None


@pytest.mark.parametrize(
    ("bounds", "requests", "deletes", "mended"),
    [
        (TWO_OF_A_KEY, 1, frozenset(), MENDED),
        (TWO_OF_A_KEY, 1, TOMBSTONE, MENDED),
        pytest.param(TWO_OF_A_KEY, 2, TOMBSTONE, MENDED, marks=pytest.mark.full),
        pytest.param(BOTH_REFUSED, 2, TOMBSTONE, TOMBSTONE, marks=pytest.mark.full),
    ],
)
def test_a_replayed_record_neither_replaces_a_newer_row_nor_restores_a_deleted_key(
    bounds: Bounds,
    requests: int,
    deletes: frozenset[Pointer],
    mended: frozenset[Pointer],
) -> None:
    found = search(UpsertProtocol(bounds, requests, deletes, None, mended))
    assert found.violation is None, str(found)
    assert found.states > 2_000


@pytest.mark.parametrize("part", UpsertPart)
def test_no_part_of_a_replay_into_upserts_can_be_left_out(part: UpsertPart) -> None:
    deletes = frozenset() if part is UpsertPart.NEWER_ROW else TOMBSTONE
    protocol = UpsertProtocol(TWO_OF_A_KEY, 1, deletes, part, MENDED)
    if part is UpsertPart.REPLAYED_DELETES:
        protocol = UpsertProtocol(BOTH_REFUSED, 2, deletes, part, TOMBSTONE)
    found = search(protocol)
    print(f"without {part}\n{found}")  # noqa: T201 - the trace is what one wants to see
    assert found.violation is not None


class ReplayRecovery(Recovery, ReplayProtocol):
    """A check that the next instance completes the stream and all requests after a crash of all others."""


class KafkaReplayRecovery(Recovery, KafkaReplayProtocol):
    """The check of `ReplayRecovery` for the Kafka sink."""


@pytest.mark.parametrize("recovery", [ReplayRecovery, KafkaReplayRecovery])
def test_whatever_a_replay_has_done_the_next_instance_continues_to_the_end(
    recovery: type[ReplayRecovery | KafkaReplayRecovery],
) -> None:
    found = search(recovery(ONE_RECORD, 2, 0, None, MENDED))
    assert found.violation is None, str(found)


@pytest.mark.parametrize(("records", "instances"), [(2, 2), (2, 3)])
def test_one_transaction_needs_no_scan(records: int, instances: int) -> None:
    found = search(OneTransactionProtocol(records, instances))
    assert found.violation is None, str(found)
    assert found.states > 200


@pytest.mark.parametrize("part", one_transaction.Part)
def test_no_part_of_the_one_transaction_can_be_left_out(part: one_transaction.Part) -> None:
    found = search(OneTransactionProtocol(2, 2, part))
    print(f"without {part}\n{found}")  # noqa: T201 - the trace is what one wants to see
    assert found.violation is not None
