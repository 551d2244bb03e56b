"""Proof that a Delta table still contains the commit that last updated its ledger.

RESTORE brings back the rows of an older version and keeps the metadata of our domain, so the ledger counts rows that no
longer exist. The log has a commit for each RESTORE, with the restored version.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from pyiceberg.io import load_file_io

from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.ledger import Ledger
from tidegate.spark_jobs.sinks.delta.merge import ledger_in_commit
from tidegate.spark_jobs.sinks.recovery_scan import keep_as_it_is

_RESTORE: Final = "RESTORE"


def require_unrestored(location: str, newest: int, held: Ledger) -> None:
    """Require that version `newest` of a table contains the commit that last updated the ledger.

    Reads the log back to that commit, one file for each later commit of another writer. Raises StreamStopped if an
    older version was restored, or if the log no longer has that commit.
    """
    io = load_file_io({}, location)
    restored: dict[int, int | None] = {}
    version = newest
    while True:
        try:
            with io.new_input(f"{location}/_delta_log/{version:020d}.json").open() as file:
                actions = [json.loads(line) for line in file.read().splitlines()]
        except FileNotFoundError as error:
            raise StreamStopped(
                f"{location}: it cannot be proven that the table has all rows that the ledger counts: the log begins after "
                f"version {version}, and the commit that moved the ledger last is older, so that nothing tells whether "
                f"the table was restored since. To {keep_as_it_is(held.stream)}"
            ) from error
        if ledger_in_commit(actions) is not None:
            break
        if (restore := _restore(actions)) is not None:
            restored[version] = restore.get("version")
        version -= 1
    _require_contained(location, newest, version, restored, held)


def is_restore(actions: Sequence[dict[str, Any]]) -> bool:
    """Return whether a commit is a RESTORE."""
    return _restore(actions) is not None


def _require_contained(
    location: str, newest: int, published: int, restored: dict[int, int | None], held: Ledger
) -> None:
    """Follow the table's state back to version `published`; raise StreamStopped if a RESTORE went further back.

    The predecessor of a RESTORE is the restored version.
    """
    version = newest
    while version > published:
        target = restored.get(version, version - 1)
        if target is None or target < published:
            to = f"version {target}" if target is not None else "an earlier time"
            raise StreamStopped(
                f"{location}: the table was restored. Version {version} restored {to}; the ledger was published last with "
                f"version {published}, and records that it counts as written are no longer in the table. To bring them "
                f"back, run in Spark: RESTORE TABLE delta.`{location}` TO VERSION AS OF {version - 1}; what others have "
                f"committed since is then undone. To {keep_as_it_is(held.stream)}"
            )
        version = target


def _restore(actions: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return {"version": restored version, or None for a restore to a time}; None if the commit is not a RESTORE."""
    for each in actions:
        info = each.get("commitInfo", {})
        if info.get("operation") == _RESTORE:
            found: dict[str, Any] = info.get("operationParameters", {})
            target = found.get("version")
            return {"version": int(target) if target is not None else None}
    return None
