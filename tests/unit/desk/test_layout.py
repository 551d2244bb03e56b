from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tidegate.gateway.http.desk.layout import (
    CONTEXT_LINES,
    MOST_MARKED_LINES,
    Line,
    MarkedBytes,
    hex_rows,
    lay_out,
)
from tidegate.gateway.http.desk.wording import visible_runs
from tidegate.gateway.streams.masking import HiddenBytes


def written(lines: list[Line]) -> list[str]:
    return [
        "  " * line.depth + "".join(piece.text for piece in line.pieces)
        if line.pieces
        else f"({line.skipped} lines, {line.skipped_bytes} bytes)"
        for line in lines
    ]


def test_one_value_a_line_with_the_bytes_as_they_are() -> None:
    data = b'{"a":1.50,"b":{"c":[true,{}],"d":[]}}'
    assert written(lay_out(data)) == [
        "{",
        '  "a": 1.50,',
        '  "b": {',
        '    "c": [',
        "      true,",
        "      {}",
        "    ],",
        '    "d": []',
        "  }",
        "}",
    ]


def test_marks_are_on_their_pieces_only() -> None:
    mark = MarkedBytes(5, 6, (1, 2))
    lines = lay_out(b'{"a":1,"b":2}', (mark,))
    assert [(piece.text, piece.mark) for line in lines for piece in line.pieces if piece.mark] == [
        ("1", mark)
    ]
    assert [line.is_marked for line in lines] == [False, True, False, False]


def test_masked_values_leave_no_byte() -> None:
    data = b'{"a":{"x":[1,2]},"b":"secret"}'
    lines = lay_out(data, (), (HiddenBytes(5, 16, "pii"), HiddenBytes(21, 29, "pii")))
    assert written(lines) == ["{", '  "a": pii,', '  "b": pii', "}"]
    assert [piece.kind for line in lines for piece in line.pieces if piece.text == "pii"] == ["mask", "mask"]


def test_the_head_and_the_surroundings_of_marks_are_kept() -> None:
    data = json.dumps(list(range(1000)), separators=(",", ":")).encode()
    at = data.index(b"700")
    shown = written(lay_out(data, (MarkedBytes(at, at + 3, (1,)),), head_lines=3))
    assert shown[:3] == ["[", "  0,", "  1,"]
    assert shown[3] == "(694 lines, 0 bytes)"
    assert shown[4:13] == [f"  {number}," for number in range(696, 705)]
    assert shown[13] == f"(0 lines, {len(data) - data.index(b'705')} bytes)"


def test_every_line_that_is_left_out_is_counted() -> None:
    data = json.dumps(list(range(1000)), separators=(",", ":")).encode()
    shown = written(lay_out(data, head_lines=3))
    assert shown == ["[", "  0,", "  1,", f"(0 lines, {len(data) - data.index(b'2')} bytes)"]


def test_marked_lines_beyond_the_most_are_counted_as_left_out() -> None:
    data = json.dumps([*range(2000)], separators=(",", ":")).encode()
    starts = [match.start() for match in re.finditer(rb"\d+", data)][:1000]
    shown = written(lay_out(data, [MarkedBytes(at, at + 1, (1,)) for at in starts], head_lines=3))
    assert shown[MOST_MARKED_LINES + 2 :] == [
        f"  {MOST_MARKED_LINES + 1},",
        f"({1000 - MOST_MARKED_LINES - 2 + CONTEXT_LINES} lines, 0 bytes)",
        f"(0 lines, {len(data) - data.index(b'1004')} bytes)",
    ]


def test_past_the_head_objects_without_a_mark_are_one_line() -> None:
    data = json.dumps([{"i": at} for at in range(100)], separators=(",", ":")).encode()
    at = data.index(b":90") + 1
    shown = written(lay_out(data, (MarkedBytes(at, at + 2, (1,)),), head_lines=2))
    assert shown[-9:-1] == ["  {6},", "  {6},", "  {", '    "i": 90', "  },", "  {6},", "  {6},", "  {6},"]


def test_the_length_of_a_masked_value_is_not_told() -> None:
    def shown(name: str, marked: int) -> list[str]:
        rows: list[object] = [{"i": at} for at in range(100)]
        rows[50] = {"name": name, "i": 50}
        data = json.dumps(rows).encode()
        start = data.index(b'"' + name.encode())
        at = data.index(b" %d}" % marked) + 1
        mark = MarkedBytes(at, at + 1, (1,))
        return written(
            lay_out(data, (mark,), (HiddenBytes(start, start + len(name) + 2, "pii"),), head_lines=2)
        )

    # The value is in the end that is left out, or in an object that is one line.
    assert [shown("Li", marked) == shown("Bartholomew", marked) for marked in (20, 52)] == [True, True]


def test_masks_are_not_counted_anew_for_each_object_that_is_one_line() -> None:
    class Counted(list[HiddenBytes]):
        passes = 0

        def __iter__(self) -> Iterator[HiddenBytes]:
            self.passes += 1
            return super().__iter__()

    data = b"[" + b",".join([b'{"name":7}'] * 1_000) + b"]"
    masks = Counted(HiddenBytes(at, at + 1, "pii") for at in range(9, len(data), 11))
    shown = written(lay_out(data, (MarkedBytes(len(data) - 3, len(data) - 2, (1,)),), masks, head_lines=2))
    assert shown[-6:-4] == ["  {7},"] * 2  # of eight bytes, one is masked
    assert masks.passes < 5


def test_what_is_no_json_follows_as_it_is() -> None:
    mark = MarkedBytes(7, 10, (1,), "expected something else")
    lines = lay_out(b'{"a":1 oops}', (mark,))
    assert written(lines) == ["{", '  "a": 1', "  oops}expected something else"]
    assert [(piece.text, piece.kind) for piece in lines[-1].pieces if piece.mark] == [
        ("oop", "string"),
        ("expected something else", "note"),
    ]


def test_long_texts_are_cut_in_the_middle() -> None:
    (line,) = lay_out(b'"' + b"a" * 1000 + b'"')
    assert [(piece.kind, len(piece.text)) for piece in line.pieces] == [
        ("string", 280),
        ("cut", 3),
        ("string", 80),
    ]
    assert line.pieces[1].text == "642"


def test_what_cannot_be_seen_is_shown_by_its_code() -> None:
    assert visible_runs("a\u202eb\x00\n\u200b".encode() + b"\xff\xc3") == [
        ("a", False),
        ("U+202E", True),
        ("b", False),
        ("U+0000", True),
        ("\\n", True),
        ("U+200B", True),
        ("\\xff", True),
        ("\\xc3", True),
    ]
    assert visible_runs("naïve שלום 日本".encode()) == [("naïve שלום 日本", False)]


def test_hexadecimal_rows_mark_and_mask_bytes() -> None:
    rows, is_cut = hex_rows(b"0123456789abcdefXYZ", (MarkedBytes(1, 3, (1,)),), (HiddenBytes(4, 12, "pii"),))
    assert not is_cut
    assert [row.offset for row in rows] == [0]
    assert "".join(cell.character or "_" for cell in rows[0].cells) == "0123_cdefXYZ"
    assert [cell.digits for cell in rows[0].cells if cell.is_marked] == ["31", "32"]


def test_hexadecimal_rows_are_bounded() -> None:
    data = bytes(range(256)) * 1000
    rows, is_cut = hex_rows(data, (MarkedBytes(200_000, 200_004, (1,)),), ())
    assert is_cut
    assert [row.offset for row in rows if row.is_after_gap] == [199_968]
    assert len(rows) == 32 + 5


def test_offsets_after_a_mask_are_not_told() -> None:
    rows, _ = hex_rows(bytes(64), (), (HiddenBytes(20, 30, "pii"),))
    assert [row.offset for row in rows] == [0, 16, None, None]
