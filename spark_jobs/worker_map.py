"""A parallel map in Spark's Python workers, for commands that read more than one machine can."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from tidegate.contracts.errors import TidegateError, Unavailable
from tidegate.spark_jobs.options import read_settings
from tidegate.spark_jobs.session import build_plain_session
from tidegate.spark_jobs.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark import SparkContext

Item = TypeVar("Item")
Result = TypeVar("Result")

_WAVES: Final = 2
"""Concurrent Spark jobs: while the last tasks of one end, those of the next run."""
_TASKS_OF_A_SLOT: Final = 4
_LONGEST_REASON: Final = 300


def map_in_workers(
    work: Callable[[Item], Result], items: Sequence[Item], *, spark_master: str | None = None
) -> Iterator[Result]:
    """Yield the result of `work` for each item, in order, from the workers of this process's Spark session.

    Starts a session if there is none, by TIDEGATE_SPARK_MASTER and similar variables; `spark_master` takes precedence.
    Each item is a task. The driver holds the results of a few tasks per slot at a time, for any number of items. `work`
    and the items are pickled. A task may run more than once; only one result is yielded.

    Raises the TidegateError that `work` raised for an item, and SettingsError if the session cannot start. Raises
    Unavailable if Spark gives up a task, such as after the loss of an executor.
    """
    given = {"spark_master": spark_master}
    spark = SparkSession.getActiveSession() or build_plain_session(read_settings(given, SparkSettings))
    context = spark.sparkContext
    size = _TASKS_OF_A_SLOT * context.defaultParallelism
    tag = f"tidegate-{uuid4().hex}"
    pending: deque[Future[list[Result | TidegateError]]] = deque()
    with ThreadPoolExecutor(_WAVES, thread_name_prefix="wave") as pool:
        try:
            for first in range(0, len(items), size):
                pending.append(pool.submit(_run, context, tag, work, items[first : first + size]))
                if len(pending) == _WAVES:
                    yield from _results(pending.popleft())
            while pending:
                yield from _results(pending.popleft())
        finally:
            for each in pending:
                each.cancel()
            context.cancelJobsWithTag(tag)


def _run(
    context: SparkContext, tag: str, work: Callable[[Item], Result], items: Sequence[Item]
) -> list[Result | TidegateError]:
    context.addJobTag(tag)  # for the jobs of this thread
    return context.parallelize(items, len(items)).map(partial(_guarded, work)).collect()


def _results(wave: Future[list[Result | TidegateError]]) -> Iterator[Result]:
    try:
        results = wave.result()
    except PythonException:
        raise  # a bug of `work`
    except Py4JError as error:
        reason = str(error).partition("\n")[2].partition("\n")[0] or type(error).__name__
        raise Unavailable(f"Spark gave the work up: {reason[:_LONGEST_REASON]}") from error
    for result in results:
        if isinstance(result, TidegateError):
            raise result
        yield result


def _guarded(work: Callable[[Item], Result], item: Item) -> Result | TidegateError:
    """Call `work` in a worker. A TidegateError is returned: if it were raised, Spark would retry the task in vain."""
    gc.enable()  # the job's daemon disables it, because batches are small; an item may be a large file
    try:
        return work(item)
    except TidegateError as error:
        return error
