"""Limits on CPU time and memory for the judging of one input. Exceeding the time ends the process."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

MEMORY_BYTES: Final = 512 * 1024 * 1024
"""The memory that inputs of at most 128 KiB may use beyond what the process has when `bound_memory` is called."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of `work`. SIGPROF ends the process if the work takes more CPU time than `seconds`, also in C code."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def bound_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
