"""The quarantine table of a stream: the refused records that count, one row each, for SQL.

The quarantine topic is the store of refused records, and the table follows it. The table's own ledger is a copy of the
stream's, with the offsets up to which the topic was read (the mark). Rows and mark are written in one commit. So a
crash at any point neither loses nor duplicates rows: the next start reads on from the mark. A row is deleted when its
record leaves the topic (retention, an erasure), and when a rewind overrules its refusal.

Refusals that an attempt wrote and did not publish are ahead of the ledger. They are passed over, and read again when
the ledger covers them. The mark stays before them, because another instance may have to read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

import structlog

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import Fenced, StreamStopped, Unavailable
from tidegate.contracts.stream.evidence import Provenance, headers_of, read_provenance
from tidegate.contracts.stream.history import HISTORY_PARTITION
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger, Vector, span
from tidegate.contracts.stream.positions import Positions
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks.maintenance import Compacted, Expired, Orphans
from tidegate.spark_jobs.sinks.quarantine_rows import Outdated, QuarantineRows, RefusedRows
from tidegate.spark_jobs.sinks.recovery_scan import require_own
from tidegate.spark_jobs.sinks.store import STAGE_ATTEMPTS, LedgerStore, Taken, move_ledger
from tidegate.spark_jobs.steps import QuarantineTableStep

log = structlog.get_logger()

SUFFIX: Final = "_quarantine"
"""Suffix that is appended to the name of the table of accepted rows."""
CHUNK_RECORDS: Final = 50_000
CHUNK_BYTES: Final = 64 * 1024 * 1024
"""Maximum records of one commit, and the bytes at which a commit accepts no further record."""
_MOST_UNNOTED: Final = 100_000
"""Maximum offsets without new rows that a restart reads again; beyond it the mark is committed alone."""

OnStep = Callable[[QuarantineTableStep], None]


def _ignore(_: QuarantineTableStep) -> None:
    """Do nothing."""


class QuarantineTable:
    """The quarantine table of one stream, which follows the quarantine topic.

    Thread-safe: maintenance runs in another thread than `start` and `follow`. Their `on_step` is called after each
    step.
    """

    def __init__(self, kafka: KafkaConnection, store: LedgerStore, topic: str) -> None:
        self.name = store.name
        self._kafka = kafka
        self._topics = Topics(kafka)
        self._store = store
        self._topic = topic
        self._lock = Lock()
        self._rows: QuarantineRows | None = None
        self._ledger: Ledger | None = None
        self._own: Ledger | None = None
        self._read_to: dict[int, int] = {}
        self._ahead: dict[tuple[int, int], tuple[int, int]] = {}
        """The refusals ahead of the ledger that were passed over, by quarantine and source partition.

        For each pair, the first offset in the quarantine topic and the lowest in the source.
        """
        self._known: Positions | None = None
        self._retired = Outdated({}, {})
        self._on_step: OnStep = _ignore

    def start(self, ledger: Ledger, contract: DataContract, on_step: OnStep = _ignore) -> None:
        """Create the table, and update it to the ledger. Call it after the producers of earlier instances are fenced.

        Raises StreamStopped if a table of this name belongs to another stream, Unavailable.
        """
        with self._lock, self._explained(), self._reporting(on_step):
            if self._store.exists() and (there := self._store.read()) is not None:
                require_own(there, ledger.stream, self.name)
                self._own = there
            self._rows = QuarantineRows.of(contract)
            self._store.ensure(self._rows)
            self._ledger, found = ledger, self._store.read()
            if found is None or (found.name, found.topic_id) == (ledger.name, ledger.topic_id):
                # Claimed, because a deletion of an earlier instance may be running and would commit later.
                self._own = self._next(found, found.scan_from.get(self._topic, {}) if found else {})
                move_ledger(self._store, found, self._own, "start")
            else:
                # The accepted rows have a new ledger, in which earlier refusals do not count.
                self._own = found
                self._retract(dict.fromkeys({**found.begin, **found.end}, 0), {})
            self._read_to = dict(self._mark)
            self._retire()
            self._read_on()
            if any(source == HISTORY_PARTITION for _, source in self._ahead):
                log.info("quarantine_table_waiting", table=self.name, records=ledger.pending_history)

    def follow(self, ledger: Ledger, on_step: OnStep = _ignore) -> None:
        """Add the refused records that were published up to this ledger. Raises StreamStopped, Unavailable."""
        with self._lock, self._explained(), self._reporting(on_step):
            self._ledger = ledger
            self._read_on()

    def maintain(self, *, beyond: int = 0) -> Expired | None:
        """Delete the rows that no longer count, and expire old state. Raises Unavailable."""
        with self._lock, self._explained():
            if self._own is not None:
                self._retire()
        return self._store.maintain(beyond=beyond)

    def compact(self) -> Compacted | None:
        """Merge small files, as for the accepted rows. Raises Unavailable."""
        return self._store.compact()

    def remove_orphans(self) -> Orphans | None:
        """Remove the files of crashed attempts, as for the accepted rows. Raises Unavailable."""
        return self._store.remove_orphans()

    @property
    def _mark(self) -> Vector:
        """Return the offsets of the quarantine topic up to which its records are in the table."""
        assert self._own is not None, "start was called"  # noqa: S101 - a programming error
        return self._own.scan_from.get(self._topic, {})

    def _next(self, own: Ledger | None, mark: Vector) -> Ledger:
        """Return the table's next ledger: the stream's, with the table's own mark and batch number.

        Delta skips a commit whose sum of epoch and number it has already, so this sum grows with each commit.
        """
        assert self._ledger is not None, "start was called"  # noqa: S101 - a programming error
        return self._ledger.model_copy(
            update={
                "n": own.n + 1 if own else 0,
                "scan_from": {self._topic: dict(mark)},
                "segments": {},
                "replay": None,
            }
        )

    def _retire(self) -> None:
        """Delete the rows that no longer count.

        Always run before the topic is read: an erasure appends copies of records whose rows are deleted here.
        """
        assert self._ledger is not None, "start was called"  # noqa: S101 - a programming error
        earliest = {p: offset for p, offset in self._topics.earliest(self._topic).items() if offset}
        outdated = Outdated(earliest, self._ledger.rewinds)
        if not outdated or outdated == self._retired:
            return
        self._retract(outdated, self._mark)
        self._retired = outdated
        self._on_step(QuarantineTableStep.RETIRE)

    def _retract(self, taken: Taken, mark: Vector) -> None:
        own = self._own
        assert own is not None, "start was called"  # noqa: S101 - a programming error
        new = self._next(own, mark)
        self._own = self._published(lambda: self._store.retract(taken, own, new))
        self._known = None

    def _read_on(self) -> None:
        end = self._topics.latest(self._topic)
        # A mark beyond the end means that the topic was recreated: then all of its records are new.
        self._read_to = {p: first if first <= end.get(p, 0) else 0 for p, first in self._read_to.items()}
        self._return_to_covered()
        is_done = False
        while not is_done:
            rows, read_to, is_done = self._read(end)
            mark = dict(read_to)
            for (partition, _), (first, _) in self._ahead.items():
                mark[partition] = min(mark[partition], first)
            if rows or span(self._mark, mark) >= _MOST_UNNOTED:
                self._write(rows, mark)
            if not is_done:
                log.info("quarantine_table_filling", table=self.name, records=len(rows))
            self._read_to = read_to

    def _read(self, end: Vector) -> tuple[RefusedRows, dict[int, int], bool]:
        """Read the next records up to `end`; return rows, the offsets read to, and whether nothing is left."""
        rows, read_to = RefusedRows(), dict(self._read_to)
        for message in read_committed(self._kafka, self._topic, self._read_to, end):
            partition, offset = message.partition() or 0, message.offset() or 0
            found = read_provenance(headers_of(message))
            read_to[partition] = offset + 1
            if found is not None and self._is_ahead(found):
                self._pass_over(partition, offset, found)
            elif found is not None and self._is_new(found):
                rows.add(message, found)
            if len(rows) >= CHUNK_RECORDS or rows.size >= CHUNK_BYTES:
                return rows, read_to, False
        return rows, {**read_to, **end}, True

    def _pass_over(self, partition: int, offset: int, found: Provenance) -> None:
        """Note a refusal at this place of the quarantine topic: whether it counts is known after its batch."""
        pair, source = (partition, found.source.partition), found.source.offset
        first, lowest = self._ahead.get(pair, (offset, source))
        self._ahead[pair] = min(first, offset), min(lowest, source)

    def _return_to_covered(self) -> None:
        """Set the reading back to refusals that were passed over, and that the ledger covers now.

        Rows that exist are recognised by their source positions.
        """
        ledger = self._ledger
        assert ledger is not None, "start was called"  # noqa: S101 - a programming error
        for pair, (first, lowest) in tuple(self._ahead.items()):
            partition, source = pair
            if lowest < ledger.end.get(source, 0):
                self._read_to[partition] = min(self._read_to[partition], first)
                del self._ahead[pair]

    def _is_ahead(self, found: Provenance) -> bool:
        """Return whether a record is of this ledger, and its source position is not before the ledger's end."""
        ledger, source = self._ledger, found.source
        assert ledger is not None, "start was called"  # noqa: S101 - a programming error
        return (
            found.ledger == ledger.name
            and source.topic == ledger.topic
            and ledger.counts(source.partition, source.offset, found.generation)
            and source.offset >= ledger.end.get(source.partition, 0)
        )

    def _is_new(self, found: Provenance) -> bool:
        """Return whether a record counts and has no row yet. An interrupted erasure leaves copies in the topic."""
        ledger, source = self._ledger, found.source
        assert ledger is not None, "start was called"  # noqa: S101 - a programming error
        if found.ledger != ledger.name or source.topic != ledger.topic:
            return False
        if not ledger.counts(source.partition, source.offset, found.generation):
            return False
        if self._known is None:
            self._known = self._store.positions_of(ledger.topic).seen
        return self._known.add(source.partition, source.offset)

    def _write(self, rows: RefusedRows, read_to: dict[int, int]) -> None:
        """Commit rows together with the mark up to which the topic was read."""
        own, ledger, content = self._own, self._ledger, self._rows
        assert own is not None, "start was called"  # noqa: S101 - a programming error
        assert ledger is not None, "start was called"  # noqa: S101 - the same
        assert content is not None, "start was called"  # noqa: S101 - the same
        new, parts = self._next(own, read_to), list[str]()
        if rows:
            target = self._store.target(content, ledger.contract or "", f"tidegate-{new.epoch}")
            columns, sources, contracts = rows.arrays()
            with target.open(f"00000-{new.n}") as part:
                part.write(columns, sources, None, contracts)
            parts = part.written
        self._on_step(QuarantineTableStep.WRITE)

        def publish() -> Ledger | None:
            mark = self._store.stage(parts, new)
            self._on_step(QuarantineTableStep.STAGE)
            return self._store.publish(mark, own, new)

        self._own = self._published(publish)
        self._store.tidy(parts)
        self._on_step(QuarantineTableStep.PUBLISH)

    def _published(self, publish: Callable[[], Ledger | None]) -> Ledger:
        for _ in range(STAGE_ATTEMPTS):
            if (published := publish()) is not None:
                return published
        raise Unavailable(f"{self.name}: other commits kept moving the table meanwhile")

    @contextmanager
    def _reporting(self, on_step: OnStep) -> Iterator[None]:
        self._on_step = on_step
        try:
            yield
        finally:
            self._on_step = _ignore

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Add the remedy to an error that ends a stream: the table can be rebuilt if it is the stream's own.

        An error of a disk or an object store may pass.
        """
        try:
            yield
        except OSError as error:
            raise Unavailable(f"{self.name}: {error}") from error
        except Fenced as error:
            # The ledger of the accepted rows decides who holds the stream; an attempt checks it after any failure.
            raise Unavailable(f"{self.name}: another instance has written to it") from error
        except StreamStopped as error:
            if self._own is None:
                raise
            raise StreamStopped(
                f"{error}. This is the table of refused records: it can be dropped or renamed, and the next start fills a "
                f"new one from {self._topic}"
            ) from error
