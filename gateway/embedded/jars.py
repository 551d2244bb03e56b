"""The jars of the embedded run: resolved by the Ivy that PySpark carries, locked by SHA-256, cached.

The cache is one folder for each content of `jars.lock`; a folder that exists is complete, because it is renamed
into place after every jar in it has been checked.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from contracts.errors import SettingsError, Unavailable
from gateway.embedded.java import Java, find_java

Progress = Callable[[str, int, int], None]
"""Called with a phase ("resolve", "download", "verify"), how many jars are done, and of how many."""

_HERE = Path(__file__).parent
_IVY_FILE = _HERE / "ivy.xml"
LOCK_FILE = _HERE / "jars.lock"

_PHASES = {"found ": "resolve", "[SUCCESSFUL ]": "download"}
_FAILURE = re.compile(
    r"(?i)server access error|unknownhost|module not found|not found:|download failed|sslhandshake"
)


@dataclass(frozen=True, slots=True)
class Jars:
    """Two folders of checked jars: the broker's class path, and what the job adds to Spark's own."""

    broker_dir: Path
    spark_dir: Path


def find_jars() -> Jars | None:
    """Return the cached jars without checking their content; None when they are not installed. Cheap."""
    folder = cache_root() / _lock_digest()
    return _jars_of(folder) if folder.is_dir() else None


def damaged_jars(jars: Jars, progress: Progress | None = None) -> tuple[str, ...]:
    """Return what in `jars` differs from the lock, such as "broker/x.jar: missing"; empty when all is well."""
    return _differences(jars.broker_dir.parent, read_lock(), progress or _silent)


def ensure_jars(progress: Progress | None = None) -> Jars:
    """Return checked jars; resolve them first if they are not in the cache, or are damaged there.

    Safe to call from several processes at once: one resolves, the others wait for it. Raises SettingsError when
    Java is missing or a jar is not the locked one, Unavailable when a download fails.
    """
    progress = progress or _silent
    folder = cache_root() / _lock_digest()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive(folder.parent / ".lock"):
        if folder.is_dir():
            if not _differences(folder, read_lock(), progress):
                return _jars_of(folder)
            shutil.rmtree(folder)
        _install(folder, find_java(), progress)
    return _jars_of(folder)


def relock(progress: Progress | None = None) -> int:
    """Resolve `ivy.xml` anew and write `jars.lock` from what arrives; return the number of jars."""
    with tempfile.TemporaryDirectory(prefix="tidegate-jars-") as scratch:
        found = _resolve(Path(scratch), find_java(), progress or _silent)
        names = sorted(str(path.relative_to(found)) for path in found.rglob("*.jar"))
        LOCK_FILE.write_text("".join(f"{_sha256(found / name)}  {name}\n" for name in names))
    return len(names)


def cache_root() -> Path:
    """Return the folder of all cached jars: TIDEGATE_JARS_DIR, or the user's cache folder."""
    override = os.environ.get("TIDEGATE_JARS_DIR")
    return Path(override) if override else platformdirs.user_cache_path("tidegate") / "jars"


def read_lock() -> dict[str, str]:
    """Return `{"broker/name.jar": sha256 hex}`. The file has the format of `sha256sum`."""
    pairs = (line.split("  ", 1) for line in LOCK_FILE.read_text().splitlines())
    return {name: digest for digest, name in pairs}


def _lock_digest() -> str:
    return hashlib.sha256(LOCK_FILE.read_bytes()).hexdigest()[:16]


def _jars_of(folder: Path) -> Jars:
    return Jars(folder / "broker", folder / "spark")


def _silent(_phase: str, _done: int, _total: int) -> None:
    """Show nothing."""


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _install(folder: Path, java: Java, progress: Progress) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=".resolving-", dir=folder.parent))
    try:
        found = _resolve(scratch, java, progress)
        differences = _differences(found, read_lock(), progress)
        if differences:
            raise SettingsError(
                "these jars are not the locked ones, so none was installed: "
                + "; ".join(differences)
                + ". Try again; if it stays, whoever answered the downloads serves other files than were locked"
            )
        found.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _differences(folder: Path, lock: dict[str, str], progress: Progress) -> tuple[str, ...]:
    present = {str(path.relative_to(folder)) for path in folder.rglob("*.jar")}
    problems = [f"{name}: not in jars.lock" for name in sorted(present - lock.keys())]
    for done, (name, digest) in enumerate(lock.items(), start=1):
        if name not in present:
            problems.append(f"{name}: missing")
        elif _sha256(folder / name) != digest:
            problems.append(f"{name}: other bytes than locked")
        progress("verify", done, len(lock))
    return tuple(problems)


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _resolve(scratch: Path, java: Java, progress: Progress) -> Path:
    """Run Ivy in `scratch`; return the folder that holds `broker/*.jar` and `spark/*.jar`."""
    found = scratch / "jars"
    log = scratch / "ivy.log"
    arguments = [
        *(str(java.path), *_proxy_options(), "-Divy.checksums="),  # jars.lock is the stronger check
        *("-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *("-cache", str(scratch / "ivy"), "-ivy", str(_IVY_FILE), "-types", "jar", "bundle"),
        *("-confs", "broker", "spark", "-retrieve", f"{found}/[conf]/[artifact]-[revision].[ext]"),
    ]
    settings = os.environ.get("TIDEGATE_IVY_SETTINGS")
    if settings:
        arguments += ["-settings", settings]
    total = len(read_lock()) if LOCK_FILE.exists() else 0
    counts = dict.fromkeys(_PHASES.values(), 0)
    lines = []
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        for line in ivy.stdout or ():
            lines.append(line)
            for start, phase in _PHASES.items():
                if line.lstrip().startswith(start):
                    counts[phase] += 1
                    progress(phase, counts[phase], total)
    log.write_text("".join(lines))
    if ivy.returncode != 0:
        raise Unavailable(_failure(lines))
    return found


def _failure(lines: list[str]) -> str:
    reasons = list(dict.fromkeys(line.strip() for line in lines if _FAILURE.search(line)))[:3]
    return (
        f"the jars could not be downloaded: {'; '.join(reasons) or ' '.join(lines[-3:]).strip()}\n"
        "Behind a proxy, set HTTPS_PROXY. For a mirror of Maven Central, write an ivysettings.xml with your "
        "resolver and set TIDEGATE_IVY_SETTINGS to its path. Then try again: tidegate jars"
    )


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SettingsError(
            "pyspark is not installed, and its jars folder holds the Ivy that resolves the rest"
        )
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise SettingsError(f"no ivy-*.jar in {Path(spec.origin).parent / 'jars'}: reinstall pyspark")
    return found[0]


def _proxy_options() -> list[str]:
    """Java does not read HTTPS_PROXY and its like; say the same to it in its own words."""
    options = []
    for scheme, address in urllib.request.getproxies().items():
        proxy = urllib.parse.urlsplit(address)
        if scheme in {"http", "https"} and proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    return options
