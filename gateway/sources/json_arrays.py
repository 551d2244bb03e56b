"""Stream the elements of one JSON array, such as a file of records in brackets, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.sources.source import LONGEST_RECORD

_BLOCK: Final = 1 << 20
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\],]', re.DOTALL)
"""Matches a whole string, a quote that begins an incomplete string, or a structural character. So brackets in
strings do not count."""
_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")
_OPEN: Final = ord("[")
_WHITE: Final = b" \t\r\n"


def array_elements(stream: BinaryIO, name: str) -> Iterator[list[bytes]]:
    """Yield lists of array elements as bytes. The elements are not validated as JSON.

    Raises SettingsError if the text ends within the array or continues after it, or an element is longer than
    LONGEST_RECORD.
    """
    splitter = _Splitter()
    while not splitter.is_over:
        if len(splitter.buffer) > LONGEST_RECORD:
            raise SettingsError(f"{name} has an element of more than {LONGEST_RECORD:,} bytes")
        # An incomplete string is scanned again, so the buffer at least doubles to keep the total cost linear.
        block = stream.read(max(_BLOCK, len(splitter.buffer)))
        if not block:
            raise SettingsError(f"{name} ends within its JSON array")
        splitter.buffer += block
        yield splitter.elements()
    rest = iter(lambda: stream.read(_BLOCK), b"")
    if splitter.buffer.strip(_WHITE) or any(block.strip(_WHITE) for block in rest):
        raise SettingsError(f"{name} goes on after the end of its JSON array; is each of its lines a record?")


class _Splitter:
    """A splitter of an array into elements. `buffer` has the bytes that are read and not yet split."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.is_over = False
        self._at = 0
        self._depth = -1
        """The number of open brackets within the array; -1 before the array."""

    def elements(self) -> list[bytes]:
        """Return the complete elements, and remove them from the buffer."""
        found: list[bytes] = []
        start = 0
        for token in _TOKEN.finditer(self.buffer, self._at):
            byte = self.buffer[token.start()]
            if byte == _QUOTE:
                if token.end() - token.start() == 1:
                    break  # the next block has the rest of the string
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
        """Update the depth for a bracket or comma; return whether an element ends before it."""
        if byte in b"{[":
            self._depth += 1
            return False
        if byte == _COMMA:
            return self._depth == 0
        self.is_over = self._depth == 0
        self._depth -= 1
        return self.is_over
