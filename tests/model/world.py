"""What the models of the protocol share: records, the ledger, instances, and the world that they change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidegate.contracts.stream.generations import Rewound, oldest_counting
from tidegate.spark_jobs.steps import Step

Pointer = tuple[int, int]
"""Source partition and offset."""

Verdicts = dict[Pointer, tuple[str, str]]
"""What each of the two contract versions says of each record."""

Chain = tuple[tuple[Pointer, ...], ...]
"""Positions in the parts in which they were written: each part names those before it by their digest."""

ACCEPT, REFUSE, DROP = "accept", "refuse", "drop"
PENDING, COMMITTED, ABORTED = "pending", "committed", "aborted"
GONE = "gone"
"""Where an instance is that has noticed that it is fenced."""


class Ledger(NamedTuple):
    epoch: int
    n: int
    end: tuple[int, int]
    scan_from: int
    slots: int
    quarantined: int = 0
    dropped: int = 0
    instance: int = -1
    """Whose claim it is."""
    generation: int = 0
    rewinds: tuple[tuple[Rewound, ...], ...] = ((), ())
    """By source partition, without those that no refusal needed when the stream was rewound."""
    all_rewinds: tuple[tuple[Rewound, ...], ...] = ((), ())
    """The same with those: what must be true of each refusal."""
    replayed: tuple[Pointer, ...] = ()
    """The refused records that were written since; the ledger has the digest of the list, see `World.chains`."""
    progress: tuple[int, ...] = ()
    """How many refusals of each replay request were processed."""
    marks: tuple[tuple[Pointer, int], ...] = ()
    """The deletes of a table with upserts, each with the end of the ledger before it; see `World.mark_lists`."""
    discarded: Chain = ()
    """The discarded refusals; the ledger has the digest of the chain, see `World.closed_chains`."""
    resent: Chain = ()
    """The same of those that were sent to the source again."""
    all_discarded: tuple[Pointer, ...] = ()
    """The refusals that were discarded, whatever the ledger names."""

    def counts(self, entry: Entry, *, truly: bool = False) -> bool:
        """Return whether a refusal counts: no later rewind covers its offset."""
        rewinds = self.all_rewinds if truly else self.rewinds
        partition, offset = entry.pointer
        return oldest_counting(dict(enumerate(rewinds)), partition, offset) <= entry.generation


class Entry(NamedTuple):
    """A record of the quarantine topic: its offset is its place in the log."""

    pointer: Pointer
    slot: int
    owner: int
    state: str
    generation: int = 0


class Instance(NamedTuple):
    """What an instance remembers, and the step that it takes next."""

    at: str = Step.CLAIM
    held: Ledger | None = None
    slot: int = 0
    watermark: int = 0
    settled: tuple[tuple[Pointer, int], ...] = ()
    start: tuple[int, int] = (0, 0)
    end: tuple[int, int] = (0, 0)
    contract: int = 0
    new: Ledger | None = None
    """What a rewind or a replay is about to write."""
    chunk: tuple[Pointer, ...] = ()
    """The records that a replay is about to write."""
    seen: tuple[Pointer, ...] = ()
    """The marks of deletes when the chunk was read."""
    ahead: tuple[Pointer, ...] | None = None
    """The refusals that were sent to the source and that its ledger does not name; None before it has looked."""
    sending: tuple[Pointer, ...] = ()
    """The refusals that it is about to send there."""
    begun: int | None = None
    """The contract of a chunk that has begun and has read nothing yet; None for that of the moment it reads."""


class World(NamedTuple):
    ledger: Ledger
    table: tuple[Pointer, ...]
    log: tuple[Entry, ...]
    owners: tuple[int, ...]
    """Who initialised each slot's transactional.id last."""
    contract: int
    checkpoint: tuple[int, int]
    instances: tuple[Instance, ...]
    requests: tuple[tuple[int, ...], ...] = ()
    """The replay requests: each has places of the log, and never changes."""
    chains: tuple[tuple[Pointer, ...], ...] = ()
    """The lists of replayed records that were written, by what a digest of them would be."""
    row: Pointer | None = None
    """The row of the only key of a table with upserts."""
    mark_lists: tuple[tuple[tuple[Pointer, int], ...], ...] = ()
    """The same of marks of deletes."""
    forgotten: tuple[Pointer, ...] = ()
    """The deletes whose marks retention has deleted."""
    actions: tuple[str, ...] = ()
    """What each replay request does with its refusals; empty where all are replayed."""
    copies: tuple[Pointer, ...] = ()
    """The refusals whose copies are in the source: other records, with positions of their own."""
    sender: int = -1
    """Who initialised the transactional.id of the producer that sends them last."""
    closed_chains: tuple[tuple[str, Chain], ...] = ()
    """The chains of discarded and of resent refusals that were written."""


@dataclass(frozen=True)
class Bounds:
    """How much there is of everything."""

    verdicts: Verdicts
    slots: tuple[int, ...]
    """Slots of each instance, in the order in which they are started."""

    @property
    def latest(self) -> tuple[int, int]:
        return tuple(sum(partition == p for partition, _ in self.verdicts) for p in (0, 1))  # type: ignore[return-value] # two


LEFT = Instance(at=GONE)
"""An instance that has noticed that it is fenced, and has forgotten the rest."""


def with_instance(world: World, who: int, me: Instance) -> World:
    """Return the world after an instance has changed."""
    instances = world.instances
    return world._replace(instances=(*instances[:who], me, *instances[who + 1 :]))


def with_chain(world: World, replayed: tuple[Pointer, ...]) -> World:
    """Return the world after a list of replayed records was written; an empty one is not."""
    if not replayed or replayed in world.chains:
        return world
    return world._replace(chains=tuple(sorted((*world.chains, replayed))))


def ready(me: Instance) -> Instance:
    """For the next batch: what lies behind is forgotten."""
    held = me.held
    assert held is not None
    ahead = tuple((pointer, place) for pointer, place in me.settled if pointer[1] >= held.end[pointer[0]])
    return Instance(at=Step.JUDGE, held=held, settled=ahead, ahead=me.ahead)


def is_within(pointer: Pointer, me: Instance) -> bool:
    partition, offset = pointer
    return me.start[partition] <= offset < me.end[partition]


def more(table: tuple[Pointer, ...], rows: list[Pointer]) -> tuple[Pointer, ...]:
    return tuple(sorted([*table, *rows]))
