"""The progress of a command: one line on standard error, if that is a terminal, after two seconds.

The job itself logs its batches, and shows no progress.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Final, TextIO

SILENT_SECONDS: Final = 2.0
_REPAINT_SECONDS: Final = 0.5
_CLEAR: Final = "\r\x1b[2K"
_LONGEST: Final = 100


class _Line:
    """The progress line. A thread repaints it, so that its elapsed time advances while Spark works."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._begun = time.monotonic()
        self._text = ""
        self._is_painted = False
        self._lock = Lock()
        self._ended = Event()
        self._thread = Thread(target=self._repaint, name="progress", daemon=True)

    def start(self) -> None:
        """Start the thread that repaints the line."""
        self._thread.start()

    def show(self, text: str) -> None:
        """Replace the text; an empty text removes the line, so that other output can use the terminal."""
        with self._lock:
            self._text = text
            if not text:
                self._clear()

    def close(self) -> None:
        """Remove the line."""
        self._ended.set()
        self._thread.join()
        with self._lock:
            self._clear()

    def _repaint(self) -> None:
        wait = SILENT_SECONDS
        while not self._ended.wait(wait):
            wait = _REPAINT_SECONDS
            with self._lock:
                if self._text:
                    seconds = time.monotonic() - self._begun
                    self._terminal.write(f"{_CLEAR}{self._text[:_LONGEST]} ({seconds:.0f} s)")
                    self._terminal.flush()
                    self._is_painted = True

    def _clear(self) -> None:
        if self._is_painted:
            self._terminal.write(_CLEAR)
            self._terminal.flush()
            self._is_painted = False


_LINES: Final[list[_Line]] = []
"""The line of the running command; empty in the job."""


@contextmanager
def shown_progress() -> Iterator[None]:
    """Show the texts passed to `doing` within this context, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    line = _Line(sys.stderr)
    _LINES.append(line)
    line.start()
    try:
        yield
    finally:
        _LINES.remove(line)
        line.close()


def doing(text: str) -> None:
    """Show what the command is doing, in a few words; do nothing outside `shown_progress`."""
    for line in _LINES:
        line.show(text)
