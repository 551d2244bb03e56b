"""What a reconciliation says: as values for machines, and as lines for people."""

from __future__ import annotations

from typing import Any

from contracts.ledger import Position, Reconciliation


def as_values(stream: str, found: Reconciliation, limit: int) -> dict[str, Any]:
    """Give counts of every fate, and the records that have none or two as `partition/offset`, `limit` of each kind.

    Records of no fate cannot be told from those that the ledger counts as dropped, superseded or deleted; they are named
    only if there are more or fewer of them than it counts.
    """
    is_counted = found.holds or len(found.unaccounted) == found.in_no_output
    named = {
        "in_no_output": frozenset() if is_counted else found.unaccounted,
        "written_twice": found.written_twice,
        "quarantined_twice": found.quarantined_twice,
        "written_and_quarantined": found.in_both,
        "written_but_not_covered": found.beyond,
    }
    return {
        "stream": stream,
        "holds": found.holds,
        "written": found.written,
        "quarantined": found.quarantined,
        "dropped_superseded_or_deleted": found.in_no_output,
        "absent": found.absent,
        "unverifiable": found.unverifiable,
        "lost": found.lost,
        "twice": found.twice,
        "records": {
            kind: {"count": len(positions), "first": _first(positions, limit)}
            for kind, positions in named.items()
            if positions
        },
    }


def as_text(values: dict[str, Any]) -> str:
    """Write the same as lines."""
    fates = ("written", "quarantined", "dropped_superseded_or_deleted", "absent", "unverifiable")
    lines = [f"{values[fate]:>14,}  {fate.replace('_', ' ')}" for fate in fates]
    for kind, records in values["records"].items():
        named = ", ".join(records["first"])
        more = " ..." if records["count"] > len(records["first"]) else ""
        lines.append(f"{records['count']:>14,}  {kind.replace('_', ' ')}: {named}{more}")
    verdict = (
        "every offset has one fate"
        if values["holds"]
        else f"lost {values['lost']:,}, twice {values['twice']:,}: stop the stream, keep the topics, and ask who wrote"
    )
    if values["holds"] and values["unverifiable"]:
        verdict = "every offset that can still be looked at has one fate"
    return "\n".join([*lines, f"{values['stream']}: {verdict}"])


def _first(positions: frozenset[Position], limit: int) -> list[str]:
    return [f"{partition}/{offset}" for partition, offset in sorted(positions)[:limit]]
