"""Shapes of texts, such as `A000000000` for a capital letter and nine digits, and patterns of a few shapes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_MOST_SHAPES: Final = 48
_LONGEST: Final = 40
_CLASSES: Final = {"0": "[0-9]", "A": "[A-Z]", "a": "[a-z]"}


def _table() -> npt.NDArray[np.uint8]:
    table = np.arange(256, dtype=np.uint8)
    for first, last, name in (("0", "9", "0"), ("A", "Z", "A"), ("a", "z", "a")):
        table[ord(first) : ord(last) + 1] = ord(name)
    return table


_TABLE: Final = _table()


@dataclass(slots=True)
class TextShape:
    """The texts of one shape: how many records have one, and how often each byte occurs at each index."""

    count: int
    bytes_at: npt.NDArray[np.int64] = field(repr=False)


class Shapes:
    """The shapes of the texts of a field; given up if there are too many, or if a text is long or not ASCII."""

    def __init__(self) -> None:
        self.found: dict[str, TextShape] = {}
        self.is_free = False
        """Whether the shapes were given up, so that there is no pattern."""

    def add(self, labels: pa.Array, counts: npt.NDArray[np.int64]) -> None:
        """Add distinct texts, with the number of records that have each."""
        if self.is_free:
            return
        if (
            pc.max(pc.binary_length(labels)).as_py() > _LONGEST
            or not pc.all(pc.string_is_ascii(labels)).as_py()
        ):
            self._give_up()
            return
        _, offset_buffer, data = labels.buffers()
        text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        translated = pa.py_buffer(_TABLE[text])
        offsets = np.frombuffer(offset_buffer, np.int32)[labels.offset : labels.offset + len(labels) + 1]
        shapes = pa.StringArray.from_buffers(
            len(labels), offset_buffer, translated, offset=labels.offset
        ).dictionary_encode()
        if len(shapes.dictionary) > _MOST_SHAPES:
            self._give_up()
            return
        codes = shapes.indices.to_numpy()
        for code, shape in enumerate(shapes.dictionary.to_pylist()):
            members = np.flatnonzero(codes == code)
            known = self.found.get(shape)
            if known is None:
                known = self.found[shape] = TextShape(0, np.zeros((len(shape), 256), np.int64))
            known.count += int(counts[members].sum())
            for at in range(len(shape)):
                known.bytes_at[at] += np.bincount(
                    text[offsets[members] + at], weights=counts[members], minlength=256
                ).astype(np.int64)
        if len(self.found) > _MOST_SHAPES:
            self._give_up()

    def merge(self, other: Shapes) -> None:
        """Add the shapes of other records."""
        if self.is_free or other.is_free:
            self._give_up()
            return
        for name, shape in other.found.items():
            known = self.found.get(name)
            if known is None:
                self.found[name] = shape
            else:
                known.count += shape.count
                known.bytes_at += shape.bytes_at
        if len(self.found) > _MOST_SHAPES:
            self._give_up()

    def _give_up(self) -> None:
        self.is_free, self.found = True, {}


def pattern_of(shapes: dict[str, TextShape], *, literals: bool = True) -> str | None:
    """Return an anchored pattern that all texts of the shapes match; None if there is no useful one.

    With `literals`, a character that all texts share at an index is part of the pattern.
    """
    if not shapes or "" in shapes:
        return None
    runs = {tuple((name, len(list(group))) for name, group in groupby(shape)) for shape in shapes}
    kinds = {tuple(name for name, _ in run) for run in runs}
    if len(kinds) == 1:
        return _same_runs(shapes, sorted(runs), literals=literals)
    return _prefix_and_class(shapes, literals=literals)


def _same_runs(
    shapes: dict[str, TextShape], runs: list[tuple[tuple[str, int], ...]], *, literals: bool
) -> str:
    """Return the pattern of shapes that differ only in the lengths of their runs, such as AA0 and AA00."""
    parts = []
    for index, (name, _) in enumerate(runs[0]):
        lengths = sorted({run[index][1] for run in runs})
        # Only the first run begins at the same index in all shapes.
        fixed = _literal(shapes, 0) if literals and index == 0 else None
        if literals and len(runs) == 1:
            start = sum(length for _, length in runs[0][:index])
            parts.append(_run(shapes, name, start, lengths[0]))
        elif fixed is not None and lengths == [1]:
            parts.append(_plain(fixed))
        else:
            parts.append(_CLASSES.get(name, _plain(name)) + _times(lengths[0], lengths[-1]))
    return f"^{''.join(parts)}$"


def _run(shapes: dict[str, TextShape], name: str, start: int, length: int) -> str:
    """Return the pattern of one run of a single shape: letters that are the same in all texts are literal.

    Digits are not, because the leading digits of sequential ids are equal only for some time.
    """
    if name not in _CLASSES:
        return _plain(name * length)
    if name == "0":
        return _CLASSES[name] + _times(length, length)
    parts = [_literal(shapes, at) for at in range(start, start + length)]
    texts = []
    for literal, group in groupby(parts):
        number = len(list(group))
        texts.append(
            _plain(literal * number) if literal is not None else _CLASSES[name] + _times(number, number)
        )
    return "".join(texts)


def _literal(shapes: dict[str, TextShape], at: int) -> str | None:
    """Return the character that all texts have at an index; None if they differ or it is a digit."""
    found = {int(code) for shape in shapes.values() for code in np.flatnonzero(shape.bytes_at[at])}
    character = chr(found.pop()) if len(found) == 1 else "0"
    return None if character.isdigit() else character


def _prefix_and_class(shapes: dict[str, TextShape], *, literals: bool) -> str | None:
    """Return a pattern of a common prefix and one class for other characters; None if there is no simple class."""
    shortest = min(map(len, shapes))
    prefix = ""
    while literals and len(prefix) < shortest and (found := _literal(shapes, len(prefix))) is not None:
        prefix += found
    rest = set("".join(shape[len(prefix) :] for shape in shapes))
    others = rest - _CLASSES.keys()
    if not others <= set("-_./: ") or not rest:
        return None
    ranges = [("0", "0-9"), ("A", "A-Z"), ("a", "a-z")]
    members = "".join(text for name, text in ranges if name in rest)
    members += "".join(_plain(each) for each in sorted(others - {"-"})) + ("-" if "-" in others else "")
    lengths = [len(shape) - len(prefix) for shape in shapes]
    return f"^{_plain(prefix)}[{members}]{_times(min(lengths), max(lengths))}$"


def _times(least: int, most: int) -> str:
    if least == most:
        return "" if least == 1 else f"{{{least}}}"
    return f"{{{least},{most}}}"


def _plain(text: str) -> str:
    return re.sub(r"[.^$*+?{}\[\]\\|()]", r"\\\g<0>", text)
