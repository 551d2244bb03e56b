"""Reconciliation of plain positions."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.contracts.stream import reconcile as rules
from tidegate.contracts.stream.ledger import Ledger, Position
from tidegate.contracts.stream.positions import Positions, Sightings


def reconcile(  # noqa: PLR0913, PLR0917 - all that `rules.reconcile` looks at, flat
    ledger: Ledger,
    source: Iterable[Position],
    written: Iterable[Position],
    quarantined: Iterable[Position],
    retained: rules.Retained | None = None,
    later: Ledger | None = None,
    upserts: rules.Upserts | None = None,
    dropped: Iterable[Position] = (),
) -> rules.Reconciliation:
    """Return the reconciliation of positions; they may repeat in `written` and `quarantined`."""
    rows = rules.Written(Sightings(written), later, upserts, Positions(dropped))
    return rules.reconcile(ledger, Positions(source), rows, Sightings(quarantined), retained)
