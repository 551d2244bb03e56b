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
from tests.model.one_transaction import OneTransactionProtocol
from tests.model.parts import Part
from tests.model.replay import ReplayPart, ReplayProtocol
from tests.model.search import search
from tests.model.staged import ACCEPT, DROP, REFUSE, Bounds, Pointer, StagedProtocol, Verdicts
from tests.model.upserts import UpsertPart, UpsertProtocol
from tidegate.spark_jobs.steps import ReplayStep, Step

THREE: Verdicts = {(0, 0): (REFUSE, ACCEPT), (0, 1): (REFUSE, REFUSE), (1, 0): (ACCEPT, REFUSE)}
ONE_EACH: Verdicts = {(0, 0): (REFUSE, ACCEPT), (1, 0): (ACCEPT, REFUSE)}
ONE_PARTITION: Verdicts = {(0, 0): (REFUSE, ACCEPT), (0, 1): (REFUSE, DROP)}
ONE_SLOT: Verdicts = {(0, 0): (REFUSE, ACCEPT), (0, 1): (ACCEPT, REFUSE)}

TWO_INSTANCES = Bounds(THREE, (2, 1))
THREE_SUCCESSORS = Bounds(ONE_PARTITION, (1, 1, 1))
OTHER_SLOTS = Bounds(ONE_EACH, (2, 1, 2))
"""The second instance has fewer slots than the first, the third more."""
ONE_TRANSACTION = Bounds(ONE_SLOT, (1, 1))
"""The two records of the model of one transaction, whose outputs depend on the contract."""

READ = "read"
"""Half of a claim: the ledger is read, and not yet replaced."""
ASK = "ask"
"""Not a step of an instance: the replay of all that is refused is asked for."""
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


@dataclass(frozen=True)
class ReplayWorld:
    """Where a part of a replay is left out: the records, those that a fix mends, and the tombstones of a table with upserts."""

    bounds: Bounds
    requests: int
    mended: frozenset[Pointer]
    deletes: frozenset[Pointer] | None = None
    """None for a table that is appended to."""


ONE_REFUSED = ReplayWorld(Bounds({(0, 0): (REFUSE, ACCEPT)}, (1, 1)), 2, frozenset({(0, 0)}))
REFUSED_AND_NEWER = ReplayWorld(
    Bounds({(0, 0): (REFUSE, REFUSE), (0, 1): (ACCEPT, ACCEPT)}, (1, 1)), 1, frozenset({(0, 0)}), frozenset()
)
"""A record that is refused, and a newer one of its key."""
REFUSED_AND_DELETED = replace(REFUSED_AND_NEWER, deletes=frozenset({(0, 1)}))
"""A record that is refused, and a tombstone of its key."""


def world_of(part: ReplayPart | UpsertPart) -> ReplayWorld:
    """Return the world in which the harm of leaving a part of a replay out is looked for, without rewinds."""
    if isinstance(part, ReplayPart):
        return ONE_REFUSED
    return REFUSED_AND_NEWER if part is UpsertPart.NEWER_ROW else REFUSED_AND_DELETED


@lru_cache
def replay_counterexample(part: ReplayPart | UpsertPart) -> tuple[str, ...]:
    """Return the shortest schedule that does harm to replays without this part."""
    world = world_of(part)
    if isinstance(part, ReplayPart):
        return search(ReplayProtocol(world.bounds, world.requests, 0, part, world.mended)).trace
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
    (r"replays \(.*\)", ReplayStep.PUBLISH, None),
)


def _move(line: str) -> Move:
    if line == UNTOLD[6]:
        return Move("", REPLACE, untold=line)
    if re.fullmatch(r"a replay of \(.*\) is asked for", line):
        return Move("", ASK, untold=line)
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
