"""Lay out a record's bytes for reading, with a limited size: as JSON, one value a line, and in hexadecimal.

Marks and masks are at their places. All text is from the record's bytes; only white space is added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tidegate.gateway.http.desk.wording import visible_runs
from tidegate.gateway.streams.json_walk import Event, Part, Walk, closing, is_json
from tidegate.gateway.streams.masking import Mask

HEAD_LINES = 40
CONTEXT_LINES = 4
MOST_MARKED_LINES = 360
LONGEST_TEXT_BYTES = 360
TAIL_TEXT_BYTES = 80
MOST_INDENT = 12


@dataclass(frozen=True, slots=True)
class Mark:
    """Bytes to mark; `violations` count from 1 as the page lists them. An empty span marks a place between bytes."""

    start: int
    end: int
    violations: tuple[int, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text of one kind: key, string, number, word, punctuation, code, mask, cut or note."""

    kind: str
    text: str
    mark: Mark | None = None


@dataclass(slots=True)
class Line:
    """One line; `depth` counts the objects and arrays around it.

    A gap replaces `skipped` lines, or the last `skipped_bytes` of the record.
    """

    number: int
    depth: int = 0
    pieces: list[Piece] = field(default_factory=list)
    is_marked: bool = False
    skipped: int = 0
    skipped_bytes: int = 0

    @property
    def indent(self) -> int:
        """Return the steps of indentation, limited so that deep records stay on the page."""
        return min(self.depth, MOST_INDENT)


def lay_out(
    data: bytes, marks: Sequence[Mark] = (), masks: Sequence[Mask] = (), *, head_lines: int = HEAD_LINES
) -> list[Line]:
    """Return the lines of a JSON record around its marks, with its head, a bounded number of them.

    `marks` and `masks` are sorted by start; masks do not overlap. Any bytes are taken: after the place where a
    text stops being JSON, the rest follows as it is. Past the head, objects and arrays without a mark are one line.
    """
    return _keep(_Typesetter(data, marks, masks, head_lines).lines(), head_lines)


def _keep(lines: Iterator[Line], head_lines: int) -> list[Line]:
    """Keep the head and the lines around marked lines; gaps have the number of omitted lines."""
    kept: list[Line] = []
    recent: deque[Line] = deque(maxlen=CONTEXT_LINES)
    skipped = 0
    after = head_lines
    for line in lines:
        if (line.is_marked or after > 0) and len(kept) < head_lines + MOST_MARKED_LINES:
            if line.is_marked:
                if skipped > len(recent):
                    kept.append(Line(0, recent[0].depth, skipped=skipped - len(recent)))
                kept += recent
                recent.clear()
                skipped = 0
                after = max(after, CONTEXT_LINES + 1)
            kept.append(line)
            after -= 1
        elif line.skipped_bytes:
            kept.append(line)
            skipped = 0
        else:
            recent.append(line)
            skipped += 1
    if skipped:
        kept.append(Line(0, skipped=skipped))
    return kept


class _Typesetter:
    """Turns the walk of one record into lines."""

    def __init__(self, data: bytes, marks: Sequence[Mark], masks: Sequence[Mask], head_lines: int) -> None:
        self._data = data
        self._marks = marks
        self._masks = masks
        self._head_lines = head_lines
        self._next_mark = 0
        self._next_mask = 0
        self._line = Line(1)
        self._shown_until = 0
        self._last_needed = head_lines

    def lines(self) -> Iterator[Line]:
        """Set the record; ends early once head and marks are behind."""
        walk = Walk(self._data)
        may_skip = is_json(self._data)
        previous: Part | None = None
        for event in walk:
            if event.part is Part.STOP and event.start >= self._shown_until:
                yield from self._rest(event.start)
                return
            if event.start < self._shown_until:  # inside of a masked value
                previous = Part.SCALAR
                continue
            if event.part is Part.FLAW:
                self._set_byte_order_mark(event)
                continue
            yield from self._break_before(event.part, previous)
            if self._is_past_all(event.start):
                yield Line(0, skipped_bytes=len(self._data) - event.start)
                return
            previous = self._take(event)
            if event.part is Part.OPEN and may_skip:
                self._fold(walk, event, is_masked=previous is Part.SCALAR)
        yield self._line

    def _fold(self, walk: Walk, opened: Event, *, is_masked: bool) -> None:
        """Skip the content of an object or array that is masked, or beyond the head and without a mark."""
        if not is_masked and self._line.number <= self._head_lines:
            return
        end = closing(self._data, opened.end)
        if is_masked:
            walk.skip_to(end)
        elif end > opened.end and not self._has_mark_before(end):
            self._add(Piece("cut", str(end - opened.end)))
            walk.skip_to(end)

    def _break_before(self, part: Part, previous: Part | None) -> Iterator[Line]:
        """End the line if the next part starts a new one."""
        if part is Part.CLOSE:
            if previous is not Part.OPEN:
                yield self._new_line(self._line.depth - 1)
            else:
                self._line.depth -= 1 if not self._line.pieces else 0
        elif previous is Part.OPEN:
            yield self._new_line(self._line.depth + 1)
        elif previous in {Part.SCALAR, Part.CLOSE}:
            self._line.pieces.append(Piece("punctuation", ","))
            yield self._new_line(self._line.depth)

    def _new_line(self, depth: int) -> Line:
        done, self._line = self._line, Line(self._line.number + 1, depth)
        return done

    def _take(self, event: Event) -> Part:
        """Set one part; returns what the line ends with now.

        A masked container counts as one value, and so does a property whose name is masked with its value.
        """
        mask = self._mask_at(event.start)
        if mask is not None:
            mark = self._mark_in(event.start, mask.end)
            self._add(Piece("mask", mask.reason, mark))
            self._shown_until = mask.end
            return Part.SCALAR
        self._text(event)
        if event.part is Part.KEY:
            self._add(Piece("punctuation", ": "))
        return event.part

    def _text(self, event: Event) -> None:
        text = self._data[event.start : event.end]
        mark = self._mark_in(event.start, event.end)
        kind = _kind(event.part, text)
        if len(text) <= LONGEST_TEXT_BYTES:
            self._runs(kind, text, mark)
        else:
            cut = len(text) - LONGEST_TEXT_BYTES
            self._runs(kind, text[: LONGEST_TEXT_BYTES - TAIL_TEXT_BYTES], mark)
            self._add(Piece("cut", str(cut), mark))
            self._runs(kind, text[-TAIL_TEXT_BYTES:], mark)
        if mark is not None and mark.note:
            self._add(Piece("note", mark.note, mark))

    def _set_byte_order_mark(self, flaw: Event) -> None:
        """Set the one flaw that is not a part of a value; the others follow as the value itself."""
        if flaw.start == 0 and self._data[: flaw.end] == b"\xef\xbb\xbf":
            self._runs("string", self._data[: flaw.end], self._mark_in(flaw.start, flaw.end))

    def _is_past_all(self, start: int) -> bool:
        """Return whether the head and every mark are behind."""
        has_mark = self._has_mark_before(len(self._data) + 1)
        return not has_mark and start > 0 and self._line.number > self._last_needed + CONTEXT_LINES

    def _has_mark_before(self, end: int) -> bool:
        """Return whether a pending mark starts before `end`."""
        return self._next_mark < len(self._marks) and self._marks[self._next_mark].start < end

    def _rest(self, at: int) -> Iterator[Line]:
        """Show the rest of the text, which is not JSON, unchanged and marked."""
        if self._line.pieces:
            yield self._new_line(self._line.depth)
        mark = self._mark_in(at, len(self._data) + 1)
        mask = self._mask_at(at)
        if mask is not None:
            self._add(Piece("mask", mask.reason, mark))
        else:
            rest = self._data[at : at + LONGEST_TEXT_BYTES]
            marked = 0 if mark is None else max(0, mark.end - at)
            self._runs("string", rest[:marked], mark)
            self._runs("string", rest[marked:], None)
            if at + LONGEST_TEXT_BYTES < len(self._data):
                self._add(Piece("cut", str(len(self._data) - at - LONGEST_TEXT_BYTES)))
        if mark is not None:
            self._add(Piece("note", mark.note, mark))
        yield self._line

    def _runs(self, kind: str, text: bytes, mark: Mark | None) -> None:
        for run, is_code in visible_runs(text):
            self._add(Piece("code" if is_code else kind, run, mark))

    def _add(self, piece: Piece) -> None:
        self._line.pieces.append(piece)
        if piece.mark is not None:
            self._line.is_marked = True
            self._last_needed = max(self._last_needed, self._line.number)

    def _mark_in(self, start: int, end: int) -> Mark | None:
        """Return the mark that overlaps these bytes; events and marks are in order."""
        found: Mark | None = None
        while self._next_mark < len(self._marks) and self._marks[self._next_mark].start < end:
            mark = self._marks[self._next_mark]
            if mark.end > start or mark.start == start:
                found = found or mark
            if mark.end > end:
                break
            self._next_mark += 1
        return found

    def _mask_at(self, start: int) -> Mask | None:
        while self._next_mask < len(self._masks) and self._masks[self._next_mask].end <= start:
            self._next_mask += 1
        if self._next_mask < len(self._masks):
            mask = self._masks[self._next_mask]
            if mask.start <= start < mask.end:
                return mask
        return None


def _kind(part: Part, text: bytes) -> str:
    if part is Part.KEY:
        return "key"
    if part is not Part.SCALAR:
        return "punctuation"
    if text[:1] == b'"':
        return "string"
    return "word" if text[:1].isalpha() else "number"


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
    """Up to 16 cells. `offset` is that of the first; None after a mask, because it would reveal the length of the masked bytes.

    `is_after_gap`: bytes before the row are omitted.
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
    """Return the parts to show as (start, end): whole rows, in order, without overlap."""
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
