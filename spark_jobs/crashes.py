"""Crashes of a worker, whose whole traceback Spark writes to its log: told without a value of a record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.contracts.crash import described
from tidegate.contracts.errors import TidegateError


class WorkerCrash(Exception):  # noqa: N818 - what Spark shows, and what people look for
    """What crashed in a worker, and where."""


@contextmanager
def crashes_without_values() -> Iterator[None]:
    """Raise WorkerCrash for an error that is not our own, so that neither its message nor those before it are told."""
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it may quote a record
        raise WorkerCrash(described(error)) from None
