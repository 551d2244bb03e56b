"""Errors of a worker without values of a record: Spark writes the whole traceback to its log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidegate.contracts.crash import described
from tidegate.contracts.errors import TidegateError, Unavailable

_LONGEST_REASON: Final = 300


class WorkerCrash(Exception):  # noqa: N818 - what Spark shows, and what people look for
    """A crash in a worker, with its place."""


@contextmanager
def crashes_without_values() -> Iterator[None]:
    """Raise WorkerCrash for an error of a library, so that neither its message nor its causes are logged.

    Raises Unavailable for an error of a disk or an object store: the next attempt may succeed.
    """
    try:
        yield
    except TidegateError:
        raise
    except OSError as error:
        # Its message names a file or an object, whose names hold no value of a record. Spark passes on its first line.
        reason = " ".join(str(error).split())[:_LONGEST_REASON]
        raise Unavailable(f"a worker could not write its part of the batch: {reason}") from None
    except Exception as error:  # noqa: BLE001 - whatever it is, it may quote a record
        raise WorkerCrash(described(error)) from None
