"""Write JSON data as readable YAML that `read_yaml` reads back as the same data.

The library's emitter writes only 70 kB per second, and documents have up to a megabyte. Source: YAML 1.2.2, chapters 7
and 8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_PLAIN: Final = re.compile(r"(?:[A-Za-z][\w./-]*|/[\w./*~-]*)(?: [\w./*-]+)*|\d+\.\d+\.\d+", re.ASCII)
_WORDS_OF_YAML_1_1: Final = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
)  # readers of YAML 1.1 do not read these as text
_SHORT: Final = 80


def write_yaml(document: Mapping[str, Any]) -> str:
    """Return a JSON object as YAML in block style, with its members in order and short lists on one line."""
    return "".join(f"{line}\n" for line in _mapping(document)) if document else "{}\n"


def _mapping(members: Mapping[str, Any]) -> Iterator[str]:
    for name, value in members.items():
        head = f"{_text(name)}:"
        short = _short(value)
        if short is not None:
            yield f"{head} {short}"
            continue
        yield head
        lines = _mapping(value) if isinstance(value, Mapping) else _items(value)
        yield from (f"  {line}" for line in lines)


def _items(items: Sequence[Any]) -> Iterator[str]:
    for item in items:
        short = _short(item)
        if short is not None:
            yield f"- {short}"
            continue
        lines = _mapping(item) if isinstance(item, Mapping) else _items(item)
        for index, line in enumerate(lines):
            yield f"{'  ' if index else '- '}{line}"


def _short(value: Any) -> str | None:
    """Return a scalar, an empty collection or a short list of scalars as one line; None for anything longer."""
    if isinstance(value, Mapping):
        return None if value else "{}"
    if isinstance(value, str) or not isinstance(value, Sequence):
        return _scalar(value)
    if any(isinstance(each, Mapping | list | tuple) for each in value):
        return None
    line = f"[{', '.join(map(_scalar, value))}]"
    return line if len(line) < _SHORT else None


def _scalar(value: Any) -> str:
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    is_plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS_OF_YAML_1_1
    # A JSON string is also a double-quoted YAML scalar. Text with unprintable characters is escaped.
    return text if is_plain else json.dumps(text, ensure_ascii=not text.isprintable())
