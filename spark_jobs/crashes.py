"""Errors of workers without record values, because Spark writes the whole traceback to its log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidegate.contracts.crash import described
from tidegate.contracts.errors import TidegateError, Unavailable

_LONGEST_REASON: Final = 300


class WorkerCrash(Exception):  # noqa: N818 - the name that Spark shows, and that people search for
    """A crash in a worker, with its location in the code."""


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
        # The message may name a file or an object; these names contain no record values. Spark passes on one line only.
        reason = " ".join(str(error).split())[:_LONGEST_REASON]
        raise Unavailable(f"a worker could not write its part of the batch: {reason}") from None
    except Exception as error:  # noqa: BLE001 - any message may quote a record
        raise WorkerCrash(described(error)) from None
