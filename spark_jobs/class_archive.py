"""The class data sharing (CDS) archive of the job's Java: one run writes its loaded classes for later starts.

Half of the CPU time of a start is spent reading, verifying and linking classes. Java ignores an archive of a different
Java or of different jars, so the name of the archive contains a digest of both: after an upgrade, it is written anew.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from contextlib import suppress
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
_JAVA_VARIABLES: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_ARCHIVE_OPTIONS: Final = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")
_UNUSED_SECONDS: Final = 30 * 24 * 3600.0
_LOCKS: Final[dict[Path, int]] = {}
"""Descriptors of the locks that this process holds."""


def class_archive(spark_jars: Path) -> Path:
    """Return the path of the archive for this Spark, Java and these jars, next to their folder. It need not exist.

    The first part of the name tells installations apart that share a folder, the second one their versions.
    """
    import pyspark  # noqa: PLC0415 - only its path is needed; the session has loaded it

    home = os.environ.get("JAVA_HOME")
    java = Path(os.path.realpath(f"{home}/bin/java" if home else shutil.which("java") or "java"))
    place = _digest(pyspark.__file__, str(java), str(spark_jars.absolute()))
    loaded = [java.parent.parent / "lib" / "modules", *Path(pyspark.__file__).parent.glob("jars/*.jar")]
    version = _digest(*map(_version, sorted([*loaded, *spark_jars.glob("*.jar")])))
    return spark_jars.absolute().with_name(f"classes-{place}-{version}.jsa")


def writes_archive(settings: SinkSettings) -> bool:
    """Return whether this run writes the archive: as the setting says, and by default if there is none yet.

    Left to itself it writes none on a cluster, whose driver loads the jars in a way that archives do not cover, none
    into a folder of another user, and none if a variable already gives Java an archive: Java would refuse to start.
    One process at a time writes an archive, until it ends; the others write none.
    """
    if settings.write_class_archive is False or settings.spark_jars is None:
        return False
    archive = class_archive(settings.spark_jars)
    if settings.write_class_archive is None:
        is_wanted = (
            settings.spark_master.startswith("local")
            and not _names_archive()
            and os.access(archive.parent, os.W_OK)
            and not archive.exists()
        )
        if not is_wanted:
            return False
    return _lock(archive)


def java_options(settings: SinkSettings) -> tuple[str, ...]:
    """Return the options with which Java writes the archive at its exit, or uses an existing one; or none.

    None if a variable already gives Java an archive, because Java refuses to start with two.
    Java writes it only after `writes_archive` was asked, because only `enforce` publishes it.
    """
    assert settings.spark_jars is not None  # noqa: S101 - the session does not start without jars
    archive = class_archive(settings.spark_jars)
    if settings.write_class_archive and archive.with_suffix(".lock") in _LOCKS:
        return (f'"-XX:ArchiveClassesAtExit={_written(archive)}"', _QUIET)
    if not archive.exists() or _names_archive():
        return ()
    with suppress(OSError):  # only the owner can
        os.utime(archive)  # it is in use, which `_remove_outdated` of another installation respects
    return (f'"-XX:SharedArchiveFile={archive}"', _QUIET)


def keep_archive(settings: SinkSettings, java: Popen[bytes] | None) -> None:
    """Wait until Java has ended, and publish the archive that it has written for later starts. Never raises.

    Call it after the session was stopped. Java ends when its standard input is closed.
    """
    if java is None or java.stdin is None or settings.spark_jars is None:
        return
    archive = class_archive(settings.spark_jars)
    written = _written(archive)
    log.info("class_archive_begun", file=str(archive))
    java.stdin.close()
    try:
        java.wait(_END_SECONDS)
        written.replace(archive)
        _remove_outdated(archive)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("class_archive_not_written", file=str(archive), error=str(error))
        written.unlink(missing_ok=True)
    else:
        log.info("class_archive_written", file=str(archive), bytes=archive.stat().st_size)


def _names_archive() -> bool:
    """Return whether a variable of the environment gives Java an archive."""
    options = " ".join(os.environ.get(name, "") for name in _JAVA_VARIABLES)
    return any(option in options for option in _ARCHIVE_OPTIONS)


def _written(archive: Path) -> Path:
    """Return the file that Java writes. It has one name, so that killed processes leave one incomplete file at most."""
    return archive.with_suffix(".part")


def _lock(archive: Path) -> bool:
    """Return whether this process may write the archive. The lock ends with the process."""
    file = archive.with_suffix(".lock")
    if file in _LOCKS:
        return True
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        log.warning("class_archive_not_written", file=str(archive), error=str(error))
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    _LOCKS[file] = descriptor
    return True


def _remove_outdated(archive: Path) -> None:
    """Remove the files of this installation's earlier versions, and those of others that no start has used for long.

    An installation is known by the path of its Spark, so each new path would otherwise leave an archive for ever.
    """
    place = archive.name.rpartition("-")[0]
    for other in archive.parent.glob("classes-*-*"):
        is_earlier = other.name.startswith(f"{place}-") and other.stem != archive.stem
        with suppress(OSError):
            if is_earlier or time.time() - other.stat().st_mtime > _UNUSED_SECONDS:
                other.unlink()


def _version(file: Path) -> str:
    """Return what Java compares before it uses an archive: name, size and time of the file."""
    with suppress(OSError):
        status = file.stat()
        return f"{file.name} {status.st_size} {status.st_mtime_ns}"
    return file.name


def _digest(*parts: str) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()[:12]
