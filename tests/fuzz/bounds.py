"""Bounds of one input: the time of the processor, and memory. The process ends when one is exceeded."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

MEMORY_BYTES: Final = 512 * 1024 * 1024
"""Most memory that the inputs, of at most 128 KiB, may take above what the process begins with."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do some work; the process is ended by SIGPROF when it takes more of the processor's time, in C code too."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def bound_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
