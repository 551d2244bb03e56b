"""The class-data archive of the job's Java: what a run has read of its classes, for the starts that follow.

Half of the processor time of a start is spent reading, checking and linking classes. Java ignores an archive of another
Java or other jars, so a wrong one costs nothing but the time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from subprocess import Popen

    from tidegate.spark_jobs.settings import SinkSettings

log = structlog.get_logger()

_END_SECONDS: Final = 180.0
"""Longest wait for the end of Java, which writes 190 MB then."""
_QUIET: Final = "-Xlog:cds*=off"


def class_archive(spark_jars: Path) -> Path:
    """Return the archive of this Spark and this Java, beside the folder of the jars. It need not exist."""
    import pyspark  # noqa: PLC0415 - where it is installed; the session has loaded it

    home = os.environ.get("JAVA_HOME")
    java = os.path.realpath(f"{home}/bin/java" if home else shutil.which("java") or "java")
    place = sha256(f"{pyspark.__file__}\n{java}\n{spark_jars.absolute()}".encode()).hexdigest()
    return spark_jars.absolute().with_name(f"classes-{place[:16]}.jsa")


def java_options(settings: SinkSettings) -> tuple[str, ...]:
    """Return the options by which Java writes the archive at its end, or uses the one that is there."""
    assert settings.spark_jars is not None  # noqa: S101 - the session has refused to start without
    archive = class_archive(settings.spark_jars)
    if settings.write_class_archive:
        return (f'"-XX:ArchiveClassesAtExit={_written(archive)}"', _QUIET)
    return (f'"-XX:SharedArchiveFile={archive}"', _QUIET) if archive.exists() else ()


def keep_archive(settings: SinkSettings, java: Popen[bytes] | None) -> None:
    """Wait until Java has ended, and let later starts use the archive that it has written. Never raises.

    Call it when the session is stopped. Java ends when its standard input does.
    """
    if java is None or java.stdin is None or settings.spark_jars is None:
        return
    archive = class_archive(settings.spark_jars)
    written = _written(archive)
    java.stdin.close()
    try:
        java.wait(_END_SECONDS)
        written.replace(archive)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("class_archive_not_written", file=str(archive), error=str(error))
        written.unlink(missing_ok=True)
    else:
        log.info("class_archive_written", file=str(archive), bytes=archive.stat().st_size)


def _written(archive: Path) -> Path:
    """Return the file that Java writes; each process has its own, so that a start never reads half a file."""
    return archive.with_suffix(f".{os.getpid()}")
