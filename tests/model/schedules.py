"""Schedules: the order of the steps of instances, in the words of the models, parsed so that real sinks can follow them.

For each part of a protocol, the search finds the shortest schedule with a violation if the part is missing. Others are
written by hand.
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
"""The second instance has fewer slots than the first, and the third has more."""
REWOUND = Bounds(ONE_PARTITION, (1, 1))
KEEPS_NO_REFUSAL = Bounds({(0, 0): (ACCEPT, ACCEPT), (0, 1): (REFUSE, ACCEPT)}, (1, 1))
"""A rewind finds no refusal whose generation it must remember; only a zombie may refuse later."""
ONE_TRANSACTION = Bounds(ONE_SLOT, (1, 1))
"""Two records for `OneTransactionProtocol`; the contract version determines their outputs."""

READ = "read"
"""The first half of a claim: the ledger is read."""
ASK = "ask"
"""A request for all refused records; not a step of an instance."""
FENCES_SENDER = "fences the sender"
KNOWS = "knows what was sent"
"""Two steps before an instance reads the first refusals of a request."""
REWINDS_TO = "rewinds to"
"""A rewind reads the ledger and chooses a point."""
REPLACE = "replace"
"""A new contract version; not a step of an instance."""

UNTOLD = (
    "reads the ledger before it claims",
    "fences one slot of several",
    "appends in a transaction that stays open",
    "commits one transaction of several",
    "is about to claim",
    "asks for the same publication twice",
    "the contract is replaced",
)
"""Steps of the models that the code does not report to an observer, as named by `Move.untold`."""
UNTOLD_OF_REPLAYS = (FENCES_SENDER, KNOWS, ASK, UNTOLD[6])
"""More such steps in models of replays."""


class Move(NamedTuple):
    """One line of a schedule: an instance runs until it has done this step, or stops before."""

    who: str
    step: str
    slot: int | None = None
    is_open: bool = False
    """Whether the transaction of the slot stays open."""
    end: tuple[int, int] | None = None
    """The end of its next batch."""
    untold: str | None = None
    action: ReplayAction | None = None
    """The action of the request."""
    point: tuple[int, int] | None = None
    """The target of a rewind."""


@dataclass(frozen=True)
class ReplayWorld:
    """The bounds of a model of replays or rewinds; `mended` are the records that a fix makes valid, `deletes` the tombstones."""

    bounds: Bounds
    requests: int
    mended: frozenset[Pointer]
    deletes: frozenset[Pointer] | None = None
    """None for a table with appends."""
    rewinds: int = 0


ONE_REFUSED = ReplayWorld(Bounds({(0, 0): (REFUSE, ACCEPT)}, (1, 1)), 2, frozenset({(0, 0)}))
REFUSED_AND_REWOUND = replace(ONE_REFUSED, requests=1, rewinds=1)
REFUSED_BESIDE_ANOTHER = replace(
    ONE_REFUSED, bounds=Bounds({(0, 0): (REFUSE, ACCEPT), (0, 1): (REFUSE, REFUSE)}, (1, 1))
)
"""Two refused records. With one, the count of the ledger would already prevent a second replay."""
REFUSED_AND_NEWER = ReplayWorld(
    Bounds({(0, 0): (REFUSE, REFUSE), (0, 1): (ACCEPT, ACCEPT)}, (1, 1)), 1, frozenset({(0, 0)}), frozenset()
)
"""A refused record and a newer record of its key."""
REFUSED_AND_DELETED = replace(REFUSED_AND_NEWER, deletes=frozenset({(0, 1)}))
"""A refused record and a tombstone of its key."""


REPLAY, DISCARD, TO_SOURCE = ReplayAction.REPLAY, ReplayAction.DISCARD, ReplayAction.TO_SOURCE

ONE_TO_CLOSE = Bounds({(0, 0): (REFUSE, ACCEPT)}, (1, 1))
TWO_REFUSED = Bounds({(0, 0): (REFUSE, ACCEPT), (0, 1): (REFUSE, REFUSE)}, (1, 1))
ONE_ACCEPTED = Bounds({(0, 0): (REFUSE, ACCEPT), (0, 1): (ACCEPT, ACCEPT)}, (1, 1))
FIRST, BOTH = frozenset({(0, 0)}), frozenset({(0, 0), (0, 1)})
"""Records that a fix makes valid."""


class ClosureWorld(NamedTuple):
    """The bounds of a model of closing refusals, and the possible actions of its requests."""

    bounds: Bounds
    actions: tuple[ReplayAction, ...]
    requests: int
    rewinds: int
    mended: frozenset[Pointer]

    def protocol(self, without: ClosurePart | None = None) -> ClosureProtocol:
        """Return the model; `without` removes one part of the protocol."""
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
"""A part of replays, closures or rewinds."""
REFUSED_WHEN_REWOUND = (
    RewindPart.CLAIM,
    RewindPart.FENCE,
    RewindPart.LOOK_AFTER_FENCE,
    RewindPart.COMMIT_COMPARES,
)
"""Parts without which an earlier refusal counts after a rewind."""


def world_of(part: AnyPart) -> ReplayWorld:
    """Return the world in which the search looks for a violation without this part of replays or rewinds."""
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
"""The parts of a replay into the Kafka sink: the broker does the comparison, and the one commit is a transaction."""


@lru_cache
def kafka_counterexample(part: ReplayPart) -> tuple[str, ...]:
    """Return the shortest schedule of replays into the Kafka sink with a violation if this part is missing."""
    world = world_of(part)
    return search(KafkaReplayProtocol(world.bounds, world.requests, without=part, mended=world.mended)).trace


@lru_cache
def replay_counterexample(part: AnyPart) -> tuple[str, ...]:
    """Return the shortest schedule of replays or rewinds with a violation if this part is missing."""
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
    """Return the shortest schedule with a violation if this part is missing."""
    if isinstance(part, Part):
        bounds = bounds_of(part)
        return search(StagedProtocol(bounds, part)).trace
    return search(OneTransactionProtocol(len(ONE_SLOT), len(ONE_TRANSACTION.slots), part)).trace


def bounds_of(part: Part | one_transaction.Part) -> Bounds:
    """Return the bounds in which the search looks for a violation without this part."""
    if isinstance(part, one_transaction.Part):
        return ONE_TRANSACTION
    return THREE_SUCCESSORS if part is Part.SCAN_FROM_SETTLED else TWO_INSTANCES


def moves(lines: Iterable[str]) -> list[Move]:
    """Parse a schedule. Raise ValueError for a line that is not a step of a model."""
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
