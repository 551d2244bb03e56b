"""Leases and positions of indexed partitions. Only the owner of a partition's lease can commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.quarantine_index import IndexedPartition
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.streams.quarantine_index.merge import RefusalBatch, add_batch, trim

LEASE = timedelta(seconds=30)
"""Duration of a lease: if it is not renewed in this time, another process takes the partition over."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets [low, high) that a partition of a stream's quarantine topic holds.

    `revision` is that of the indexed partition before the offsets were read; None if it was not indexed.
    """

    stream: str
    partition: int
    low: int
    high: int
    revision: int | None


@dataclass(frozen=True, slots=True)
class PartitionCommit:
    """One commit of a partition: its records, and the first offset that is not read yet.

    `claimed` is the partition as it was when its records were read from `claimed.next_offset` on. `high` is the end of
    the partition, None if unknown.
    """

    claimed: IndexedPartition
    batch: RefusalBatch
    next_offset: int
    high: int | None = None


class IndexedPartitions:
    """The leases and positions of one process, `owner`."""

    def __init__(self, database: Database, now: Callable[[], datetime], owner: str) -> None:
        self._database = database
        self._now = now
        self._owner = owner

    def claim(self, stream: str, partition: int, low: int, high: int) -> IndexedPartition | None:
        """Take the lease of one partition, as `claim_all` does; its offsets are those of now."""
        found = self._database.read(lambda stores: stores.quarantine.partition(stream, partition))
        revision = None if found is None else found.revision
        return self.claim_all([OffsetRange(stream, partition, low, high, revision)])[0]

    def claim_all(self, ranges: Sequence[OffsetRange]) -> list[IndexedPartition | None]:
        """Take the leases of partitions in one transaction; return None for each that another process has.

        A partition that ends before its indexed position belongs to a recreated topic: the index of the stream is
        deleted and starts again. None if another process has advanced the position since the end was read.
        """
        now = self._now()
        with self._database.writing() as stores:
            return [self._claimed(stores, each, now) for each in ranges]

    def _claimed(self, stores: Stores, wanted: OffsetRange, now: datetime) -> IndexedPartition | None:
        found = stores.quarantine.partition(wanted.stream, wanted.partition)
        if found is not None and self._is_foreign(found, now):
            return None
        if found is not None and found.next_offset > wanted.high:
            if found.revision != wanted.revision:
                return None
            stores.quarantine.drop(wanted.stream)
            stores.closures.drop(wanted.stream)
            stores.reasons.drop(wanted.stream)
            found = None
        if found is None:
            low = wanted.low
            found = IndexedPartition(wanted.stream, wanted.partition, low, low, low, 0, None, None, None)
        claimed = replace(
            found, owner=self._owner, lease_until=now + LEASE, high=wanted.high, revision=found.revision + 1
        )
        stores.quarantine.put_partition(claimed)
        return claimed

    def commit(self, steps: Sequence[PartitionCommit]) -> list[IndexedPartition | None]:
        """Add the records of some partitions and advance their positions, in one transaction.

        Return the partitions after the commit; None for one that another process or a rebuild has taken since.
        """
        now = self._now()
        with self._database.writing() as stores:
            done: list[IndexedPartition | None] = []
            for step in steps:
                claimed = step.claimed
                if not self._is_own(stores.quarantine.partition(claimed.stream, claimed.partition), claimed):
                    done.append(None)
                    continue
                add_batch(stores, claimed.stream, claimed.partition, step.batch)
                after = replace(
                    claimed,
                    next_offset=step.next_offset,
                    high=max(step.high or claimed.high, step.next_offset),
                    revision=claimed.revision + 1,
                    lease_until=now + LEASE,
                    indexed_at=now,
                )
                stores.quarantine.put_partition(after)
                done.append(after)
            return done

    def retain(self, claimed: IndexedPartition, low: int, high: int) -> IndexedPartition | None:
        """Remove the records below `low`, which the topic no longer has, in transactions of bounded size.

        Return the partition afterwards; None if another process or a rebuild has taken it.
        """
        current: IndexedPartition = claimed
        while True:
            with self._database.writing() as stores:
                if not self._is_own(stores.quarantine.partition(claimed.stream, claimed.partition), current):
                    return None
                until = (
                    trim(stores, claimed.stream, claimed.partition, low) if low > current.low else current.low
                )
                current = replace(
                    current,
                    low=until,
                    next_offset=max(current.next_offset, until),
                    high=max(high, current.next_offset, until),
                    revision=current.revision + 1,
                    lease_until=self._now() + LEASE,
                )
                stores.quarantine.put_partition(current)
            if until >= low:
                return current

    def renew(self) -> None:
        """Renew all leases of this process."""
        until = self._now() + LEASE
        self._database.write(lambda stores: stores.quarantine.renew(self._owner, until))

    def release(self) -> None:
        """Release all leases of this process."""
        self._database.write(lambda stores: stores.quarantine.release(self._owner))

    def is_free(self, found: IndexedPartition | None) -> bool:
        """Return whether this process may claim a partition."""
        return found is None or not self._is_foreign(found, self._now())

    def _is_foreign(self, found: IndexedPartition, now: datetime) -> bool:
        is_held = found.owner is not None and found.lease_until is not None and found.lease_until > now
        return is_held and found.owner != self._owner

    def _is_own(self, found: IndexedPartition | None, claimed: IndexedPartition) -> bool:
        return found is not None and found.owner == self._owner and found.revision == claimed.revision
