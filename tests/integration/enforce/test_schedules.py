"""The models drive the code: what does harm to a protocol without one of its parts is done to the real sinks.

With the whole protocol each schedule ends well. A sink without the part that the schedule was found for ends with a record
lost, doubled or not counted: so the schedule would notice if the code lost that part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.enforce.hand_schedules import FOUR, LATE, ONE_TRANSACTION_BY_HAND, STAGED_BY_HAND
from tests.integration.enforce.line import Line
from tests.integration.enforce.mutants import (
    KAFKA_MUTANTS,
    READ_FIRST,
    STAGED_MUTANTS,
    STANDS_WITHOUT,
    STOPPED,
    WITHOUT_MUTANT,
    Apply,
)
from tests.integration.enforce.schedule import IN_ONE_TRANSACTION, STAGED, Gates, Order, Replay
from tests.model import one_transaction
from tests.model.parts import Part
from tests.model.schedules import ONE_TRANSACTION, bounds_of, counterexample
from tests.model.world import Bounds
from tidegate.contracts.errors import StreamStopped

StartReplay = Callable[[str, Bounds, Order], Replay]
TABLES = ("iceberg", "delta", "postgresql")
QUICK = {("iceberg", Part.VERIFY)}


def chosen(quick: set[tuple[str, Part]], *places: tuple[str, Part]) -> list[object]:
    """Name a sink and a part each; all but the quick ones are left to the long run."""
    return [
        pytest.param(*each, id=f"{each[0]}-{each[1].name}", marks=[] if each in quick else [pytest.mark.full])
        for each in places
    ]


@pytest.fixture
def replay(
    make_line: Callable[..., Line], monkeypatch: pytest.MonkeyPatch
) -> Iterator[StartReplay]:  # fmt: skip
    """Yield a function that makes a line with the records of a model: `replay(sink, bounds, order)`."""
    started: list[Replay] = []

    def start(sink: str, bounds: Bounds, order: Order) -> Replay:
        Gates(monkeypatch)
        started.append(Replay(make_line(sink=sink), bounds, order))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.mark.parametrize(("sink", "part"), chosen(QUICK, *((sink, part) for sink in TABLES for part in Part)))
def test_the_whole_protocol_stands_what_harms_it_without_a_part(
    sink: str, part: Part, replay: StartReplay
) -> None:
    replay(sink, bounds_of(part), STAGED).run(counterexample(part))


@pytest.mark.full
@pytest.mark.parametrize("name", STAGED_BY_HAND)
@pytest.mark.parametrize("sink", TABLES)
def test_the_whole_protocol_stands_what_no_search_has_found(
    sink: str, name: str, replay: StartReplay
) -> None:
    replay(sink, FOUR, STAGED).run(STAGED_BY_HAND[name])


@pytest.mark.parametrize(
    "part", [pytest.param(part, id=part.name, marks=pytest.mark.full) for part in one_transaction.Part]
)
def test_one_transaction_stands_what_harms_it_without_a_part(
    part: one_transaction.Part, replay: StartReplay
) -> None:
    replay("kafka", ONE_TRANSACTION, IN_ONE_TRANSACTION).run(counterexample(part))


@pytest.mark.full
@pytest.mark.parametrize("name", ONE_TRANSACTION_BY_HAND)
def test_one_transaction_stands_what_no_search_has_found(name: str, replay: StartReplay) -> None:
    replay("kafka", ONE_TRANSACTION, IN_ONE_TRANSACTION).run(ONE_TRANSACTION_BY_HAND[name])


def sink_of(part: Part) -> str:
    """Return the sink on which the harm shows."""
    return "delta" if part is Part.ONE_COMMIT_DATA_FIRST else "iceberg"


@pytest.mark.parametrize(
    ("sink", "part"),
    chosen(
        {("iceberg", Part.SCAN)},
        *((sink_of(part), part) for part in STAGED_MUTANTS if part not in STANDS_WITHOUT),
    ),
)
def test_without_a_part_its_schedule_does_harm(
    sink: str, part: Part, replay: StartReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_harm(
        STAGED_MUTANTS[part],
        monkeypatch,
        lambda: replay(sink, bounds_of(part), STAGED),
        counterexample(part),
    )


@pytest.mark.parametrize(
    ("sink", "part"), chosen(set(), *((sink, part) for sink in TABLES for part in STANDS_WITHOUT))
)
def test_without_a_part_another_line_holds(
    sink: str, part: Part, replay: StartReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    STAGED_MUTANTS[part](monkeypatch)
    replay(sink, bounds_of(part), STAGED).run(counterexample(part))


@pytest.mark.full
@pytest.mark.parametrize("sink", STOPPED)
def test_rows_ahead_of_the_ledger_stop_a_stream(
    sink: str, replay: StartReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = Part.ONE_COMMIT_DATA_FIRST
    STAGED_MUTANTS[part](monkeypatch)
    with pytest.raises(StreamStopped, match=STOPPED[sink]):
        replay(sink, bounds_of(part), STAGED).run(counterexample(part))


@pytest.mark.parametrize(
    "part", [pytest.param(part, id=part.name, marks=pytest.mark.full) for part in KAFKA_MUTANTS]
)
def test_without_a_part_of_one_transaction_its_schedule_does_harm(
    part: one_transaction.Part, replay: StartReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = READ_FIRST if part is one_transaction.Part.READ_AFTER_FENCE else IN_ONE_TRANSACTION
    require_harm(
        KAFKA_MUTANTS[part],
        monkeypatch,
        lambda: replay("kafka", ONE_TRANSACTION, order),
        LATE.get(part) or counterexample(part),
        noticed="the ledger was restored from an older moment",
    )


@pytest.mark.parametrize(
    "part", [*STAGED_MUTANTS, *KAFKA_MUTANTS], ids=lambda part: f"{type(part).__module__}-{part.name}"
)
def test_every_part_is_where_it_is_taken_out(
    part: Part | one_transaction.Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed line of the protocol shows at once, and not in the long run only."""
    mutate = STAGED_MUTANTS[part] if isinstance(part, Part) else KAFKA_MUTANTS[part]
    mutate(monkeypatch)


def require_harm(
    mutate: Apply,
    monkeypatch: pytest.MonkeyPatch,
    start: Callable[[], Replay],
    schedule: tuple[str, ...],
    noticed: str = "",
) -> None:
    """Require that the checker finds something when the code lacks a part, or the next start what is `noticed` there."""
    mutate(monkeypatch)
    replaying = start()
    with pytest.raises((AssertionError, StreamStopped)) as caught:
        replaying.run(schedule)
    if isinstance(caught.value, StreamStopped):
        assert noticed, "nothing was to stop this stream"
        assert noticed in str(caught.value)
    else:
        print(replaying.harm)  # noqa: T201 - what it did is what one wants to see
        assert replaying.harm, f"the replay itself has failed: {caught.value}"


def test_every_part_has_a_mutant_or_a_reason_why_not() -> None:
    assert {*STAGED_MUTANTS, *WITHOUT_MUTANT} == {*Part}
    assert {*KAFKA_MUTANTS} == {*one_transaction.Part}
