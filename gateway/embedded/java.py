"""Find the Java for the broker and Spark, or report what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.contracts.errors import SettingsError

OLDEST, NEWEST = 17, 21
"""Major versions. Source: Spark 4.1 documentation ("Java 17/21"); Kafka 4 brokers need 17."""

_VERSION = re.compile(r'version "(?P<version>(?:1\.)?(?P<major>\d+)[^"]*)"')
_INSTALL = {
    "linux": "Debian and Ubuntu: apt-get install openjdk-17-jre-headless",
    "darwin": "macOS: brew install openjdk@17, then export JAVA_HOME=$(brew --prefix openjdk@17)",
}
_KNOWN_HOMES = (
    "/usr/lib/jvm/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk@*",
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java launcher and its version."""

    path: Path
    version: str
    major: int


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Find a supported Java: `JAVA_HOME` first, as Spark does, then `PATH`.

    Raises SettingsError if there is none, it does not run, or Spark does not support its version.
    """
    path, origin = _locate(environment)
    java = _ask(path)
    if java is None:
        raise SettingsError(f"{path} ({origin}) does not run: it is not a working Java. {_advice()}")
    if not OLDEST <= java.major <= NEWEST:
        raise SettingsError(
            f"{path} ({origin}) is Java {java.version}; Tidegate needs Java {OLDEST} to {NEWEST}. {_advice()}"
        )
    return java


def _locate(environment: Mapping[str, str]) -> tuple[Path, str]:
    home = environment.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if not path.exists():
            raise SettingsError(f"JAVA_HOME is {home}, but {path} does not exist. {_advice()}")
        return path, "from JAVA_HOME"
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found is None:
        raise SettingsError(f"no Java found: JAVA_HOME is not set and PATH has no `java`. {_advice()}")
    return Path(found), "from PATH"


def _ask(path: Path) -> Java | None:
    try:
        answer = subprocess.run(
            [str(path), "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(answer.stderr) or _VERSION.search(answer.stdout)
    if match is None:
        return None
    return Java(path, match["version"], int(match["major"]))


def _advice() -> str:
    """Return advice: a supported Java that is installed already, or how to install one."""
    for pattern in _KNOWN_HOMES:
        root = Path(pattern.split("*", 1)[0]).parent
        for home in sorted(root.glob(str(Path(pattern).relative_to(root)))):
            java = _ask(home / "bin" / "java")
            if java is not None and OLDEST <= java.major <= NEWEST:
                return f"Java {java.version} is installed: export JAVA_HOME={home}"
    return f"Install one. {_INSTALL.get(sys.platform, _INSTALL['linux'])}"
