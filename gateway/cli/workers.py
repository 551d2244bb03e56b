"""Options, workers and progress of the commands that read files in parts, in processes of this machine or in Spark."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, Final, TypeVar

import typer

from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.gateway.cli.terminal import err
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.sources.file_parts import FilePart, MapInWorkers, file_parts, is_files
from tidegate.gateway.sources.many_files import files_of
from tidegate.gateway.sources.open_source import SourceOptions, naming_extras

Item = TypeVar("Item")
Result = TypeVar("Result")
_MOST_PROCESSES: Final = 8
"""Each takes some 400 MB to infer; a machine with many processors may have little memory for each."""
_WORKERS: Final = "tidegate.workers"
"""Entry points of what calls a function in the workers of Spark: the job has it, because only the job may import Spark."""

Spark = Annotated[
    bool, typer.Option("--spark", help="Read files in Spark, for what is large; needs the extra spark.")
]
SparkMaster = Annotated[
    str | None,
    typer.Option(
        "--spark-master", metavar="URL", help="Where --spark runs; default: TIDEGATE_SPARK_MASTER, or here."
    ),
]


def require_spark(spark_master: str | None) -> None:
    """Raise SettingsError for an address of Spark without --spark."""
    if spark_master is not None:
        raise SettingsError("--spark-master says where --spark runs: give both")


def hint_at_spark(name: str, options: SourceOptions, least: int, gain: str) -> None:
    """Print a line about --spark for files of at least so many bytes that have parts; `gain` says what it does with them."""
    if not is_files(name):
        return
    size = sum(path.stat().st_size for path in ([Path(name)] if Path(name).is_file() else files_of(name)))
    # A single file of CSV or gzip is one part, which one worker of Spark reads no faster.
    if size >= least and len(file_parts(name, options.format, tuple(options.nulls), options.default)[1]) > 1:
        err.print(f"{name} has {size / 1e9:,.0f} GB: --spark {gain}", markup=False)


def spark_workers(spark_master: str | None) -> MapInWorkers:
    """Return what calls a function in the workers of Spark. Nothing is loaded or started before it is called.

    The call raises SettingsError if Spark or Java is not installed.
    """

    def in_workers(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        found: Iterator[Result] = _map_in_workers()(work, items, spark_master=spark_master)
        return found

    return in_workers


@cache
def _map_in_workers() -> Callable[..., Any]:
    with naming_extras("--spark"):
        (found,) = entry_points(group=_WORKERS)
        work: Callable[..., Any] = found.load()
    find_java()  # PySpark only says that its Java process ended
    return work


def local_workers(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield the result of `work` for each item, in their order, from processes of this machine.

    There is one for each processor, and at most _MOST_PROCESSES.

    Raises the TidegateError of an item, and Unavailable if a process is killed.
    """
    spawn = multiprocessing.get_context("spawn")  # this process has threads, which a fork does not survive
    with ProcessPoolExecutor(min(processors(), len(items), _MOST_PROCESSES), spawn, _end_with_parent) as pool:
        try:
            yield from pool.map(work, items)
        except BrokenProcessPool as error:
            raise Unavailable(
                "a process that read a part of the files was killed, maybe for its memory: free some, or limit the processors "
                "with `taskset --cpu-list 0`"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _end_with_parent() -> None:
    """End this process, without a traceback, at Ctrl-C and when its parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_exit_after_parent, daemon=True).start()


def _exit_after_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


@dataclass(slots=True)
class TaskProgress:
    """Number of bytes read of some files. `size` is the number of all bytes, None if it is not known."""

    title: str
    size: int | None
    _read: int = 0

    def progress(self) -> int:
        """Return how many bytes are read."""
        return self._read

    def add(self, task: tuple[FilePart, ...]) -> None:
        """Count a task that has ended."""
        self._read += sum(part.size for part in task)
