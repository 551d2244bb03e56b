"""Read files as streams of bytes, plain or compressed, with a limit on the expanded size."""

from __future__ import annotations

import io
import sys
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa

from tidegate.contracts.errors import SettingsError

_MOST_EXPANSION: Final = 250
"""Maximum bytes per compressed byte. Logs and other text have 10 to 40; a decompression bomb has 1,000."""
_ALWAYS_ALLOWED: Final = 64 << 20
_BUFFER: Final = 1 << 20
_MAGIC: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_PEEKED: Final = 4_096


class _Counted(io.RawIOBase):
    """A file with the number of bytes read, because a pipe has no position."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self.bytes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.bytes += len(data)
        return data

    def close(self) -> None:
        self._file.close()
        super().close()


class Expanded(io.RawIOBase):
    """The content of a compressed file. Reading raises SettingsError if it is damaged, or expands beyond the limit."""

    def __init__(self, file: BinaryIO, codec: str, name: str) -> None:
        super().__init__()
        self._file = file
        self._name = name
        self._counted = _Counted(file)
        self._stream = pa.CompressedInputStream(pa.PythonFile(self._counted, "r"), codec)
        self._written = 0

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        view = memoryview(buffer)
        try:
            data = self._stream.read(len(view))
        except OSError as error:
            raise SettingsError(f"{self._name} is not a whole compressed file: {error}") from None
        self._written += len(data)
        if self._written > max(_ALWAYS_ALLOWED, _MOST_EXPANSION * max(self._counted.bytes, 1)):
            raise SettingsError(
                f"{self._name} expands to more than {_MOST_EXPANSION} times its size, which no file of records does; "
                "expand it yourself if you trust it"
            )
        view[: len(data)] = data
        return len(data)


class Section(io.RawIOBase):
    """The bytes of a file from `span.start` up to `span.stop`."""

    def __init__(self, file: io.BufferedReader[Any], span: range) -> None:
        super().__init__()
        file.seek(span.start)
        self._file = file
        self._left = len(span)

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        size = self._file.readinto(memoryview(buffer)[: self._left])
        self._left -= size
        return size


def open_bytes(path: Path) -> tuple[io.BufferedReader[Any], BinaryIO]:
    """Return the expanded content of a file, and the file itself, whose position shows the progress.

    `-` is standard input. Raises SettingsError for a file that cannot be read.
    """
    if str(path) == "-":
        file: BinaryIO = sys.stdin.buffer
    else:
        try:
            file = path.open("rb")
        except OSError as error:
            raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    reader: io.BufferedReader[Any] = (
        file
        if isinstance(file, io.BufferedReader)
        else io.BufferedReader(cast("io.RawIOBase", file), _BUFFER)
    )
    start = reader.peek(4)
    codec = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
    if codec is None:
        return reader, file
    return io.BufferedReader(Expanded(reader, codec, str(path)), _BUFFER), file


def beginning(reader: io.BufferedReader[Any]) -> bytes:
    """Return the first bytes of a stream without consuming them."""
    return reader.peek(_PEEKED)[:_PEEKED]


def skip_byte_order_mark(reader: io.BufferedReader[Any]) -> None:
    """Skip a UTF-8 byte order mark, which is not part of the first record."""
    if reader.peek(len(BOM_UTF8)).startswith(BOM_UTF8):
        reader.read(len(BOM_UTF8))


def first_line(error: BaseException) -> str:
    """Return the first line of a library's error message, at most 200 characters."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
