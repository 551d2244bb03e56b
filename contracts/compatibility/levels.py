"""Compatibility levels, with the meaning that Confluent Schema Registry gives them."""

from __future__ import annotations

from typing import Final

from tidegate.contracts.compatibility.finding import Direction
from tidegate.contracts.document.model import Compatibility

_DIRECTIONS: Final = {
    Compatibility.NONE: frozenset[Direction](),
    Compatibility.BACKWARD: frozenset({Direction.BACKWARD}),
    Compatibility.BACKWARD_TRANSITIVE: frozenset({Direction.BACKWARD}),
    Compatibility.FORWARD: frozenset({Direction.FORWARD}),
    Compatibility.FORWARD_TRANSITIVE: frozenset({Direction.FORWARD}),
    Compatibility.FULL: frozenset(Direction),
    Compatibility.FULL_TRANSITIVE: frozenset(Direction),
}


def directions_of(level: Compatibility) -> frozenset[Direction]:
    """Say in which directions a level forbids to break."""
    return _DIRECTIONS[level]


def is_transitive(level: Compatibility) -> bool:
    """Return whether a level looks at every earlier version, and not at the latest alone."""
    return level.value.endswith("_TRANSITIVE")
