"""The jars of the embedded run: resolved once, checked against SHA-256 sums, and cached.

The cache has one folder for each content of `jars.lock`. A folder that exists is complete, because it is renamed
into place after every jar in it has been checked.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import platformdirs

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.embedded.ivy import JarResolution, Progress, resolve
from tidegate.gateway.embedded.java import find_java

LOCK_FILE = Path(__file__).with_name("jars.lock")
IVY_FILE = Path(__file__).with_name("ivy.xml")
S3_LOCK_FILE = Path(__file__).with_name("s3.lock")
S3_IVY_FILE = Path(__file__).with_name("s3.xml")


@dataclass(frozen=True, slots=True)
class Jars:
    """Two folders of jars: the broker's class path, and the jars that the job adds to those of Spark."""

    broker_dir: Path
    spark_dir: Path


class JarCache:
    """A cache of the jars of one lock file, under one root.

    `lock` is `{"broker/name.jar": SHA-256 in hex}`; the file has the format of `sha256sum`.
    """

    def __init__(self, root: Path, lock_file: Path = LOCK_FILE, ivy_file: Path = IVY_FILE) -> None:
        content = lock_file.read_bytes()
        self.folder = root / hashlib.sha256(content).hexdigest()[:16]
        self.lock = {
            name: digest for digest, name in (line.split() for line in content.decode().splitlines())
        }
        self._ivy_file = ivy_file

    @cached_property
    def jars(self) -> Jars:
        """Return the folders of the jars, which need not exist yet."""
        return Jars(self.folder / "broker", self.folder / "spark")

    def damage(self, progress: Progress | None = None) -> tuple[str, ...]:
        """Read every cached jar; return the differences from the lock, such as "broker/x.jar: missing"."""
        return self._differences(self.folder, progress or _silent)

    def ensure(self, progress: Progress | None = None) -> Jars:
        """Return checked jars; resolve them first if they are missing or damaged in the cache.

        Several processes may call it at once: one resolves, the others wait. Raises SettingsError if Java is missing, the
        cache cannot be written, or a jar differs from the lock. Raises Unavailable if a download fails.
        """
        if self.damage(progress):
            try:
                self._install(progress or _silent)
            except PermissionError as error:
                raise SettingsError(
                    f"the jars cannot be kept in {error.filename}: set TIDEGATE_JARS_DIR to a folder of yours"
                ) from error
        return self.jars

    def _install(self, progress: Progress) -> None:
        root = self.folder.parent
        root.mkdir(parents=True, exist_ok=True)
        with _exclusive(root / ".lock"):
            if not self._differences(self.folder, progress):
                return  # another process was faster
            java = find_java()
            with tempfile.TemporaryDirectory(
                prefix=".resolving-", dir=root, ignore_cleanup_errors=True
            ) as scratch:
                target = Path(scratch) / "jars"
                # Kept after an interrupted download, so that the next attempt continues it.
                cache = root / ".ivy"
                resolve(JarResolution(self._ivy_file, cache, target, len(self.lock)), java, progress)
                shutil.rmtree(cache, ignore_errors=True)
                differences = self._differences(target, progress)
                if differences:
                    raise SettingsError(
                        "nothing was installed, because the jars that arrived are not the locked ones: "
                        f"{'; '.join(differences)}. Try again; if it stays, ask who runs the mirror"
                    )
                shutil.rmtree(self.folder, ignore_errors=True)
                target.rename(self.folder)

    def _differences(self, folder: Path, progress: Progress) -> tuple[str, ...]:
        present = {str(path.relative_to(folder)) for path in folder.rglob("*.jar")}
        problems = [f"{name}: not in the lock" for name in sorted(present - self.lock.keys())]
        for done, (name, digest) in enumerate(self.lock.items(), start=1):
            if name not in present:
                problems.append(f"{name}: missing")
            elif _sha256(folder / name) != digest:
                problems.append(f"{name}: other bytes than locked")
            progress("verify", done, len(self.lock))
        return tuple(problems)


def default_cache(lock_file: Path = LOCK_FILE, ivy_file: Path = IVY_FILE) -> JarCache:
    """Return the cache of a lock file: under TIDEGATE_JARS_DIR, or in the user's cache folder."""
    override = os.environ.get("TIDEGATE_JARS_DIR")
    root = Path(override) if override else platformdirs.user_cache_path("tidegate") / "jars"
    return JarCache(root, lock_file, ivy_file)


def find_jars() -> Jars | None:
    """Return the cached jars without checking their content; None if they are not installed."""
    cache = default_cache()
    return cache.jars if cache.folder.is_dir() else None


def ensure_jars(progress: Progress | None = None) -> Jars:
    """Return the checked jars of the embedded run; install them first if necessary. Raises SettingsError, Unavailable."""
    return default_cache().ensure(progress)


def ensure_s3_jars(progress: Progress | None = None) -> Path:
    """Return the folder of the checked jars for tables in S3; install them if necessary. Raises as `ensure_jars` does."""
    cache = default_cache(S3_LOCK_FILE, S3_IVY_FILE)
    cache.ensure(progress)
    return cache.folder / "s3"


def relock(progress: Progress | None = None, lock_file: Path = LOCK_FILE, ivy_file: Path = IVY_FILE) -> int:
    """Resolve an Ivy file again, and write the lock from the downloaded jars; return their number."""
    with tempfile.TemporaryDirectory(prefix="tidegate-jars-") as scratch:
        target = Path(scratch) / "jars"
        resolve(JarResolution(ivy_file, Path(scratch) / "ivy", target, 0), find_java(), progress or _silent)
        found = sorted(target.rglob("*.jar"))
        lock_file.write_text("".join(f"{_sha256(path)}  {path.relative_to(target)}\n" for path in found))
    return len(found)


def _silent(_phase: str, _done: int, _total: int) -> None:
    """Show nothing."""


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
