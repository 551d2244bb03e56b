"""The class data sharing (CDS) archive of the job's Java: one run writes its loaded classes for later starts.

Half of the CPU time of a start is spent reading, verifying and linking classes. Java ignores an archive of a different
Java or of different jars, so the name of the archive contains a digest of both: after an upgrade, it is written anew.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from py4j.java_gateway import JavaGateway

    from tidegate.spark_jobs.settings import SinkSettings

log = structlog.get_logger()

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
    """Return the options with which Java can write the archive, or uses an existing one; or none.

    None if a variable already gives Java an archive, because Java refuses to start with two.
    Java can write it only after `writes_archive` was asked, because only `enforce` keeps it.
    """
    assert settings.spark_jars is not None  # noqa: S101 - the session does not start without jars
    archive = class_archive(settings.spark_jars)
    if settings.write_class_archive and archive.with_suffix(".lock") in _LOCKS:
        # With ArchiveClassesAtExit, the Java process of a killed job would write it, beside the start of the next job.
        return ("-XX:+RecordDynamicDumpInfo", _QUIET)
    if not archive.exists() or _names_archive():
        return ()
    with suppress(OSError):  # only the owner can
        os.utime(archive)  # it is in use, which `_remove_outdated` of another installation respects
    return (f'"-XX:SharedArchiveFile={archive}"', _QUIET)


def keep_archive(settings: SinkSettings, write: Callable[[Path], str]) -> None:
    """Let `write` write the archive into a file and keep it for later starts. Never raises an error of Java or files.

    `write` returns Java's answer, such as `written_by`. Call it after the session was stopped.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - the session has loaded it and PySpark
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    assert settings.spark_jars is not None  # noqa: S101 - the session does not start without jars
    archive = class_archive(settings.spark_jars)
    # It has one name, so that killed processes leave one incomplete file at most.
    part = archive.with_suffix(".part")
    log.info("class_archive_begun", file=str(archive))
    try:
        part.unlink(missing_ok=True)
        answer = write(part)
        if not part.exists():
            raise OSError(f"Java answers: {answer}")  # noqa: TRY301 - one warning for all reasons
        part.replace(archive)
        _remove_outdated(archive)
    except (OSError, Py4JError, PySparkException) as error:
        reason = str(error).partition("\n")[0]  # the rest is a stack trace
        log.warning("class_archive_not_written", file=str(archive), error=reason)
        part.unlink(missing_ok=True)
    else:
        log.info("class_archive_written", file=str(archive), bytes=archive.stat().st_size)


def written_by(gateway: JavaGateway, file: Path) -> str:
    """Let Java write its loaded classes into a new file, which takes some seconds, and return its answer.

    Java writes no file if it was started without the option of `java_options`. Raises Py4JError if Java has ended.
    Source: `VM.cds` of the tool `jcmd`, which a runtime without development tools lacks.
    """
    java = gateway.jvm

    def array(kind: str, *items: object) -> Any:
        made = gateway.new_array(getattr(java.java.lang, kind), len(items))
        for index, item in enumerate(items):
            made[index] = item
        return made

    # It prints a line, and stdout holds only the output of a command.
    java.java.lang.System.setOut(java.java.lang.System.err)
    server = java.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    # Its class belongs to a closed module, so that Py4J finds no methods; the interface has them.
    methods = java.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
    (invoke,) = (method for method in methods if method.getName() == "invoke")
    command = java.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    words = array("Object", array("String", "dynamic_dump", str(file)))
    types = array("String", "[Ljava.lang.String;")
    return str(invoke.invoke(server, array("Object", command, "vmCds", words, types)))


def _names_archive() -> bool:
    """Return whether a variable of the environment gives Java an archive."""
    options = " ".join(os.environ.get(name, "") for name in _JAVA_VARIABLES)
    return any(option in options for option in _ARCHIVE_OPTIONS)


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
