"""How often somebody may ask. Counted in the memory of this process, in windows that slide."""

from __future__ import annotations

import math
import time

from limits import parse_many
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from tidegate.gateway.access.errors import TooManyRequests


class RateLimit:
    """The limits of one process, such as `200/second;5000/minute`; every one of them holds for each who asks."""

    def __init__(self, limits: str) -> None:
        self._limits = parse_many(limits)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def count(self, who: str) -> None:
        """Count one request. Raises TooManyRequests, which says after how many seconds to ask again."""
        for limit in self._limits:
            if not self._limiter.hit(limit, who):
                reset = self._limiter.get_window_stats(limit, who).reset_time
                seconds = max(1, math.ceil(reset - time.time()))
                raise TooManyRequests(
                    f"more than {limit.amount} requests in {_window(limit.get_expiry())}; ask again in {seconds} s",
                    {"Retry-After": str(seconds)},
                )


def _window(seconds: int) -> str:
    return "a second" if seconds == 1 else f"{seconds} seconds"
