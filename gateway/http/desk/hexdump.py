"""The bytes of a record in hexadecimal, bounded to its head and the surroundings of its marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from tidegate.gateway.http.desk.layout import Mark, Mask

ROW_BYTES = 16
HEAD_BYTES = 512
CONTEXT_BYTES = 32
LONGEST_MARK_BYTES = 128
MOST_ROWS = 128


@dataclass(frozen=True, slots=True)
class Cell:
    """One byte: two hexadecimal digits and the ASCII character. Both are empty for a masked value of any length."""

    digits: str
    character: str
    is_marked: bool


@dataclass(frozen=True, slots=True)
class Row:
    """Up to 16 cells. `offset` is that of the first, None after a mask: it would tell the length of what is masked.

    `is_after_gap` tells that bytes before the row are left out.
    """

    offset: int | None
    cells: tuple[Cell, ...]
    is_after_gap: bool


def hex_rows(data: bytes, marks: Sequence[Mark], masks: Sequence[Mask]) -> tuple[list[Row], bool]:
    """Return the rows to show, and whether bytes after the last of them are left out."""
    rows = list(islice(_rows(data, marks, masks), MOST_ROWS + 1))
    windows = _windows(data, marks)
    return rows[:MOST_ROWS], len(rows) > MOST_ROWS or (bool(windows) and windows[-1][1] < len(data))


def _windows(data: bytes, marks: Sequence[Mark]) -> list[tuple[int, int]]:
    """Return the parts to show as (start, end), whole rows, in order and apart."""
    wanted = [(0, min(len(data), HEAD_BYTES))]
    for mark in marks:
        start = max(0, mark.start - CONTEXT_BYTES) // ROW_BYTES * ROW_BYTES
        end = min(mark.end, mark.start + LONGEST_MARK_BYTES) + CONTEXT_BYTES
        wanted.append((start, min(len(data), -(-end // ROW_BYTES) * ROW_BYTES)))
    apart: list[tuple[int, int]] = []
    for start, end in sorted(wanted):
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end))
        elif start < end:
            apart.append((start, end))
    return apart


def _rows(data: bytes, marks: Sequence[Mark], masks: Sequence[Mask]) -> Iterator[Row]:
    first_mask = masks[0].start if masks else len(data)
    shown_until = 0
    for start, end in _windows(data, marks):
        cells = _cells(data, (start, end), marks, masks)
        at = start
        while row := tuple(islice(cells, ROW_BYTES)):
            yield Row(at if at <= first_mask else None, row, at == start and start > shown_until)
            at += len(row)
        shown_until = end


def _cells(
    data: bytes, window: tuple[int, int], marks: Sequence[Mark], masks: Sequence[Mask]
) -> Iterator[Cell]:
    at, end = window
    near_marks = [mark for mark in marks if mark.start < end and mark.end > at]
    near_masks = [mask for mask in masks if mask.start < end and mask.end > at]
    while at < end:
        is_marked = any(mark.start <= at < mark.end for mark in near_marks)
        mask = next((mask for mask in near_masks if mask.start <= at < mask.end), None)
        if mask is not None:
            yield Cell("", "", is_marked)
            at = mask.end
        else:
            byte = data[at]
            yield Cell(f"{byte:02x}", chr(byte) if 0x20 <= byte < 0x7F else "·", is_marked)
            at += 1
