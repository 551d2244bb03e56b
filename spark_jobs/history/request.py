"""The request of a run over a history, in a separate module because the command line must not load Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """Files (paths, folders, patterns) and tables to load; `nulls` are texts for null in CSV, besides empty cells."""

    files: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ()
