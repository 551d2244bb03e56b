"""The request of a run over a history. Apart from the code that loads it, because the command line must not load Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """Files (paths, folders, patterns) and tables to load; `nulls` are texts that stand for null in CSV, besides an empty cell."""

    files: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ()
