"""Decides which bytes of a record are marked as offending, and which are masked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.privacy.classes import BODY, Visibility
from tidegate.contracts.verdict import Stage, Violation
from tidegate.gateway.http.desk.clauses import pointers_of
from tidegate.gateway.http.desk.layout import Mark, Mask
from tidegate.gateway.http.desk.positions import Found, Place, find, name_at

_UNREADABLE = "the record cannot be read, and the contract classifies fields"
_MASKED_UNKNOWN = "the contract of this record is not known, so nothing tells which fields are personal"
_UNDECLARED = "not declared in the contract"
_ALIKE = 0.8
"""How alike an undeclared name must be to a declared one to be taken for a mistake in writing it."""


@dataclass(frozen=True, slots=True)
class Marking:
    """Marks and masks of one record's bytes, each sorted by start; masks do not overlap.

    `hidden` names what the masks keep from the reader, as `Visibility.revealed` would: pointers of classified fields, and
    BODY. `is_fully_read` is False when the bytes are not JSON to their end.
    """

    marks: tuple[Mark, ...]
    masks: tuple[Mask, ...]
    is_fully_read: bool
    hidden: frozenset[str] = frozenset()

    @property
    def hides(self) -> bool:
        """Whether any byte is masked."""
        return bool(self.masks)


def mark_record(
    data: bytes, violations: Sequence[Violation], contract: DataContract | None, visibility: Visibility
) -> Marking:
    """Mark the places of `violations` in `data`, any bytes; mask what the reader must not see.

    Without the contract everything is masked. If the contract classifies fields, undeclared properties are masked too: a
    misspelt name may hold a person's name. A record that is not JSON is then masked as a whole, because the extent of
    its fields is unknown.
    """
    if contract is None and not visibility.shows(BODY):
        masks = (Mask(0, len(data), _MASKED_UNKNOWN),) if data else ()
        return Marking((), masks, is_fully_read=False, hidden=frozenset({BODY}) if data else frozenset())
    asked = {index: pointers_of(contract, violation) for index, violation in enumerate(violations, 1)}
    declared = visibility.declared if contract is not None else None
    pointers = {pointer for group in asked.values() for pointer in group}
    personal = visibility.hidden_fields
    found = find(data, pointers, declared=declared, patterns=personal)
    masks_of = (
        dict(_masks(data, visibility, personal, found))
        if visibility.is_limited and not visibility.shows(BODY)
        else {}
    )
    return Marking(
        marks=_merged(_marks(data, violations, asked, found)),
        masks=_apart([mask for masks in masks_of.values() for mask in masks]),
        is_fully_read=found.broken is None,
        hidden=frozenset(part for part, masks in masks_of.items() if masks),
    )


def _marks(
    data: bytes, violations: Sequence[Violation], asked: dict[int, tuple[str, ...]], found: Found
) -> list[Mark]:
    marks: list[Mark] = []
    for index, violation in enumerate(violations, 1):
        if violation.stage in {Stage.FRAME, Stage.DECODE}:
            if found.broken is not None:
                broken = found.broken
                marks.append(Mark(broken.start, broken.end, (index,), broken.reason))
            continue
        is_about_absence = violation.code == "required"
        for pointer in asked[index]:
            places = found.values[pointer]
            if places and not is_about_absence:
                marks += [_on_value(data, place, index, pointer) for place in places]
            elif not places:
                name = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
                marks += [_on_opening(place, index, f"{name} is missing") for place in found.nearest[pointer]]
    return marks


def _on_value(data: bytes, place: Place, index: int, pointer: str) -> Mark:
    """Mark a value; of an object or array only the opening bracket, and the name if it is not declared."""
    is_container = data[place.start : place.start + 1] in {b"{", b"["}
    start = place.key_start if pointer.endswith("/*") else place.start
    return Mark(start, place.start + 1 if is_container else place.end, (index,))


def _on_opening(place: Place, index: int, note: str) -> Mark:
    return Mark(place.start, place.start + 1, (index,), note)


def _merged(marks: list[Mark]) -> tuple[Mark, ...]:
    """Sort, and let marks of the same bytes be one."""
    by_span: dict[tuple[int, int], list[Mark]] = {}
    for mark in marks:
        by_span.setdefault((mark.start, mark.end), []).append(mark)
    return tuple(
        Mark(
            start,
            end,
            tuple(dict.fromkeys(number for mark in same for number in mark.violations)),
            ", ".join(dict.fromkeys(mark.note for mark in same if mark.note)),
        )
        for (start, end), same in sorted(by_span.items())
    )


def _masks(
    data: bytes, visibility: Visibility, personal: dict[str, str], found: Found
) -> Iterator[tuple[str, list[Mask]]]:
    """Yield the masks of each part that is hidden."""
    for pattern, name in personal.items():
        yield pattern, [Mask(place.start, place.end, name) for place in found.covered[pattern]]
    declared = visibility.declared or frozenset()
    rest = [
        Mask(place.start if _is_known(data, place, declared) else place.key_start, place.end, _UNDECLARED)
        for place in found.undeclared
    ]
    if found.broken is not None and data:
        rest = [Mask(0, len(data), _UNREADABLE)]
    yield BODY, rest


def _is_known(data: bytes, place: Place, declared: frozenset[str]) -> bool:
    """Return whether an undeclared name looks like a declared one: then it is a mistake to be seen, and no value."""
    known = {name.casefold() for name in declared}
    return bool(get_close_matches(name_at(data, place.key_start).casefold(), known, n=1, cutoff=_ALIKE))


def _apart(masks: list[Mask]) -> tuple[Mask, ...]:
    """Sort, and join masks that overlap: the outer one's reason stands."""
    apart: list[Mask] = []
    for mask in sorted(masks, key=lambda one: (one.start, -one.end)):
        if apart and mask.start < apart[-1].end:
            last = apart[-1]
            apart[-1] = Mask(last.start, max(last.end, mask.end), last.reason)
        else:
            apart.append(mask)
    return tuple(apart)
