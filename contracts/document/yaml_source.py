"""A YAML reader that keeps positions: the core schema of YAML 1.2, one document, no tags, bounded aliases.

Dates and times are read as strings. Source: YAML 1.2.2, section 10.3.2 (tag resolution).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from tidegate.contracts.document.source import (
    MAX_DEPTH,
    Leaf,
    Node,
    Place,
    SourceDocument,
    SourceEntries,
    SourceItems,
    exact_number,
    resolve,
    syntax_error,
)

_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_RADIX = re.compile(r"0o[0-7]{1,64}|0x[0-9a-fA-F]{1,64}")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_STRING_TAGS = {None, "tag:yaml.org,2002:str", "!"}


def read_yaml(name: str, text: str) -> SourceDocument:
    """Read one YAML document; `name` is in messages. Raises ContractError unless it is YAML.

    Duplicate keys do not raise: they are in the `problems` of the source.
    """
    # Use the pure Python parser, because the C parser does not support YAML 1.2.
    reader = _Reader(name, YAML(typ="safe", pure=True).parse(text))
    try:
        return resolve(name, reader.read())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        raise syntax_error(name, place, f"not YAML: {_sentence(error)}") from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        message = f"not YAML: the character U+{ord(text[error.position]):04X} is not allowed"
        raise syntax_error(name, Place(line, column), message) from None
    except (YAMLError, ValueError, AssertionError) as error:
        # For some mistakes, such as an escape beyond Unicode, the parser raises errors of Python itself.
        raise syntax_error(name, reader.place, f"not YAML after this: {error}") from None


class _Reader:
    def __init__(self, name: str, events: Iterator[Any]) -> None:
        self._name = name
        self._events = events
        self._anchors: dict[str, Node] = {}
        self.place = Place(1, 1)
        """Where the last node began, for errors without a position."""

    def read(self) -> Node:
        root: Node | None = None
        for event in self._events:
            match event:
                case DocumentStartEvent() if root is not None:
                    raise self._error(event, "a second document; put each contract into a file of its own")
                case DocumentStartEvent() if event.version not in {None, (1, 2)}:
                    raise self._error(event, "only YAML 1.2 is read; remove the %YAML line")
                case ScalarEvent() | AliasEvent() | SequenceStartEvent() | MappingStartEvent():
                    root = self._node(event, depth=1)
        if root is None:
            raise syntax_error(self._name, Place(1, 1), "the document is empty")
        return root

    def _node(self, event: Any, depth: int) -> Node:
        self.place = _place(event)
        if depth > MAX_DEPTH:
            raise self._error(event, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, AliasEvent):
            if event.anchor not in self._anchors:
                raise self._error(event, f"alias *{event.anchor} stands before the end of its anchor")
            return self._anchors[event.anchor]
        node = self._fresh(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _fresh(self, event: Any, depth: int) -> Node:
        tag = None if event.tag is None else str(event.tag)
        if tag not in _STRING_TAGS or (tag is not None and not isinstance(event, ScalarEvent)):
            raise self._error(event, f"the tag {tag} is not read; write the plain value")
        match event:
            case ScalarEvent():
                return self._scalar(event, is_text=tag is not None or event.style is not None)
            case SequenceStartEvent():
                return SourceItems(_place(event), list(self._children(depth)))
            case _:
                return SourceEntries(_place(event), list(self._pairs(depth)))

    def _children(self, depth: int) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, SequenceEndEvent | MappingEndEvent):
                return
            yield self._node(event, depth + 1)

    def _pairs(self, depth: int) -> Iterator[tuple[Leaf, Node]]:
        children = self._children(depth)
        for key in children:
            if not isinstance(key, Leaf):
                raise syntax_error(self._name, key.place, "a key must be a plain word, not a list or mapping")
            value = next(children)
            if isinstance(value, Leaf) and not value.written:
                # The value is empty, and the parser locates it on the next line. Use the place of its key.
                value = replace(value, place=key.place)
            yield key, value

    def _scalar(self, event: Any, *, is_text: bool) -> Leaf:
        text = _joined(str(event.value))
        return Leaf(_place(event), text if is_text else self._plain(event, text), text)

    def _plain(self, event: Any, text: str) -> str | float | bool | None:
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _RADIX.fullmatch(text):
            return int(text, base=0)
        if _NOT_FINITE.fullmatch(text):
            raise self._error(
                event, f"{text} is not a number that a record can hold; quote it if text is meant"
            )
        if not _DECIMAL.fullmatch(text):
            return text
        number = exact_number(text)
        if number is None:
            raise self._error(event, f"the number {text:.40} cannot be kept exactly")
        return number

    def _error(self, event: Any, message: str) -> Exception:
        return syntax_error(self._name, _place(event), message)


def _place(event: Any) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


def _joined(text: str) -> str:
    r"""Join escaped surrogate pairs such as "\ud83d\ude00", as JSON does; the YAML parser does not."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _sentence(error: MarkedYAMLError) -> str:
    parts = (error.context, error.problem)
    return ", ".join(str(part) for part in parts if part)
