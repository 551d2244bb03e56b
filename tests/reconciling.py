"""Reconciling what a test has written down as plain positions."""

from __future__ import annotations

from collections.abc import Iterable

from contracts import fates
from contracts.ledger import Ledger, Position
from contracts.positions import Positions, Sightings


def reconcile(
    ledger: Ledger,
    source: Iterable[Position],
    written: Iterable[Position],
    quarantined: Iterable[Position],
    retained: fates.Retained | None = None,
    later: Ledger | None = None,
) -> fates.Reconciliation:
    """Reconcile positions; they may repeat in `written` and `quarantined`."""
    return fates.reconcile(
        ledger, Positions(source), Sightings(written), Sightings(quarantined), retained, later
    )
