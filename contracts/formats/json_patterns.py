r"""Rewriting of patterns so that Rust's regular expressions give them the meaning of ECMA-262.

jsonschema-rs translates `\d`, `\w` and `\s`, except in a pattern with look-around: there they match digits and letters
of all scripts. It never translates `\b`, which then uses the letters of all scripts. Nor does it translate `.`, which
then also matches a carriage return and the separators of lines and paragraphs.

Source: ECMA-262, section 22.2: CharacterClassEscape, LineTerminator, IsWordChar.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tidegate.contracts.formats.json_keywords import subschemas_changed

_ANY: Final = "[^\\n\\r\u2028\u2029]"
_WORD: Final = "[A-Za-z0-9_]"
_BORDERS: Final = {"b": "(?-u:\\b)", "B": "(?-u:\\B)"}
_LOOKAROUND_BORDERS: Final = {
    "b": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
    "B": f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))",
}
"""The replacements for the engine with look-around, which does not support `(?-u:...)`."""
_LAST: Final = "\U0010ffff"
_CLASSES: Final = {
    "d": "0-9",
    "D": f"\\x00-/:-{_LAST}",
    "w": "A-Za-z0-9_",
    "W": f"\\x00-/:-@\\[-\\^`\\{{-{_LAST}",
    "s": "\\t-\\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
    "S": (
        "\\x00-\\x08\\x0e-\\x1f!-\u009f\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
        f"\u3001-\ufefe\uff00-{_LAST}"
    ),
}


class EcmaPatterns:
    """Rewrites the patterns of a schema for one engine, and maps rewritten patterns back to the originals."""

    def __init__(self, *, with_lookaround: bool) -> None:
        self._with_lookaround = with_lookaround
        self._borders = _LOOKAROUND_BORDERS if with_lookaround else _BORDERS
        self._originals: dict[str, str] = {}

    def original(self, pattern: str) -> str:
        """Return the original of a rewritten pattern; any other pattern unchanged."""
        return self._originals.get(pattern, pattern)

    def restored(self, message: str) -> str:
        """Return a message with rewritten patterns, which it quotes as JSON, replaced by their originals."""
        for written, pattern in self._originals.items():
            message = message.replace(
                json.dumps(written, ensure_ascii=False), json.dumps(pattern, ensure_ascii=False)
            )
        return message

    def rewritten(self, schema: Any) -> Any:
        """Return a schema with its patterns rewritten.

        Only subschemas of `patternProperties` move, so that a `$ref` to any other one still resolves.
        """
        return subschemas_changed(schema, self._change)

    def _change(self, schema: dict[str, Any]) -> dict[str, Any]:
        changed = dict(schema)
        if isinstance(pattern := schema.get("pattern"), str):
            changed["pattern"] = self.pattern(pattern)
        if isinstance(by_pattern := schema.get("patternProperties"), dict):
            together: dict[str, Any] = {}
            for pattern, part in by_pattern.items():
                written = self.pattern(pattern)
                together[written] = {"allOf": [together[written], part]} if written in together else part
            changed["patternProperties"] = together
        return changed

    def pattern(self, pattern: str) -> str:
        """Return one pattern rewritten, and remember its original."""
        written = "".join(self._pieces(pattern))
        if written != pattern:
            self._originals[written] = pattern
        return written

    def _pieces(self, pattern: str) -> list[str]:
        pieces: list[str] = []
        at, in_class = 0, False
        while at < len(pattern):
            piece = pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
            at += len(piece)
            if in_class and self._with_lookaround and piece[1:] in _CLASSES and len(piece) > 1:
                # A hyphen next to a class is literal; unescaped, it would form a range with the class's replacement.
                if pieces[-1] == "-":
                    pieces[-1] = "\\-"
                pieces.append(_CLASSES[piece[1]])
                if pattern.startswith("-", at) and not pattern.startswith("-]", at):
                    pieces.append("\\-")
                    at += 1
                continue
            pieces.append(piece if in_class else self._outside(piece))
            in_class = piece != "]" if in_class else piece == "["
        return pieces

    def _outside(self, piece: str) -> str:
        """Return a character or an escape outside of a class rewritten."""
        if piece == ".":
            return _ANY
        escaped = piece[1:]
        if self._with_lookaround and escaped in _CLASSES:
            return f"[{_CLASSES[escaped]}]"
        return self._borders.get(escaped, piece)
