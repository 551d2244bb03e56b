"""What one reader sees of the records of one contract."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.privacy.classes import Classes, Path, classes_of

KEY: Final = "key"
"""The record's key: it often repeats a value."""
HEADERS: Final = "headers"
"""The producer's headers: so do they."""
BODY: Final = "body"
"""Whatever of the value the contract cannot tell apart: undeclared properties, unreadable bytes, Avro's raw bytes."""
BESIDES: Final = (BODY, KEY, HEADERS)
"""What a contract that classifies fields hides beside them."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a reader sees: all but the classified fields, unless they are `revealed`.

    `classes` are those of the contract; None when the contract is not known, and then nothing is shown that is not
    revealed. `revealed` holds pointers of classified fields, and words of BESIDES; BODY reveals the whole value.
    `declared` are the names that the contract's schema declares; None when that is not known.
    """

    classes: Classes | None
    declared: frozenset[str] | None = None
    revealed: frozenset[str] = frozenset()

    @property
    def is_limited(self) -> bool:
        """Whether anything of a record might be hidden at all."""
        return self.classes is None or bool(self.classes)

    def shows(self, besides: str) -> bool:
        """Return whether a part of BESIDES is shown."""
        return not self.is_limited or besides in self.revealed

    def hides(self, path: Path) -> bool:
        """Return whether the value at a path is hidden: where classified values may stand in it, and below undeclared names."""
        if self.shows(BODY):
            return False
        if self.classes is None:
            return True
        if self.classes.touches(path, self.revealed):
            return True
        names = (token for token in path if isinstance(token, str))
        return self.declared is not None and any(name not in self.declared for name in names)

    @property
    def hidden_fields(self) -> dict[str, str]:
        """Return pointer to class of the classified fields that are not shown."""
        if self.classes is None or self.shows(BODY):
            return {}
        return {
            pointer: name for pointer, name in self.classes.by_pointer.items() if pointer not in self.revealed
        }


def sight_of(contract: DataContract, declared: frozenset[str] | None, revealed: Iterable[str] = ()) -> Sight:
    """Return what a reader of a contract's records sees; `declared` are the names that its schema declares."""
    return Sight(classes_of(contract), declared, frozenset(revealed))
