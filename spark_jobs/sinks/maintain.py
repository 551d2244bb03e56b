"""Maintenance of a table on request (`tidegate maintain`), by the rules of the background task."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.contracts.errors import NotFoundError, SettingsError, Unavailable
from tidegate.contracts.stream.report import TableMaintenance, TableSize
from tidegate.spark_jobs.progress import doing
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.sinks.kind import kind_of
from tidegate.spark_jobs.sinks.quarantine_table import SUFFIX
from tidegate.spark_jobs.sinks.store import LedgerStore
from tidegate.spark_jobs.sinks.upkeep import Upkeep


class Maintained(NamedTuple):
    """The result of a table's maintenance: what was done, the size afterwards, and the last failure."""

    table: str
    done: TableMaintenance
    size: TableSize | None
    error: Unavailable | None
    refusals: Maintained | None = None
    """The result for the quarantine table, if there is one."""


def maintain_table(settings: JobSettings, stream: str) -> Maintained:
    """Run rounds of maintenance until one has nothing to compact, or a part of it fails.

    Also maintains the stream's quarantine table, except for rows that no longer count: the job deletes those. Raises
    NotFoundError if the stream has no table yet, SettingsError for a sink without tables.
    """
    open_store = kind_of(settings).open_store
    if open_store is None:
        raise SettingsError(f"sink {settings.sink} has no table to maintain")
    store = open_store(settings, stream)
    name = f"{store.kind}:{store.name}"
    if not store.exists() or store.read() is None:
        raise NotFoundError(f"{name} is not a table of a stream: enforce the contract first")
    found = _maintained(settings, store, name)
    beside = open_store(settings.appending, stream + SUFFIX)
    if not beside.exists() or (held := beside.read()) is None or held.stream != stream:
        return found
    refusals = _maintained(settings, beside, f"{beside.kind}:{beside.name}")
    return found._replace(error=found.error or refusals.error, refusals=refusals)


def _maintained(settings: JobSettings, store: LedgerStore, name: str) -> Maintained:
    upkeep = Upkeep(store, settings.maintenance_seconds, settings.orphan_age_seconds)
    doing(f"maintaining {name}")
    done = upkeep.run()
    seconds, compacted = done.seconds, 0
    while upkeep.error is None and done.files_compacted > compacted:
        compacted = done.files_compacted
        doing(f"maintaining {name}: {compacted:,} files compacted")
        done = upkeep.run()
        seconds += done.seconds
    return Maintained(name, done.model_copy(update={"seconds": round(seconds, 3)}), upkeep.size, upkeep.error)


def maintained_text(found: Maintained) -> str:
    """Return a summary of what was done, as lines of text."""
    done = found.done
    lines = [
        f"{found.table}: maintained in {done.seconds:.1f} s",
        f"  snapshots expired: {done.snapshots_expired:,}",
        f"  files compacted: {done.files_compacted:,} ({done.bytes_compacted:,} bytes)",
        f"  manifests merged: {done.manifests_rewritten:,}",
        f"  orphans removed: {done.orphans_removed:,} ({done.orphan_bytes:,} bytes)",
        f"  replaced files removed: {done.replaced_removed:,} ({done.replaced_bytes:,} bytes)",
    ]
    if found.size is not None:
        lines.append(f"  snapshots left: {found.size.snapshots:,}")
        if found.size.data_files is not None:
            lines.append(f"  data files left: {found.size.data_files:,}")
    return "\n".join([*lines, *([maintained_text(found.refusals)] if found.refusals else [])])
