"""How tests start Java."""

from __future__ import annotations

from pathlib import Path

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""With one compiler the code cache has 48 MB. An hour of tests fills it, and a tenth of Java's time goes to clearing it."""
SHORT_LIVED_JAVA = {"JDK_JAVA_OPTIONS": JAVA_OPTIONS}
"""Environment of processes that start a Java for a few seconds: its best compiler would only keep the cores busy meanwhile."""


def recording_classes(archive: Path) -> dict[str, str]:
    """Environment of a process whose Java keeps what it has read of its classes in a file when it ends."""
    return {"JDK_JAVA_OPTIONS": f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={archive} -Xlog:cds*=off"}


def use_classes(archive: Path) -> None:
    """Have each short-lived Java that reads the same jars start from such a file; any other takes no notice."""
    SHORT_LIVED_JAVA["JDK_JAVA_OPTIONS"] = f"{JAVA_OPTIONS} -XX:SharedArchiveFile={archive} -Xlog:cds*=off"
