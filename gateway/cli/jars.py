"""`tidegate jars`: resolve, check and cache the jars of broker and job."""

from __future__ import annotations

from typing import Annotated, Self

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tidegate.gateway.cli.terminal import err, out
from tidegate.gateway.embedded.jars import (
    IVY_FILE,
    LOCK_FILE,
    S3_IVY_FILE,
    S3_LOCK_FILE,
    ensure_jars,
    ensure_s3_jars,
    relock,
)

Relock = Annotated[
    bool,
    typer.Option("--relock", help="Resolve the jars again and write their lock (for contributors)."),
]
S3 = Annotated[
    bool, typer.Option("--s3", help="Install what Iceberg needs for tables in S3 (69 MB) instead.")
]


class JarsProgress:
    """The progress of installing jars: a bar on a terminal, otherwise a line for each phase. A context manager."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._phase = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Show a step. The phase `verify` is short, so it has no bar."""
        if phase == "verify":
            self._close()
        elif err.is_terminal:
            bar = self._open()
            bar.update(self._task, description=phase, completed=done, total=total)
        elif phase != self._phase:
            err.print(f"jars: {phase} {total}")
        self._phase = phase

    def _open(self) -> Progress:
        if self._bar is None:
            columns = (
                TextColumn("jars: {task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=err, transient=True)
            self._task = self._bar.add_task("resolve", total=None)
            self._bar.start()
        return self._bar

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def jars(*, s3: S3 = False, relock_file: Relock = False) -> None:
    """Install the jars of broker and job, or check the installed ones.

    The Ivy of PySpark resolves them from Maven Central; for a mirror, name an
    ivysettings.xml in TIDEGATE_IVY_SETTINGS. They are checked against the
    SHA-256 sums in jars.lock, and stored in TIDEGATE_JARS_DIR (default: the
    user's cache). With --s3 those for tables in S3 are installed; the job loads
    them from the folder that TIDEGATE_SPARK_EXTRA_JARS names.

    Examples:
      tidegate jars
      tidegate jars --s3

    Exit codes: 0 installed and checked; 2 no suitable Java, or jars that differ
    from the lock; 3 a download failed.
    """
    with JarsProgress() as progress:
        if relock_file:
            files = (S3_LOCK_FILE, S3_IVY_FILE) if s3 else (LOCK_FILE, IVY_FILE)
            out.print(f"{relock(progress, *files)} jars locked in {files[0]}")
        elif s3:
            out.print(f"TIDEGATE_SPARK_EXTRA_JARS={ensure_s3_jars(progress)}")
        else:
            installed = ensure_jars(progress)
            out.print(f"broker  {installed.broker_dir}\nspark   {installed.spark_dir}")
