"""Makes text from a record harmless and honest to look at: what cannot be seen is shown by its code."""

from __future__ import annotations

import re

_UNSEEN = re.compile(
    "([\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f"
    "\u205f-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff])"
)
"""Controls, invisible and bidirectional formatting characters, odd spaces, noncharacters, undecodable bytes."""
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible_runs(data: bytes, *, keep_newlines: bool = False) -> list[tuple[str, bool]]:
    r"""Split UTF-8 text into runs of (text, is_code); a code such as U+202E or \xff stands for what cannot be seen.

    Bytes that are not UTF-8 become `\xNN`. With `keep_newlines` a line feed stays a line feed.
    """
    runs: list[tuple[str, bool]] = []
    for index, part in enumerate(_UNSEEN.split(data.decode("utf-8", "surrogateescape"))):
        if keep_newlines and part == "\n":
            runs.append((part, False))
        elif part:
            runs.append((_code(part), True) if index % 2 else (part, False))
    return runs


def visible_text(data: bytes) -> str:
    """Return the same as one string."""
    return "".join(text for text, _ in visible_runs(data))


def _code(character: str) -> str:
    point = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if 0xDC80 <= point <= 0xDCFF:  # surrogateescape: the low byte is the byte that is not UTF-8
        return f"\\x{point - 0xDC00:02x}"
    return f"U+{point:04X}"
