"""Crashes of a worker without values of a record: Spark writes the whole traceback to its log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.contracts.crash import described
from tidegate.contracts.errors import TidegateError


class WorkerCrash(Exception):  # noqa: N818 - what Spark shows, and what people look for
    """A crash in a worker, with its place."""


@contextmanager
def crashes_without_values() -> Iterator[None]:
    """Raise WorkerCrash for an error of a library, so that neither its message nor its causes are logged."""
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it may quote a record
        raise WorkerCrash(described(error)) from None
