"""Pages of batch reports, newest first: bounded by number and bytes, because one report may have megabytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.storage.tables import from_microseconds, to_microseconds

PAGE_BYTES: Final = 8 << 20
"""Bytes of stored reports after which a page ends, so that it may exceed this by one report."""


@dataclass(frozen=True, slots=True)
class ReportPlace:
    """A position in the order of reports: the time of the commit, and the number of the row."""

    committed_at: datetime
    id: int

    def __str__(self) -> str:
        return f"{to_microseconds(self.committed_at)}-{self.id}"

    @classmethod
    def parse(cls, text: str) -> ReportPlace:
        """Parse the result of `str`. Raises ValueError."""
        match text.split("-"):
            case [committed_at, number] if all(
                each.isascii() and each.isdecimal() and len(each) < 19 for each in (committed_at, number)
            ):
                return cls(from_microseconds(int(committed_at)), int(number))
        raise ValueError("not a place as this list gives it")


@dataclass(frozen=True, slots=True)
class ReportPage:
    """Some reports, newest first, without unreadable ones. `older` continues the list; None at its end."""

    reports: tuple[BatchReport, ...]
    older: ReportPlace | None


def first_places(
    rows: Iterable[tuple[datetime, int, int]], limit: int
) -> tuple[list[ReportPlace], ReportPlace | None]:
    """Return the places of a page, at least one, and the last of them if there are more.

    Each row is the time of a commit, the number of the row, and the bytes of its report.
    """
    places: list[ReportPlace] = []
    size = 0
    for committed_at, number, length in rows:
        if places and (len(places) == limit or size >= PAGE_BYTES):
            return places, places[-1]
        places.append(ReportPlace(committed_at, number))
        size += length
    return places, None
