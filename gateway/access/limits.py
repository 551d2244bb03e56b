"""Rate limits and concurrency limits, counted in the memory of this process."""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any, Final, TypeVar

from limits import parse_many
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from tidegate.gateway.access.principal import ANONYMOUS, Principal, TooManyRequests

ADDRESS: Final = "address:"
"""Prefix of the names under which requests without a principal are counted."""
MOST_ADDRESSES: Final = 10_000


class RateLimit:
    """The rate limits of one process, such as `200/second;5000/minute`. All of them apply to each requester."""

    def __init__(self, limits: str) -> None:
        self._limits = parse_many(limits)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._addresses: set[str] = set()
        self._forget_at = 0.0
        self._window = max(limit.get_expiry() for limit in self._limits)

    def count(self, who: str) -> None:
        """Count one request. Raises TooManyRequests, with the seconds to wait in `Retry-After`."""
        who = self._bounded(who)
        for limit in self._limits:
            if not self._limiter.hit(limit, who):
                reset = self._limiter.get_window_stats(limit, who).reset_time
                seconds = max(1, math.ceil(reset - time.time()))
                raise TooManyRequests(
                    f"more than {limit.amount} requests in {_window(limit.get_expiry())}; try again in {seconds} s",
                    {"Retry-After": str(seconds)},
                )

    def _bounded(self, who: str) -> str:
        """Return the name to count under. Addresses beyond the first 10,000 of a window are counted together."""
        if not who.startswith(ADDRESS):
            return who
        now = time.monotonic()
        if now >= self._forget_at:
            self._addresses.clear()
            self._forget_at = now + self._window
        if who not in self._addresses:
            if len(self._addresses) >= MOST_ADDRESSES:
                return f"{ADDRESS}(others)"
            self._addresses.add(who)
        return who


class WorkSlots:
    """Slots for work that takes minutes: at most `most` at a time in this process, and one per principal.

    Without access control there is only the anonymous principal, which may take all slots. `what` names the work in
    messages, such as "downloads".
    """

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, by: Principal) -> None:
        """Take a slot. Raises TooManyRequests if none is free, or the principal already has one."""
        with self._lock:
            if by is not ANONYMOUS and self._taken[by.name]:
                raise TooManyRequests(
                    f"one of your own {self._what} runs already; try again when it has ended"
                )
            if self._taken.total() >= self._most:
                raise TooManyRequests(f"{self._most} {self._what} run already; try again when one has ended")
            self._taken[by.name] += 1

    def leave(self, by: Principal) -> None:
        """Release a slot."""
        with self._lock:
            self._taken -= Counter({by.name: 1})


def _window(seconds: int) -> str:
    return "a second" if seconds == 1 else f"{seconds} seconds"


T = TypeVar("T")
_RETRY_AFTER_SECONDS: Final = 2
_REQUEST: Final = "request_in_turn"


class CheckTurns:
    """At most `at_once` checks run, and at most `waiting` more wait for a turn.

    With access control one principal has all turns but one, and half of the places, so that nobody keeps the others out.
    """

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._most = at_once + waiting
        self._most_turns_of_one = max(1, at_once - 1)
        self._most_of_one = max(1, self._most // 2)
        self._places: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def run(self, by: Principal, work: Callable[..., T], *args: Any, **named: Any) -> T:
        """Run `work` in a thread when it is its turn. Raises TooManyRequests when too many wait already."""
        who, is_one = by.name, by is not ANONYMOUS
        places = self._places[who] if is_one else 0
        if places >= self._most_of_one or self._places.total() >= self._most:
            count, whose = (places, "of yours ") if places >= self._most_of_one else (self._most, "")
            raise TooManyRequests(
                f"{count} documents {whose}are being checked or wait for it; try again in {_RETRY_AFTER_SECONDS} s",
                {"Retry-After": str(_RETRY_AFTER_SECONDS)},
            )
        self._places[who] += 1
        own = (
            self._turns.setdefault(who, asyncio.Semaphore(self._most_turns_of_one)) if is_one else self._free
        )
        try:
            async with own, self._free if is_one else nullcontext():
                return await run_in_threadpool(work, *args, **named)
        finally:
            self._places[who] -= 1
            if not self._places[who]:
                del self._places[who]
                self._turns.pop(who, None)


def checked(handler: Callable[..., T]) -> Callable[..., Awaitable[T]]:
    """Wrap a FastAPI handler so that it runs within the limit `check_turns` of its argument `factory`.

    A request waits for its slot after its body has been read.
    """

    @wraps(handler)
    async def in_turn(**values: Any) -> T:
        request: Request = values.pop(_REQUEST)
        turns: CheckTurns = values["factory"].check_turns
        return await turns.run(request.state.principal, handler, **values)

    # FastAPI reads annotations from here: their names are those of the handler's module.
    own = inspect.signature(handler, eval_str=True)
    asked = inspect.Parameter(_REQUEST, inspect.Parameter.KEYWORD_ONLY, annotation=Request)
    in_turn.__signature__ = own.replace(parameters=[*own.parameters.values(), asked])  # type: ignore[attr-defined] # a type of functions has no such field
    return in_turn
