"""Java options of the tests."""

from __future__ import annotations

from pathlib import Path

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""With one compiler, the default code cache is 48 MB. An hour of tests fills it, and Java spends a tenth of its time on clearing it."""
SHORT_LIVED_JAVA = {"JDK_JAVA_OPTIONS": JAVA_OPTIONS}
"""Environment of processes whose Java runs for a few seconds: the optimizing compiler would only keep the cores busy."""


def recording_classes(archive: Path) -> dict[str, str]:
    """Return the environment of a process whose Java writes an archive of its loaded classes (CDS) when it ends."""
    return {"JDK_JAVA_OPTIONS": f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={archive} -Xlog:cds*=off"}


def use_classes(archive: Path) -> None:
    """Let each short-lived Java start from a class archive; Java ignores the archive if its jars differ."""
    SHORT_LIVED_JAVA["JDK_JAVA_OPTIONS"] = f"{JAVA_OPTIONS} -XX:SharedArchiveFile={archive} -Xlog:cds*=off"
