"""Decides which bytes of a record are marked as offending, and which are masked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.model import DataContract
from contracts.verdict import Stage, Violation
from gateway.desk.clauses import classified, declared_names, pointers_of
from gateway.desk.layout import Mark, Mask
from gateway.desk.positions import Found, Place, find

_MASKED_REST = "unreadable from here on, and the contract classifies fields"
_MASKED_UNKNOWN = "the contract of this record is not known, so nothing tells which fields are personal"
_UNDECLARED = "not declared in the contract"


@dataclass(frozen=True, slots=True)
class Marking:
    """Marks and masks of one record's bytes, each sorted by start; masks do not overlap.

    `hides` tells whether anything at all is kept from the reader. `is_fully_read` is False when the bytes are not
    JSON to their end.
    """

    marks: tuple[Mark, ...]
    masks: tuple[Mask, ...]
    is_fully_read: bool

    @property
    def hides(self) -> bool:
        """Whether any byte is masked."""
        return bool(self.masks)


def mark_record(data: bytes, violations: Sequence[Violation], contract: DataContract | None) -> Marking:
    """Mark the places that `violations` speak of in `data`, any bytes; mask what `contract` classifies.

    Without the contract nothing is known to be harmless, so all is masked. In a contract that classifies fields,
    properties that it does not declare are masked too (a misspelt name is still a name), and so is everything
    after the place where the bytes stop being JSON.
    """
    if contract is None:
        masks = (Mask(0, len(data), _MASKED_UNKNOWN),) if data else ()
        return Marking((), masks, is_fully_read=False)
    asked = {index: pointers_of(contract, violation) for index, violation in enumerate(violations, 1)}
    personal = classified(contract)
    pointers = {pointer for group in asked.values() for pointer in group} | set(personal)
    found = find(data, pointers, declared=declared_names(contract))
    return Marking(
        marks=_merged(_marks(data, violations, asked, found)),
        masks=_apart(_masks(data, personal, found)) if personal else (),
        is_fully_read=found.broken is None,
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


def _masks(data: bytes, personal: dict[str, str], found: Found) -> list[Mask]:
    masks = [
        Mask(place.start, place.end, name)
        for pointer, name in personal.items()
        for place in found.values[pointer]
    ]
    # Where an object was agreed and something else stands, the classified field may be anywhere inside of it.
    masks += [
        Mask(place.start, place.end, name)
        for pointer, name in personal.items()
        for place in found.nearest.get(pointer, ())
        if data[place.start : place.start + 1] != b"{"
    ]
    masks += [Mask(place.start, place.end, _UNDECLARED) for place in found.undeclared]
    if found.readable_until < len(data):
        masks.append(Mask(found.readable_until, len(data), _MASKED_REST))
    return masks


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
