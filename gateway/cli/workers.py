"""Options, workers and progress of commands that read parts of files in local processes or in Spark."""

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
"""Each needs about 400 MB to infer, and a machine with many processors may have little memory for each."""
_WORKERS: Final = "tidegate.workers"
"""Entry-point group of the function that runs work in Spark workers. Only the job may import Spark."""

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
    """Raise SettingsError if --spark-master is given; call it when --spark is not."""
    if spark_master is not None:
        raise SettingsError("--spark-master says where --spark runs: give both")


def hint_at_spark(name: str, options: SourceOptions, least: int, gain: str) -> None:
    """Print a hint at --spark for files of at least `least` bytes with several parts; `gain` says what it does."""
    if not is_files(name):
        return
    size = sum(path.stat().st_size for path in ([Path(name)] if Path(name).is_file() else files_of(name)))
    # A single file of CSV or gzip is one part, so Spark would not read it faster.
    if size >= least and len(file_parts(name, options.format, tuple(options.nulls), options.default)[1]) > 1:
        err.print(f"{name} has {size / 1e9:,.0f} GB: --spark {gain}")


def spark_workers(spark_master: str | None) -> MapInWorkers:
    """Return a function that runs work in Spark workers. It loads and starts Spark at the first call.

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
    find_java()  # without Java, PySpark only reports that its Java process ended
    return work


def local_workers(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield the result of `work` for each item, in their order, from processes of this machine.

    There is one process for each processor, but not more than items or _MOST_PROCESSES.

    Raises the TidegateError of an item, and Unavailable if a process is killed.
    """
    spawn = multiprocessing.get_context("spawn")  # this process has threads, so a fork is not safe
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
    """Make this process end at Ctrl-C without a traceback, and when its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_exit_after_parent, daemon=True).start()


def _exit_after_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


@dataclass(slots=True)
class TaskProgress:
    """The number of bytes read from files. `size` is the total number of bytes, None if it is not known."""

    title: str
    size: int | None
    _read: int = 0

    def progress(self) -> int:
        """Return the number of bytes read."""
        return self._read

    def add(self, task: tuple[FilePart, ...]) -> None:
        """Add the bytes of a finished task."""
        self._read += sum(part.size for part in task)
