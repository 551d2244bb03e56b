"""Schedules: who takes which step next, in the words of the models, and read so that the real sinks can be driven by them.

The search finds one for each part of a protocol: the shortest that does harm without it. Others are written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from tests.model import one_transaction
from tests.model.closures import ClosurePart, ClosureProtocol
from tests.model.one_transaction import OneTransactionProtocol
from tests.model.parts import Part
from tests.model.replay import KafkaReplayProtocol, ReplayPart, ReplayProtocol
from tests.model.rewind import RewindPart, RewindProtocol
from tests.model.search import search
from tests.model.staged import StagedProtocol
from tests.model.upserts import UpsertPart, UpsertProtocol
from tests.model.world import ACCEPT, DROP, REFUSE, Bounds, Pointer, Verdicts
from tidegate.contracts.stream.replay import ReplayAction
from tidegate.spark_jobs.adopt.rewind import RewindStep
from tidegate.spark_jobs.steps import ReplayStep, Step

THREE: Verdicts = {(0, 0): (REFUSE, ACCEPT), (0, 1): (REFUSE, REFUSE), (1, 0): (ACCEPT, REFUSE)}
ONE_EACH: Verdicts = {(0, 0): (REFUSE, ACCEPT), (1, 0): (ACCEPT, REFUSE)}
ONE_PARTITION: Verdicts = {(0, 0): (REFUSE, ACCEPT), (0, 1): (REFUSE, DROP)}
ONE_SLOT: Verdicts = {(0, 0): (REFUSE, ACCEPT), (0, 1): (ACCEPT, REFUSE)}

TWO_INSTANCES = Bounds(THREE, (2, 1))
THREE_SUCCESSORS = Bounds(ONE_PARTITION, (1, 1, 1))
OTHER_SLOTS = Bounds(ONE_EACH, (2, 1, 2))
"""The second instance has fewer slots than the first, the third more."""
REWOUND = Bounds(ONE_PARTITION, (1, 1))
KEEPS_NO_REFUSAL = Bounds({(0, 0): (ACCEPT, ACCEPT), (0, 1): (REFUSE, ACCEPT)}, (1, 1))
"""What is covered when the stream is rewound needs no generation to be remembered; what a zombie refuses would."""
ONE_TRANSACTION = Bounds(ONE_SLOT, (1, 1))
"""The two records of the model of one transaction, whose outputs depend on the contract."""

READ = "read"
"""Half of a claim: the ledger is read, and not yet replaced."""
ASK = "ask"
"""Not a step of an instance: the replay of all that is refused is asked for."""
FENCES_SENDER = "fences the sender"
KNOWS = "knows what was sent"
"""Before an instance reads the first refusals of a request."""
REWINDS_TO = "rewinds to"
"""A rewind reads the ledger, and chooses a point."""
REPLACE = "replace"
"""Not a step of an instance: the contract is replaced."""

UNTOLD = (
    "reads the ledger before it claims",
    "fences one slot of several",
    "appends in a transaction that stays open",
    "commits one transaction of several",
    "is about to claim",
    "asks for the same publication twice",
    "the contract is replaced",
)
"""What the models tell apart and no observer of the code is told of, as `Move.untold` names it."""
UNTOLD_OF_REPLAYS = (FENCES_SENDER, KNOWS, ASK, UNTOLD[6])
"""The same of replays, beside `UNTOLD`."""


class Move(NamedTuple):
    """One line of a schedule: an instance goes on until it has done this, if it comes so far."""

    who: str
    step: str
    slot: int | None = None
    is_open: bool = False
    """Whether it stays in the open transaction of the slot."""
    end: tuple[int, int] | None = None
    """Where its next batch ends."""
    untold: str | None = None
    action: ReplayAction | None = None
    """What the request that is asked for does."""
    point: tuple[int, int] | None = None
    """Where a rewind goes."""


@dataclass(frozen=True)
class ReplayWorld:
    """Where a part of a replay is left out: the records, those that a fix mends, and the tombstones of a table with upserts."""

    bounds: Bounds
    requests: int
    mended: frozenset[Pointer]
    deletes: frozenset[Pointer] | None = None
    """None for a table that is appended to."""
    rewinds: int = 0


ONE_REFUSED = ReplayWorld(Bounds({(0, 0): (REFUSE, ACCEPT)}, (1, 1)), 2, frozenset({(0, 0)}))
REFUSED_AND_REWOUND = replace(ONE_REFUSED, requests=1, rewinds=1)
REFUSED_BESIDE_ANOTHER = replace(
    ONE_REFUSED, bounds=Bounds({(0, 0): (REFUSE, ACCEPT), (0, 1): (REFUSE, REFUSE)}, (1, 1))
)
"""Two refused records: a ledger that counts one only does not let it be replayed twice."""
REFUSED_AND_NEWER = ReplayWorld(
    Bounds({(0, 0): (REFUSE, REFUSE), (0, 1): (ACCEPT, ACCEPT)}, (1, 1)), 1, frozenset({(0, 0)}), frozenset()
)
"""A record that is refused, and a newer one of its key."""
REFUSED_AND_DELETED = replace(REFUSED_AND_NEWER, deletes=frozenset({(0, 1)}))
"""A record that is refused, and a tombstone of its key."""


REPLAY, DISCARD, TO_SOURCE = ReplayAction.REPLAY, ReplayAction.DISCARD, ReplayAction.TO_SOURCE

ONE_TO_CLOSE = Bounds({(0, 0): (REFUSE, ACCEPT)}, (1, 1))
TWO_REFUSED = Bounds({(0, 0): (REFUSE, ACCEPT), (0, 1): (REFUSE, REFUSE)}, (1, 1))
ONE_ACCEPTED = Bounds({(0, 0): (REFUSE, ACCEPT), (0, 1): (ACCEPT, ACCEPT)}, (1, 1))
FIRST, BOTH = frozenset({(0, 0)}), frozenset({(0, 0), (0, 1)})
"""The records that a fix mends."""


class ClosureWorld(NamedTuple):
    """Where a part of closing is left out: what there is, and what may be asked for."""

    bounds: Bounds
    actions: tuple[ReplayAction, ...]
    requests: int
    rewinds: int
    mended: frozenset[Pointer]

    def protocol(self, without: ClosurePart | None = None) -> ClosureProtocol:
        """Return all that can happen, with or without one part of the protocol."""
        return ClosureProtocol(self.bounds, self.actions, self.requests, self.rewinds, without, self.mended)


SENT = ClosureWorld(ONE_TO_CLOSE, (TO_SOURCE,), 1, 0, FIRST)
SENT_AND_REWOUND = ClosureWorld(ONE_TO_CLOSE, (TO_SOURCE,), 1, 1, FIRST)
DISCARDED = ClosureWorld(ONE_TO_CLOSE, (DISCARD,), 1, 0, FIRST)
DISCARDED_AND_REPLAYED = ClosureWorld(ONE_TO_CLOSE, (DISCARD, REPLAY), 2, 0, FIRST)

CLOSURE_WORLDS: dict[ClosurePart, ClosureWorld] = {
    ClosurePart.SKIP_CLOSED: DISCARDED_AND_REPLAYED,
    ClosurePart.FENCE_SENDER: SENT,
    ClosurePart.CHECKS_CLAIM: ClosureWorld(ONE_TO_CLOSE, (REPLAY, TO_SOURCE), 2, 0, frozenset()),
    ClosurePart.LOOKS_AHEAD: SENT,
    ClosurePart.SENDS_FIRST: SENT,
    ClosurePart.ONE_TRANSACTION_RECORDS_FIRST: SENT,
    ClosurePart.ONE_TRANSACTION_POSITIONS_FIRST: SENT,
    ClosurePart.POSITIONS_FIRST: DISCARDED,
    ClosurePart.COMPARES: ClosureWorld(ONE_ACCEPTED, (DISCARD,), 1, 0, FIRST),
    ClosurePart.NAMES_POSITIONS: DISCARDED_AND_REPLAYED,
    ClosurePart.NAMES_AHEAD: ClosureWorld(TWO_REFUSED, (TO_SOURCE,), 1, 0, BOTH),
    ClosurePart.LEFT_OUT: SENT_AND_REWOUND,
    ClosurePart.COUNTS_LEFT_OUT: SENT_AND_REWOUND,
    ClosurePart.REWIND_FENCES_SENDER: SENT_AND_REWOUND,
    ClosurePart.REWIND_KEEPS_SENT: SENT_AND_REWOUND,
    ClosurePart.REWIND_LOOKS_AHEAD: SENT_AND_REWOUND,
    ClosurePart.REWIND_REOPENS: ClosureWorld(ONE_TO_CLOSE, (DISCARD,), 1, 1, FIRST),
}


AnyPart = ReplayPart | UpsertPart | ClosurePart | RewindPart
"""A part of what goes on beside the batches of a table."""
REFUSED_WHEN_REWOUND = (
    RewindPart.CLAIM,
    RewindPart.FENCE,
    RewindPart.LOOK_AFTER_FENCE,
    RewindPart.COMMIT_COMPARES,
)
"""Parts without which a refusal of before the rewind counts after it."""


def world_of(part: AnyPart) -> ReplayWorld:
    """Return the world in which the harm of leaving a part of a replay or of a rewind out is looked for."""
    match part:
        case RewindPart():
            bounds = KEEPS_NO_REFUSAL if part in REFUSED_WHEN_REWOUND else REWOUND
            return ReplayWorld(bounds, 0, frozenset(), rewinds=1)
        case ClosurePart():
            bounds, _, requests, rewinds, mended = CLOSURE_WORLDS[part]
            return ReplayWorld(bounds, requests, mended, rewinds=rewinds)
        case ReplayPart.SKIP_OVERRULED | ReplayPart.REWIND_FORGETS:
            return REFUSED_AND_REWOUND
        case ReplayPart.SKIP_REPLAYED:
            return REFUSED_BESIDE_ANOTHER
        case ReplayPart():
            return ONE_REFUSED
    return REFUSED_AND_NEWER if part is UpsertPart.NEWER_ROW else REFUSED_AND_DELETED


OF_KAFKA = (
    ReplayPart.SKIP_REPLAYED,
    ReplayPart.POSITIONS_FIRST,
    ReplayPart.COMPARES,
    ReplayPart.COUNT,
    ReplayPart.NAMES_POSITIONS,
    ReplayPart.ONE_COMMIT_ROWS_FIRST,
    ReplayPart.ONE_COMMIT_LEDGER_FIRST,
)
"""The parts that a replay into the Kafka sink has too: the broker compares, and the one commit is a transaction."""


@lru_cache
def kafka_counterexample(part: ReplayPart) -> tuple[str, ...]:
    """Return the shortest schedule that does harm to replays into the Kafka sink without this part."""
    world = world_of(part)
    return search(KafkaReplayProtocol(world.bounds, world.requests, without=part, mended=world.mended)).trace


@lru_cache
def replay_counterexample(part: AnyPart) -> tuple[str, ...]:
    """Return the shortest schedule that does harm to replays or rewinds without this part."""
    world = world_of(part)
    match part:
        case RewindPart():
            return search(RewindProtocol(world.bounds, world.rewinds, part)).trace
        case ClosurePart():
            return search(CLOSURE_WORLDS[part].protocol(part)).trace
        case ReplayPart():
            protocol = ReplayProtocol(world.bounds, world.requests, world.rewinds, part, world.mended)
            return search(protocol).trace
    deletes = world.deletes or frozenset()
    return search(UpsertProtocol(world.bounds, world.requests, deletes, part, world.mended)).trace


@lru_cache
def counterexample(part: Part | one_transaction.Part) -> tuple[str, ...]:
    """Return the shortest schedule that does harm to the protocol without this part."""
    if isinstance(part, Part):
        bounds = bounds_of(part)
        return search(StagedProtocol(bounds, part)).trace
    return search(OneTransactionProtocol(len(ONE_SLOT), len(ONE_TRANSACTION.slots), part)).trace


def bounds_of(part: Part | one_transaction.Part) -> Bounds:
    """Return the world in which the harm of leaving a part out is looked for."""
    if isinstance(part, one_transaction.Part):
        return ONE_TRANSACTION
    return THREE_SUCCESSORS if part is Part.SCAN_FROM_SETTLED else TWO_INSTANCES


def moves(lines: Iterable[str]) -> list[Move]:
    """Read a schedule. Raise ValueError about a line that is no step of a model."""
    return [_move(line) for line in lines]


_OF_SLOT = r" (?:to )?slot (?P<slot>\d)"
_UP_TO = r" up to (?:\((?P<zero>\d), (?P<one>\d)\)|(?P<end>\d))"
_LINES: tuple[tuple[str, str, str | None], ...] = (
    (r"reads the ledger: \d", Step.VERIFY, None),
    (r"reads the ledger", READ, UNTOLD[0]),
    (r"claims epoch \d|claims nothing|takes the claim of another for its own", Step.CLAIM, None),
    (r"is about to claim epoch \d", Step.VERIFY, UNTOLD[4]),
    (r"fences|fences nobody", Step.FENCE, None),
    (rf"fences{_OF_SLOT}", Step.FENCE, UNTOLD[1]),
    (r"verifies", Step.VERIFY, None),
    (r"scans, \d settled", Step.SCAN, None),
    (rf"judges{_UP_TO} by contract \d", Step.JUDGE, None),
    (rf"(?P<open>appends) .*{_OF_SLOT}|(?P<append>appends) in a transaction", Step.SLOT, UNTOLD[2]),
    (rf"commits(?:{_OF_SLOT})?", Step.SLOT, UNTOLD[3]),
    (r"has nothing to quarantine", Step.QUARANTINE, None),
    (rf"publishes{_UP_TO}, twice", Step.PUBLISH, UNTOLD[5]),
    (rf"publishes{_UP_TO}", Step.PUBLISH, None),
    (r"reads \(.*\) of request \d", ReplayStep.READ, None),
    (r"writes the positions \(.*\)", ReplayStep.POSITIONS, None),
    (r"replays \(.*\)|closes \[.*\]", ReplayStep.PUBLISH, None),
    (r"fences the sender", FENCES_SENDER, FENCES_SENDER),
    (r"knows that \(.*\) were sent", KNOWS, KNOWS),
    (r"sends \(.*\)", ReplayStep.SEND, None),
)
_OF_REWINDS: tuple[tuple[str, str], ...] = (
    (r"is to go to \((?P<zero>\d), (?P<one>\d)\)", REWINDS_TO),
    (r"claims epoch \d|claims nothing", RewindStep.CLAIM),
    (r"fences slot 0", RewindStep.FENCE),
    (r"counts what goes", RewindStep.LOOK),
    (r"goes back to \(.*\)", RewindStep.COMMIT),
)


def _move(line: str) -> Move:
    if line == UNTOLD[6]:
        return Move("", REPLACE, untold=line)
    if asked := re.fullmatch(r"a replay of \(.*\) is asked for(?:: (?P<action>[a-z-]+))?", line):
        return Move("", ASK, untold=ASK, action=ReplayAction(asked["action"] or ReplayAction.REPLAY))
    if line.startswith("rewind "):
        return _move_of_rewind(line)
    who, _, what = line.partition(" ")
    for pattern, step, untold in _LINES:
        if (found := re.fullmatch(pattern, what)) is None:
            continue
        named = found.groupdict()
        end = None
        if step is Step.JUDGE:
            end = (int(named["zero"] or named["end"]), int(named["one"] or 0))
        slot = int(named.get("slot") or 0) if step in {Step.SLOT, Step.FENCE} else None
        is_open = bool(named.get("open") or named.get("append"))
        return Move(who, step, slot, is_open, end, untold)
    raise ValueError(f"no step of a model: {line}")


def _move_of_rewind(line: str) -> Move:
    _, who, what = line.split(" ", 2)
    for pattern, step in _OF_REWINDS:
        if found := re.fullmatch(pattern, what):
            point = (int(found["zero"]), int(found["one"])) if step == REWINDS_TO else None
            return Move(f"rewind {who}", step, point=point)
    raise ValueError(f"no step of a model: {line}")
