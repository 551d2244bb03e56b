"""The class data sharing (CDS) archive of the job's Java: one run writes its loaded classes for later starts.

Half of the CPU time of a start is spent reading, verifying and linking classes. Java ignores an archive of a different
Java or of different jars, so an outdated archive only makes the start slower.
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
"""Maximum wait for the end of Java, which writes 190 MB at its exit."""
_QUIET: Final = "-Xlog:cds*=off"


def class_archive(spark_jars: Path) -> Path:
    """Return the path of the archive for this Spark and Java, next to the folder of the jars. It need not exist."""
    import pyspark  # noqa: PLC0415 - only its path is needed; the session has loaded it

    home = os.environ.get("JAVA_HOME")
    java = os.path.realpath(f"{home}/bin/java" if home else shutil.which("java") or "java")
    place = sha256(f"{pyspark.__file__}\n{java}\n{spark_jars.absolute()}".encode()).hexdigest()
    return spark_jars.absolute().with_name(f"classes-{place[:16]}.jsa")


def java_options(settings: SinkSettings) -> tuple[str, ...]:
    """Return the options with which Java writes the archive at its exit, or uses an existing one; or none."""
    assert settings.spark_jars is not None  # noqa: S101 - the session does not start without jars
    archive = class_archive(settings.spark_jars)
    if settings.write_class_archive:
        return (f'"-XX:ArchiveClassesAtExit={_written(archive)}"', _QUIET)
    return (f'"-XX:SharedArchiveFile={archive}"', _QUIET) if archive.exists() else ()


def keep_archive(settings: SinkSettings, java: Popen[bytes] | None) -> None:
    """Wait until Java has ended, and publish the archive that it has written for later starts. Never raises.

    Call it after the session was stopped. Java ends when its standard input is closed.
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
    """Return the file that Java writes; each process has its own, so that a start never reads an incomplete one."""
    return archive.with_suffix(f".{os.getpid()}")
