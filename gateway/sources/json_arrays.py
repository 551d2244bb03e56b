"""Elements of one JSON array, such as a file of records in brackets: streamed, so that its size does not matter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.sources.source import LONGEST_RECORD

_BLOCK: Final = 1 << 20
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\],]', re.DOTALL)
"""A whole string, whose brackets do not count; a quote that begins a string without an end; a character of structure."""
_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")
_OPEN: Final = ord("[")
_WHITE: Final = b" \t\r\n"


def array_elements(stream: BinaryIO, name: str) -> Iterator[list[bytes]]:
    """Yield the elements of a JSON array as bytes, some at a time. They may be invalid JSON themselves.

    Raises SettingsError if the text ends within the array or goes on after it, or an element is longer than
    LONGEST_RECORD.
    """
    splitter = _Splitter()
    while not splitter.is_over:
        if len(splitter.buffer) > LONGEST_RECORD:
            raise SettingsError(f"{name} has an element of more than {LONGEST_RECORD:,} bytes")
        # An incomplete string is read again, so at least as many bytes are added as there are.
        block = stream.read(max(_BLOCK, len(splitter.buffer)))
        if not block:
            raise SettingsError(f"{name} ends within its JSON array")
        splitter.buffer += block
        yield splitter.elements()
    rest = iter(lambda: stream.read(_BLOCK), b"")
    if splitter.buffer.strip(_WHITE) or any(block.strip(_WHITE) for block in rest):
        raise SettingsError(f"{name} goes on after the end of its JSON array; is each of its lines a record?")


class _Splitter:
    """Splits an array into elements. `buffer` has what has been read and is not yet split."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.is_over = False
        self._at = 0
        self._depth = -1
        """Number of open brackets within the array; -1 before it."""

    def elements(self) -> list[bytes]:
        """Return the elements that are complete, and remove them from the buffer."""
        found: list[bytes] = []
        start = 0
        for token in _TOKEN.finditer(self.buffer, self._at):
            byte = self.buffer[token.start()]
            if byte == _QUOTE:
                if token.end() - token.start() == 1:
                    break  # the rest of the string comes with the next block
            elif self._is_end(byte):
                element = bytes(self.buffer[start : token.start()]).strip(_WHITE)
                if element or byte == _COMMA:
                    found.append(element)
                start = token.end()
            elif self._depth == 0 and byte == _OPEN:
                start = token.end()  # the array begins
            self._at = token.end()
            if self.is_over:
                break
        del self.buffer[:start]
        self._at -= start
        return found

    def _is_end(self, byte: int) -> bool:
        """Follow a bracket or comma; return whether an element ends before it."""
        if byte in b"{[":
            self._depth += 1
            return False
        if byte == _COMMA:
            return self._depth == 0
        self.is_over = self._depth == 0
        self._depth -= 1
        return self.is_over
