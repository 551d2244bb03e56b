"""Turns for what takes long: compiling, comparing and judging by what somebody posted.

Reads and `/health/ready` have the rest of the thread pool. Python runs one thread at a time, so more turns would only make
everybody slower; what waits for one takes no thread.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final, TypeVar

from starlette.concurrency import run_in_threadpool

from tidegate.gateway.access.errors import TooManyRequests

T = TypeVar("T")
_RETRY_AFTER_SECONDS: Final = 2


class CheckTurns:
    """At most `at_once` checks run, and at most `waiting` more wait for a turn."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._most = at_once + waiting
        self._asked = 0

    async def run(self, work: Callable[..., T], *args: Any, **named: Any) -> T:
        """Run `work` in a thread when it is its turn. Raises TooManyRequests when too many wait already."""
        if self._asked >= self._most:
            raise TooManyRequests(
                f"{self._asked} documents are being checked or wait for it; ask again in {_RETRY_AFTER_SECONDS} s",
                {"Retry-After": str(_RETRY_AFTER_SECONDS)},
            )
        self._asked += 1
        try:
            async with self._free:
                return await run_in_threadpool(work, *args, **named)
        finally:
            self._asked -= 1


def checked(handler: Callable[..., T]) -> Callable[..., Awaitable[T]]:
    """Make a handler that has a `factory` wait for its turn, once its body is read."""

    @wraps(handler)
    async def in_turn(**values: Any) -> T:
        turns: CheckTurns = values["factory"].check_turns
        return await turns.run(handler, **values)

    # FastAPI reads annotations from here: their names are those of the handler's module.
    in_turn.__signature__ = inspect.signature(handler, eval_str=True)  # type: ignore[attr-defined]
    return in_turn
