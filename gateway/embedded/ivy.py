"""Run PySpark's copy of Ivy, to resolve jars without Maven and without URLs in the repository."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.gateway.embedded.java import Java

Progress = Callable[[str, int, int], None]
"""A function that gets a phase ("resolve", "download", "verify"), the number of jars done, and their total."""

_PHASES = {"found ": "resolve", "[SUCCESSFUL ]": "download"}
# Signs of failed downloads, the most specific first: a module is usually "not found" because a server was not reached.
_REASONS = ("server access error", "no space left", "download failed", "not found")


@dataclass(frozen=True, slots=True)
class JarResolution:
    """Jars to resolve into `target/<configuration>/`. `cache` speeds up another attempt; `expected` is their number."""

    ivy_file: Path
    cache: Path
    target: Path
    expected: int


def resolve(resolution: JarResolution, java: Java, progress: Progress) -> None:
    """Resolve every configuration of an Ivy file into its own folder.

    TIDEGATE_IVY_SETTINGS names an ivysettings.xml for a mirror. Raises Unavailable, with advice, if a download fails,
    and SettingsError if that file or PySpark is missing.
    """
    arguments = [
        # Without Ivy's checksums, because the caller checks SHA-256 sums of a lock.
        *(str(java.path), *_proxy_options(), "-Divy.checksums="),
        *("-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *("-cache", str(resolution.cache), "-ivy", str(resolution.ivy_file), "-types", "jar", "bundle"),
        *("-confs", "*"),
        *("-retrieve", f"{resolution.target}/[conf]/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    settings = os.environ.get("TIDEGATE_IVY_SETTINGS")
    if settings:
        if not Path(settings).is_file():
            raise SettingsError(f"TIDEGATE_IVY_SETTINGS names {settings}, which is not a file")
        arguments += ["-settings", settings]
    counts = dict.fromkeys(_PHASES.values(), 0)
    lines = []
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        try:
            for line in ivy.stdout or ():
                lines.append(line.strip())
                for start, phase in _PHASES.items():
                    if lines[-1].startswith(start):
                        counts[phase] += 1
                        progress(phase, counts[phase], resolution.expected)
        except BaseException:
            ivy.kill()  # an interrupted download must not continue
            raise
    if ivy.returncode != 0:
        raise Unavailable(_failure(lines))


def _failure(lines: list[str]) -> str:
    printed = (line for sign in _REASONS for line in lines if sign in line.lower())
    reasons = list(dict.fromkeys(printed))[:2] or lines[-3:]
    return "\n  ".join(
        (
            "the jars could not be downloaded:",
            *reasons,
            "Behind a proxy, set HTTPS_PROXY. For a mirror of Maven Central, write an ivysettings.xml with your",
            "resolver and set TIDEGATE_IVY_SETTINGS to its path. Then try again: tidegate jars",
        )
    )


def pyspark_home() -> Path:
    """Return the folder of the installed PySpark, without importing it. Raises SettingsError."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SettingsError("pyspark is not installed: run make setup, or pip install 'tidegate[spark]'")
    return Path(spec.origin).parent


def _ivy_jar() -> Path:
    folder = pyspark_home() / "jars"
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise SettingsError(f"no ivy-*.jar in {folder}: reinstall pyspark")
    return found[0]


def _proxy_options() -> list[str]:
    """Return the proxy settings as Java options, because Java does not read HTTPS_PROXY."""
    options = []
    for scheme, address in urllib.request.getproxies().items():
        proxy = urllib.parse.urlsplit(address)
        if scheme in {"http", "https"} and proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    return options
