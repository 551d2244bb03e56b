"""Layout of a record's bytes for display, limited in size: as JSON with one value per line, and in hexadecimal.

The layout shows marks and masks in place. Values appear as in the record's bytes. Commas, colons and whitespace are
normalized.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice

from tidegate.gateway.http.desk.wording import visible_runs
from tidegate.gateway.streams.json_walk import Event, JsonEvent, Walk, closing, is_json
from tidegate.gateway.streams.masking import HiddenBytes

HEAD_LINES = 40
CONTEXT_LINES = 4
MOST_MARKED_LINES = 360
LONGEST_TEXT_BYTES = 360
TAIL_TEXT_BYTES = 80
MOST_INDENT = 12


@dataclass(frozen=True, slots=True)
class MarkedBytes:
    """A span of bytes to mark. An empty span marks a position between bytes.

    `violations` are their numbers on the page, starting at 1. `note` is shown at the mark.
    """

    start: int
    end: int
    violations: tuple[int, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text of one kind: key, string, number, word, punctuation, code, mask, cut or note.

    The text of a `cut` is the number of omitted bytes, without masked ones; that of a `mask` is the reason for the mask.
    """

    kind: str
    text: str
    mark: MarkedBytes | None = None


@dataclass(slots=True)
class Line:
    """One line; `depth` is the number of enclosing objects and arrays.

    A line with the number 0 is a gap: it replaces `skipped` lines, or the end of the record: `skipped_bytes`, without
    masked ones.
    """

    number: int
    depth: int = 0
    pieces: list[Piece] = field(default_factory=list)
    is_marked: bool = False
    skipped: int = 0
    skipped_bytes: int = 0

    @property
    def indent(self) -> int:
        """Return the level of indentation, limited so that deeply nested records fit on the page."""
        return min(self.depth, MOST_INDENT)


def lay_out(
    data: bytes,
    marks: Sequence[MarkedBytes] = (),
    masks: Sequence[HiddenBytes] = (),
    *,
    head_lines: int = HEAD_LINES,
) -> list[Line]:
    """Return a limited number of lines of a JSON record: its head, and the lines around its marks.

    `marks` and `masks` are sorted by start; masks do not overlap, and of overlapping marks only the first is shown.
    `data` may be any bytes: from the position where it is no longer JSON, the rest is shown unchanged. After the head,
    objects and arrays without a mark are one line each.
    """
    return _keep(_Typesetter(data, marks, masks, head_lines).lines(), head_lines)


def _keep(lines: Iterator[Line], head_lines: int) -> list[Line]:
    """Return the head and the lines around marked lines, with gaps for the omitted lines."""
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
            if skipped:
                kept.append(Line(0, skipped=skipped))
            kept.append(line)
            skipped = 0
        else:
            recent.append(line)
            skipped += 1
    if skipped:
        kept.append(Line(0, skipped=skipped))
    return kept


class _Typesetter:
    """The conversion of the events of one record's walk into lines."""

    def __init__(
        self, data: bytes, marks: Sequence[MarkedBytes], masks: Sequence[HiddenBytes], head_lines: int
    ) -> None:
        self._data = data
        self._marks = marks
        self._masks = masks
        # A hostile record has tens of thousands of masks and of folded objects: each fold looks up two positions.
        self._mask_starts = [mask.start for mask in masks]
        self._masked_until = [0, *accumulate(mask.end - mask.start for mask in masks)]
        self._head_lines = head_lines
        self._next_mark = 0
        self._next_mask = 0
        self._line = Line(1)
        self._shown_until = 0
        self._last_needed = head_lines - CONTEXT_LINES  # lines after the head are no context of it

    def lines(self) -> Iterator[Line]:
        """Yield the lines of the record; stop early after the head and the last mark."""
        walk = Walk(self._data)
        may_fold = is_json(self._data)  # only then is the closing bracket found without a walk
        previous: JsonEvent | None = None
        for event in walk:
            if event.part is JsonEvent.STOP and event.start >= self._shown_until:
                yield from self._rest(event.start)
                return
            if event.start < self._shown_until:  # inside of a masked value
                previous = JsonEvent.SCALAR
                continue
            if event.part is JsonEvent.FLAW:
                self._show_byte_order_mark(event)
                continue
            yield from self._break_before(event.part, previous)
            if self._is_past_all(event.start):
                yield Line(0, skipped_bytes=self._readable_bytes(event.start, len(self._data)))
                return
            previous = self._take(event)
            if event.part is JsonEvent.OPEN and may_fold:
                self._fold(walk, event, is_masked=previous is JsonEvent.SCALAR)
        yield self._line

    def _fold(self, walk: Walk, opened: Event, *, is_masked: bool) -> None:
        """Skip the content of an object or array that is masked, or that is after the head and has no mark."""
        if not is_masked and self._line.number <= self._head_lines:
            return
        end = closing(self._data, opened.end)
        if is_masked:
            walk.skip_to(end)
        elif end > opened.end and not self._has_mark_before(end):
            self._add(Piece("cut", str(self._readable_bytes(opened.end, end))))
            walk.skip_to(end)

    def _readable_bytes(self, start: int, end: int) -> int:
        """Count bytes without masked ones: with them, the count would reveal how long a hidden value is."""
        return end - start - (self._masked_before(end) - self._masked_before(start))

    def _masked_before(self, at: int) -> int:
        """Count the masked bytes before a position."""
        index = bisect_right(self._mask_starts, at)
        if index == 0:
            return 0
        last = self._masks[index - 1]
        return self._masked_until[index - 1] + min(at, last.end) - last.start

    def _break_before(self, part: JsonEvent, previous: JsonEvent | None) -> Iterator[Line]:
        """Yield the current line if the next part starts a new one."""
        if part is JsonEvent.CLOSE:
            if previous is not JsonEvent.OPEN:
                yield self._new_line(self._line.depth - 1)
            else:
                self._line.depth -= 1 if not self._line.pieces else 0
        elif previous is JsonEvent.OPEN:
            yield self._new_line(self._line.depth + 1)
        elif previous in {JsonEvent.SCALAR, JsonEvent.CLOSE}:
            self._line.pieces.append(Piece("punctuation", ","))
            yield self._new_line(self._line.depth)

    def _new_line(self, depth: int) -> Line:
        done, self._line = self._line, Line(self._line.number + 1, depth)
        return done

    def _take(self, event: Event) -> JsonEvent:
        """Add one part to the line; return the kind of part that the line now ends with.

        A masked container counts as one scalar, and so does a property whose name and value are masked together.
        """
        mask = self._mask_at(event.start)
        if mask is not None:
            mark = self._mark_in(event.start, mask.end)
            self._add(Piece("mask", mask.reason, mark))
            self._shown_until = mask.end
            return JsonEvent.SCALAR
        self._text(event)
        if event.part is JsonEvent.KEY:
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

    def _show_byte_order_mark(self, flaw: Event) -> None:
        """Show a byte order mark, the only flaw that is not part of a value; others are shown with their value."""
        if flaw.start == 0 and self._data[: flaw.end] == b"\xef\xbb\xbf":
            self._runs("string", self._data[: flaw.end], self._mark_in(flaw.start, flaw.end))

    def _is_past_all(self, start: int) -> bool:
        """Return whether the head and all marks have been shown, with context."""
        has_mark = self._has_mark_before(len(self._data) + 1)
        return not has_mark and start > 0 and self._line.number > self._last_needed + CONTEXT_LINES

    def _has_mark_before(self, end: int) -> bool:
        """Return whether the next mark that is not yet shown starts before `end`."""
        return self._next_mark < len(self._marks) and self._marks[self._next_mark].start < end

    def _rest(self, at: int) -> Iterator[Line]:
        """Yield the rest of the text, which is not JSON, unchanged and marked."""
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

    def _runs(self, kind: str, text: bytes, mark: MarkedBytes | None) -> None:
        for run, is_code in visible_runs(text):
            self._add(Piece("code" if is_code else kind, run, mark))

    def _add(self, piece: Piece) -> None:
        self._line.pieces.append(piece)
        if piece.mark is not None:
            self._line.is_marked = True
            self._last_needed = max(self._last_needed, self._line.number)

    def _mark_in(self, start: int, end: int) -> MarkedBytes | None:
        """Return the first mark that overlaps these bytes, or None. Calls must be in the order of the bytes."""
        found: MarkedBytes | None = None
        while self._next_mark < len(self._marks) and self._marks[self._next_mark].start < end:
            mark = self._marks[self._next_mark]
            if mark.end > start or mark.start == start:
                found = found or mark
            if mark.end > end:
                break
            self._next_mark += 1
        return found

    def _mask_at(self, start: int) -> HiddenBytes | None:
        while self._next_mask < len(self._masks) and self._masks[self._next_mask].end <= start:
            self._next_mask += 1
        if self._next_mask < len(self._masks):
            mask = self._masks[self._next_mask]
            if mask.start <= start < mask.end:
                return mask
        return None


def _kind(part: JsonEvent, text: bytes) -> str:
    if part is JsonEvent.KEY:
        return "key"
    if part is not JsonEvent.SCALAR:
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
    """One byte: two hexadecimal digits and the ASCII character. A masked value of any length is one empty cell."""

    digits: str
    character: str
    is_marked: bool


@dataclass(frozen=True, slots=True)
class ByteRow:
    """A row of up to 16 cells. `is_after_gap`: bytes before the row are omitted.

    `offset` is that of the first cell. It is None after a mask, because it would reveal the length of the masked value.
    """

    offset: int | None
    cells: tuple[Cell, ...]
    is_after_gap: bool


def hex_rows(
    data: bytes, marks: Sequence[MarkedBytes], masks: Sequence[HiddenBytes]
) -> tuple[list[ByteRow], bool]:
    """Return the rows to show, at most MOST_ROWS, and whether bytes after the last row are omitted."""
    rows = list(islice(_rows(data, marks, masks), MOST_ROWS + 1))
    windows = _windows(data, marks)
    return rows[:MOST_ROWS], len(rows) > MOST_ROWS or (bool(windows) and windows[-1][1] < len(data))


def _windows(data: bytes, marks: Sequence[MarkedBytes]) -> list[tuple[int, int]]:
    """Return the byte ranges to show as (start, end): whole rows, in order, without overlap."""
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


def _rows(data: bytes, marks: Sequence[MarkedBytes], masks: Sequence[HiddenBytes]) -> Iterator[ByteRow]:
    first_mask = masks[0].start if masks else len(data)
    shown_until = 0
    for start, end in _windows(data, marks):
        cells = _cells(data, (start, end), marks, masks)
        at = start
        while row := tuple(islice(cells, ROW_BYTES)):
            yield ByteRow(at if at <= first_mask else None, row, at == start and start > shown_until)
            at += len(row)
        shown_until = end


def _cells(
    data: bytes, window: tuple[int, int], marks: Sequence[MarkedBytes], masks: Sequence[HiddenBytes]
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
