"""Proof that `main` of an Iceberg table still contains the snapshot of its published ledger.

The ledger is a property of the table, and properties are not versioned with snapshots: a rollback of `main` removes
rows that the ledger counts. Therefore each publication sets a tag on its snapshot. Each claim and each publication
walks from the head of `main` back to that tag.

Other writers may compact the table and expire snapshots while the stream has nothing to write, until the chain of
parents is broken. Maintenance therefore tags the head of `main` too, while it is proven to contain the published
snapshot. Every descendant of this head contains that snapshot too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions

from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.spark_jobs.sinks.java import JAVA_ERRORS, java_of
from tidegate.spark_jobs.sinks.recovery_scan import keep_as_it_is

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUBLISHED_TAG: Final = "tidegate-published"
"""Tag of the snapshot that last updated the ledger. It protects that snapshot from expiry by others."""
PROOF_TAGS: Final = "tidegate-contains-"
"""Prefix of the tag of a snapshot that is proven to contain the published one; the id of the published one follows."""
FOREVER_MS: Final = 2**63 - 1
"""Maximum age of a tag that never expires, regardless of the table's `history.expire.max-ref-age-ms`."""
STAGED: Final = "tidegate.staged"
"""Key in the summary of every snapshot that the job stages; its value distinguishes attempts."""
COMPACTED: Final = "tidegate.compacted"
"""Key in the summary of every snapshot of the job's own compaction, which replaces files and keeps the ledger."""
RETRACTED: Final = "tidegate.retracted"
"""Key in the summary of the snapshot that follows a deletion of the job's; its value is the id of the deletion's."""
_EPOCH: Final = "tidegate.epoch"
_N: Final = "tidegate.n"
_MOST_SEARCHED: Final = 1_000
"""Maximum entries of the snapshot log, newest first, that are searched for the published snapshot."""


def position_summary(at: Ledger) -> dict[str, str]:
    """Return the summary properties of a staged snapshot: the position of the ledger that it will be published with.

    Only the ledger's name, epoch, n and end vector are known when it is staged.
    """
    ends = ",".join(f'"{partition}":{offset}' for partition, offset in sorted(at.end.items()))
    return {"tidegate.ledger": at.name, _EPOCH: str(at.epoch), _N: str(at.n), "tidegate.end": f"{{{ends}}}"}


def position_in(summary: Mapping[str, str], held: Ledger) -> Vector | None:
    """Return the end vector that `position_summary` wrote for the same ledger; None if there is none."""
    end = summary.get("tidegate.end")
    if end is None or summary.get("tidegate.ledger") != held.name:
        return None
    return {int(partition): int(offset) for partition, offset in json.loads(end).items()}


def published_snapshot(metadata: Any, held: Ledger | None = None) -> Any | None:
    """Return the snapshot that last updated the ledger, or None if the metadata does not show it.

    If the tag is missing, or on a snapshot of another position than `held`, a release that set no tag has written the
    table. The published snapshot is then the newest snapshot in the log of `main` that the job has staged.
    """
    tag = metadata.ref(PUBLISHED_TAG)
    tagged = metadata.snapshot(tag.snapshotId()) if tag is not None else None
    if tagged is not None and (held is None or _staged_for(tagged) in {None, (held.epoch, held.n)}):
        return tagged
    entries, newest = metadata.snapshotLog(), None
    for index in range(entries.size() - 1, max(-1, entries.size() - 1 - _MOST_SEARCHED), -1):
        snapshot = metadata.snapshot(entries.get(index).snapshotId())
        if snapshot is None or not snapshot.summary().containsKey(STAGED):
            continue
        if newest is None or snapshot.sequenceNumber() > newest.sequenceNumber():
            newest = snapshot
    return newest


def _staged_for(snapshot: Any) -> tuple[int, int] | None:
    """Return epoch and n of the ledger that a snapshot was staged for; None if its summary lacks them."""
    epoch, n = snapshot.summary().get(_EPOCH), snapshot.summary().get(_N)
    return None if epoch is None or n is None else (int(epoch), int(n))


def contains(metadata: Any, published: Any) -> bool | None:
    """Return whether `main` contains a snapshot; None if parents in between have expired.

    The walk also ends at a snapshot that is proven to contain it. It takes one step for each later commit of other
    writers. Sequence numbers decrease from a snapshot to its parent, so it stops below the searched snapshot.
    """
    proof = metadata.ref(_proof_tag(published))
    enough = {published.snapshotId(), *([proof.snapshotId()] if proof is not None else [])}
    walked = metadata.currentSnapshot()
    while walked is not None:
        if walked.snapshotId() in enough:
            return True
        parent = walked.parentId()
        if parent is None or 0 < walked.sequenceNumber() < published.sequenceNumber():
            return False
        walked = metadata.snapshot(parent)
        if walked is None:
            return None
    return False


def _proof_tag(published: Any) -> str:
    return f"{PROOF_TAGS}{published.snapshotId()}"


class TableHistory:
    """The history of one table. `quoted` is its name for Spark SQL."""

    def __init__(self, spark: SparkSession, name: str, quoted: str) -> None:
        self._spark = spark
        self._name = name
        self._quoted = quoted

    def require_published(self, metadata: Any, held: Ledger) -> None:
        """Require that `main` contains the rows that the ledger counts.

        Raises StreamStopped if the table was rolled back, or if that cannot be excluded.
        """
        published = published_snapshot(metadata, held)
        if published is None:
            return  # written by an older release, and none of our snapshots is known: the next commit sets the tag
        self._require_same_position(published, held)
        found = contains(metadata, published)
        if found is None:
            found = self._has_rows_since(metadata, published)
        if found:
            return
        head = metadata.currentSnapshot()
        at = f"snapshot {head.snapshotId()}" if head is not None else "no snapshot"
        if found is None:
            raise StreamStopped(
                f"{self._name}: it cannot be proven that main, which is at {at}, contains snapshot "
                f"{published.snapshotId()}, with which the ledger was published last: the snapshots between them have "
                f"expired. {self._remedies(held)}"
            )
        raise StreamStopped(
            f"{self._name}: the table was rolled back. main is at {at}, which does not contain snapshot "
            f"{published.snapshotId()}, with which the ledger was published last; records that the ledger counts as "
            f"written are no longer in the table. {self._remedies(held)}"
        )

    def keep_proof(self, operations: Any) -> None:
        """Tag the head of `main` if it is proven to contain the published snapshot; remove earlier proof tags.

        The commit succeeds only if no other writer has changed the table; otherwise the next round tries again.
        """
        base = operations.refresh()
        published, head = published_snapshot(base), base.currentSnapshot()
        if published is None or head is None:
            return
        wanted, is_published = _proof_tag(published), head.snapshotId() == published.snapshotId()
        found = base.ref(wanted)
        is_there = found is not None and found.snapshotId() == head.snapshotId()
        stale = [name for name in base.refs() if name.startswith(PROOF_TAGS) and name != wanted]
        is_needed = not is_published and not is_there and contains(base, published) is True
        if not stale and not is_needed:
            return
        iceberg = java_of(self._spark).org.apache.iceberg
        builder = iceberg.TableMetadata.buildFrom(base)
        for name in stale:
            builder.removeRef(name)
        if is_needed:
            tag = iceberg.SnapshotRef.tagBuilder(head.snapshotId()).maxRefAgeMs(FOREVER_MS).build()
            builder.setRef(wanted, tag)
        with suppress(*JAVA_ERRORS):
            operations.commit(base, builder.build())

    def _remedies(self, held: Ledger) -> str:
        catalog, table = self._name.split(".", 1)
        forward = f"CALL {catalog}.system.set_current_snapshot(table => '{table}', ref => '{PUBLISHED_TAG}');"
        return (
            f"To bring these records back, run in Spark: {forward} what others have committed since is then undone. To "
            f"{keep_as_it_is(held.stream)}"
        )

    def _require_same_position(self, published: Any, held: Ledger) -> None:
        """Raise StreamStopped unless the published snapshot has the ledger's epoch and number."""
        staged_for = _staged_for(published)
        if staged_for is not None and staged_for != (held.epoch, held.n):
            raise StreamStopped(
                f"{self._name}: the newest snapshot that this stream has published, {published.snapshotId()}, is of epoch "
                f"{staged_for[0]}, batch {staged_for[1]}, but the ledger is at epoch {held.epoch}, batch {held.n}: somebody has changed "
                "the ledger or the tag, and it cannot be proven that the table has all rows that the ledger counts. "
                f"{self._remedies(held)}"
            )

    def _has_rows_since(self, metadata: Any, published: Any) -> bool | None:
        """Return True if `main` has a file with the newest sequence number of the published snapshot, else None.

        A commit gives its added files the sequence number of its snapshot; a compaction gives them that of the snapshot
        that it has read. So a file with the sequence number of the newest commit of rows exists only in descendants of
        that commit. If other writers have rewritten all rows since, there is no proof.
        """
        head = metadata.currentSnapshot()
        before = self._live_files(published.snapshotId())
        (newest,) = before.agg(functions.max("sequence_number")).collect()[0]
        if newest is None:
            return True  # the published snapshot has no rows that could be lost
        now = self._live_files(head.snapshotId()).where(functions.col("sequence_number") == newest)
        return True if now.limit(1).count() else None

    def _live_files(self, snapshot_id: int) -> Any:
        entries = self._spark.read.option("versionAsOf", snapshot_id).table(f"{self._quoted}.entries")
        return entries.where("status < 2 AND data_file.content = 0")
