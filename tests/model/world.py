"""The state of the models of the table sinks: records, ledger, instances and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidegate.contracts.stream.generations import Rewound, oldest_counting
from tidegate.spark_jobs.steps import Step

Pointer = tuple[int, int]
"""Source partition and offset."""

Verdicts = dict[Pointer, tuple[str, str]]
"""The verdict of each of the two contract versions on each record."""

Chain = tuple[tuple[Pointer, ...], ...]
"""Positions in the parts in which they were written; each part has a digest of the parts before it."""

ACCEPT, REFUSE, DROP = "accept", "refuse", "drop"
PENDING, COMMITTED, ABORTED = "pending", "committed", "aborted"
GONE = "gone"
"""The step of an instance that knows that it is fenced."""


class Ledger(NamedTuple):
    epoch: int
    n: int
    end: tuple[int, int]
    scan_from: int
    slots: int
    quarantined: int = 0
    dropped: int = 0
    instance: int = -1
    """The instance that claimed the ledger."""
    generation: int = 0
    rewinds: tuple[tuple[Rewound, ...], ...] = ((), ())
    """The rewinds of each source partition, without those that overruled no refusal."""
    all_rewinds: tuple[tuple[Rewound, ...], ...] = ((), ())
    """All rewinds of each source partition, which determine what the model expects."""
    replayed: tuple[Pointer, ...] = ()
    """The refused records that were replayed. The real ledger has a digest of the list, see `World.chains`."""
    progress: tuple[int, ...] = ()
    """The number of processed refusals of each replay request."""
    marks: tuple[tuple[Pointer, int], ...] = ()
    """The deletes of a table with upserts, each with the previous end of the ledger; see `World.mark_lists`."""
    discarded: Chain = ()
    """The discarded refusals. The real ledger has a digest of the chain, see `World.closed_chains`."""
    resent: Chain = ()
    """The same for refusals that were sent to the source topic."""
    all_discarded: tuple[Pointer, ...] = ()
    """All refusals that were discarded, also if `discarded` does not have them."""

    def counts(self, entry: Entry, *, truly: bool = False) -> bool:
        """Return whether a refusal counts: no later rewind covers its offset. If `truly`, use `all_rewinds`."""
        rewinds = self.all_rewinds if truly else self.rewinds
        partition, offset = entry.pointer
        return oldest_counting(dict(enumerate(rewinds)), partition, offset) <= entry.generation


class Entry(NamedTuple):
    """A record of the quarantine topic; its offset is its index in the log."""

    pointer: Pointer
    slot: int
    owner: int
    state: str
    generation: int = 0


class Instance(NamedTuple):
    """The memory of an instance, and its next step."""

    at: str = Step.CLAIM
    held: Ledger | None = None
    slot: int = 0
    watermark: int = 0
    settled: tuple[tuple[Pointer, int], ...] = ()
    start: tuple[int, int] = (0, 0)
    end: tuple[int, int] = (0, 0)
    contract: int = 0
    new: Ledger | None = None
    """The ledger that a rewind or replay is about to write."""
    chunk: tuple[Pointer, ...] = ()
    """The records that a replay is about to write."""
    seen: tuple[Pointer, ...] = ()
    """The marks of deletes at the time when the chunk was read."""
    ahead: tuple[Pointer, ...] | None = None
    """The sent refusals that its ledger does not name; None before they were read."""
    sending: tuple[Pointer, ...] = ()
    """The refusals that it is about to send to the source topic."""
    begun: int | None = None
    """The contract of a chunk that has started without reading yet; None: the contract at the time of reading."""


class World(NamedTuple):
    ledger: Ledger
    table: tuple[Pointer, ...]
    log: tuple[Entry, ...]
    owners: tuple[int, ...]
    """The instance that last initialised the transactional.id of each slot."""
    contract: int
    checkpoint: tuple[int, int]
    instances: tuple[Instance, ...]
    requests: tuple[tuple[int, ...], ...] = ()
    """The replay requests: each is a tuple of indices of the log, and never changes."""
    chains: tuple[tuple[Pointer, ...], ...] = ()
    """The lists of replayed records that were written; a list stands for its digest."""
    row: Pointer | None = None
    """The row of the only key of a table with upserts."""
    mark_lists: tuple[tuple[tuple[Pointer, int], ...], ...] = ()
    """The same for marks of deletes."""
    forgotten: tuple[Pointer, ...] = ()
    """The deletes whose marks were deleted by retention."""
    actions: tuple[str, ...] = ()
    """The action of each request; empty if all requests are replays."""
    copies: tuple[Pointer, ...] = ()
    """The refusals whose copies are in the source; a copy has its own position."""
    sender: int = -1
    """The instance that last initialised the transactional.id of the producer of copies."""
    closed_chains: tuple[tuple[str, Chain], ...] = ()
    """The chains of discarded and sent refusals that were written."""


@dataclass(frozen=True)
class Bounds:
    """The size of a model: records and instances."""

    verdicts: Verdicts
    slots: tuple[int, ...]
    """The number of slots of each instance, in the order of their starts."""

    @property
    def latest(self) -> tuple[int, int]:
        return tuple(sum(partition == p for partition, _ in self.verdicts) for p in (0, 1))  # type: ignore[return-value] # mypy does not count the two items


LEFT = Instance(at=GONE)
"""An instance that knows that it is fenced; it has no other state."""


def with_instance(world: World, who: int, me: Instance) -> World:
    """Return the world with instance `who` replaced."""
    instances = world.instances
    return world._replace(instances=(*instances[:who], me, *instances[who + 1 :]))


def with_chain(world: World, replayed: tuple[Pointer, ...]) -> World:
    """Return the world with a list of replayed records written; an empty list is not written."""
    if not replayed or replayed in world.chains:
        return world
    return world._replace(chains=tuple(sorted((*world.chains, replayed))))


def ready(me: Instance) -> Instance:
    """Return the instance before its next batch; it keeps only settled records beyond the ledger."""
    held = me.held
    assert held is not None
    ahead = tuple((pointer, place) for pointer, place in me.settled if pointer[1] >= held.end[pointer[0]])
    return Instance(at=Step.JUDGE, held=held, settled=ahead, ahead=me.ahead)


def is_within(pointer: Pointer, me: Instance) -> bool:
    partition, offset = pointer
    return me.start[partition] <= offset < me.end[partition]


def more(table: tuple[Pointer, ...], rows: list[Pointer]) -> tuple[Pointer, ...]:
    return tuple(sorted([*table, *rows]))
