"""Convert the signals that request the end of a process to one exception."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt in the main thread for SIGINT, SIGTERM and SIGHUP (closed terminal) during the block."""
    previous = {number: signal.signal(number, _interrupt) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
