"""The bytes of a record that are marked because of violations, and those that are masked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.privacy.classes import BODY, Visibility
from tidegate.contracts.verdict import Stage, Violation
from tidegate.gateway.http.desk.clauses import pointers_of
from tidegate.gateway.http.desk.layout import MarkedBytes
from tidegate.gateway.streams.json_places import FoundPlaces, ValueSpan, find
from tidegate.gateway.streams.masking import HiddenBytes, apart, masks_by_part, whole


@dataclass(frozen=True, slots=True)
class Marking:
    """The marks and masks of one record's bytes, each sorted by start; masks do not overlap.

    `hidden` names what is masked, in the terms of `Visibility.revealed`: pointers of classified fields, and BODY.
    """

    marks: tuple[MarkedBytes, ...]
    masks: tuple[HiddenBytes, ...]
    hidden: frozenset[str] = frozenset()

    @property
    def hides(self) -> bool:
        """Return whether any byte is masked."""
        return bool(self.masks)


def mark_record(
    data: bytes, violations: Sequence[Violation], contract: DataContract | None, visibility: Visibility
) -> Marking:
    """Mark the positions of `violations` in `data` (any bytes), and mask what the reader must not see.

    Without a contract, the whole record is masked. If the contract classifies fields, undeclared properties are masked
    too: a property with a misspelled name may contain personal data. A record that is not JSON is then masked as a
    whole, because the extent of its fields is unknown.
    """
    if contract is None and not visibility.shows(BODY):
        masks = whole(data)
        return Marking((), masks, hidden=frozenset({BODY}) if data else frozenset())
    asked = {index: pointers_of(contract, violation) for index, violation in enumerate(violations, 1)}
    declared = visibility.declared if contract is not None else None
    pointers = {pointer for group in asked.values() for pointer in group}
    personal = visibility.hidden_fields
    found = find(data, pointers, declared=declared, patterns=personal)
    masks_of = masks_by_part(data, visibility, found)
    return Marking(
        marks=_merged(_marks(data, violations, asked, found)),
        masks=apart([mask for masks in masks_of.values() for mask in masks]),
        hidden=frozenset(part for part, masks in masks_of.items() if masks),
    )


def _marks(
    data: bytes, violations: Sequence[Violation], asked: dict[int, tuple[str, ...]], found: FoundPlaces
) -> list[MarkedBytes]:
    marks: list[MarkedBytes] = []
    for index, violation in enumerate(violations, 1):
        if violation.stage in {Stage.FRAME, Stage.DECODE}:
            if found.broken is not None:
                broken = found.broken
                marks.append(MarkedBytes(broken.start, broken.end, (index,), broken.reason))
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


def _on_value(data: bytes, place: ValueSpan, index: int, pointer: str) -> MarkedBytes:
    """Mark a value, with its name if it is not declared; of an object or array only the opening bracket."""
    is_container = data[place.start : place.start + 1] in {b"{", b"["}
    start = place.key_start if pointer.endswith("/*") else place.start
    return MarkedBytes(start, place.start + 1 if is_container else place.end, (index,))


def _on_opening(place: ValueSpan, index: int, note: str) -> MarkedBytes:
    return MarkedBytes(place.start, place.start + 1, (index,), note)


def _merged(marks: list[MarkedBytes]) -> tuple[MarkedBytes, ...]:
    """Return the marks sorted, with marks of the same bytes merged into one."""
    by_span: dict[tuple[int, int], list[MarkedBytes]] = {}
    for mark in marks:
        by_span.setdefault((mark.start, mark.end), []).append(mark)
    return tuple(
        MarkedBytes(
            start,
            end,
            tuple(dict.fromkeys(number for mark in same for number in mark.violations)),
            ", ".join(dict.fromkeys(mark.note for mark in same if mark.note)),
        )
        for (start, end), same in sorted(by_span.items())
    )
