"""The bytes of a record in hexadecimal, bounded to its head and the surroundings of its marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.desk.layout import Mark, Mask

ROW_BYTES = 16
HEAD_ROWS = 16
CONTEXT_ROWS = 2
MOST_ROWS = 96


@dataclass(frozen=True, slots=True)
class Cell:
    """One byte: two hexadecimal digits and the ASCII character, both empty when it is masked."""

    digits: str
    character: str
    is_marked: bool


@dataclass(frozen=True, slots=True)
class Row:
    """Up to 16 bytes from `offset` on; `skipped` bytes were left out before it."""

    offset: int
    cells: tuple[Cell, ...]
    skipped: int


def hex_rows(data: bytes, marks: Sequence[Mark], masks: Sequence[Mask]) -> tuple[list[Row], int]:
    """Give the rows to show and the number of bytes left out after the last of them."""
    last_row = max(0, len(data) - 1) // ROW_BYTES
    wanted = set(range(min(HEAD_ROWS, last_row + 1)))
    for mark in marks:
        for end in (mark.start, min(mark.end, mark.start + 4 * ROW_BYTES)):
            row = min(end, len(data)) // ROW_BYTES
            wanted.update(range(max(0, row - CONTEXT_ROWS), min(last_row, row + CONTEXT_ROWS) + 1))
    rows: list[Row] = []
    shown_until = 0
    for index in sorted(wanted)[:MOST_ROWS]:
        start = index * ROW_BYTES
        rows.append(Row(start, _cells(data, start, marks, masks), start - shown_until))
        shown_until = min(start + ROW_BYTES, len(data))
    return rows, len(data) - shown_until


def _cells(data: bytes, start: int, marks: Sequence[Mark], masks: Sequence[Mask]) -> tuple[Cell, ...]:
    end = min(start + ROW_BYTES, len(data))
    near_marks = [mark for mark in marks if mark.start < end and mark.end > start]
    near_masks = [mask for mask in masks if mask.start < end and mask.end > start]
    cells = []
    for at in range(start, end):
        is_marked = any(mark.start <= at < mark.end for mark in near_marks)
        if any(mask.start <= at < mask.end for mask in near_masks):
            cells.append(Cell("", "", is_marked))
        else:
            byte = data[at]
            cells.append(Cell(f"{byte:02x}", chr(byte) if 0x20 <= byte < 0x7F else "·", is_marked))
    return tuple(cells)
