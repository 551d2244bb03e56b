"""Reconciling what a test has written down as plain positions."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.contracts.stream import fates
from tidegate.contracts.stream.ledger import Ledger, Position
from tidegate.contracts.stream.positions import Positions, Sightings


def reconcile(  # noqa: PLR0913, PLR0917 - all that `fates.reconcile` looks at, flat
    ledger: Ledger,
    source: Iterable[Position],
    written: Iterable[Position],
    quarantined: Iterable[Position],
    retained: fates.Retained | None = None,
    later: Ledger | None = None,
    upserts: fates.Upserts | None = None,
    dropped: Iterable[Position] = (),
) -> fates.Reconciliation:
    """Reconcile positions; they may repeat in `written` and `quarantined`."""
    rows = fates.Written(Sightings(written), later, upserts, Positions(dropped))
    return fates.reconcile(ledger, Positions(source), rows, Sightings(quarantined), retained)
