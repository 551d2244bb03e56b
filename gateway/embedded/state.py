"""The state directory: one folder, marked as Tidegate's own, with all data of an embedded run."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import IO, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.embedded.processes import RunDirectory

_MARKER = "tidegate-state.json"
_LOCK = "lock"
_FORMAT = 1
_OURS = ("broker", "warehouse", "checkpoints", "logs", "run")
_PORT = "gateway.port"
_OUR_FILES = (_PORT, "registry.db", "registry.db-wal", "registry.db-shm", "registry.db-journal")


class _Marker(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    made_by: Literal["tidegate"]
    format: int


class StateDirectory:
    """One folder with the broker's data, registry, tables, checkpoints and logs of one embedded run.

    A context manager that locks the folder against other runs. On entry, it ends the processes that a killed run left
    (`ended` names them); with `fresh`, it also removes the content. Raises SettingsError if the folder is in use or not
    a state folder.
    """

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self.path = path.absolute()
        self.run = RunDirectory(self.path / "run", self.logs)
        self.ended: tuple[str, ...] = ()
        self._fresh = fresh
        self._lock: IO[str] | None = None

    @property
    def broker(self) -> Path:
        """Return the broker's folder."""
        return self.path / "broker"

    @property
    def gateway_port(self) -> Path:
        """Return the file with the gateway's port of the last start."""
        return self.path / _PORT

    @property
    def warehouse(self) -> Path:
        """Return the folder of the Iceberg tables and their catalog."""
        return self.path / "warehouse"

    @property
    def logs(self) -> Path:
        """Return the folder of the logs, one for each part."""
        return self.path / "logs"

    @property
    def checkpoints(self) -> Path:
        """Return the folder of the job's checkpoints."""
        return self.path / "checkpoints"

    @property
    def database_url(self) -> str:
        """Return the SQLAlchemy URL of the registry's database."""
        return f"sqlite:///{self.path / 'registry.db'}"

    @property
    def ready_file(self) -> Path:
        """Return the file that the job writes when all its queries run."""
        return self.path / "run" / "job.ready"

    def __enter__(self) -> Self:
        self._claim()
        self._lock = self._take_lock()
        try:
            self.ended = self.run.end_leftovers()
            if self._fresh:
                self._wipe()
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _claim(self) -> None:
        """Create and mark the folder. Raises SettingsError if it has other files, or another format."""
        marker = self.path / _MARKER
        if self.path.exists() and not self.path.is_dir():
            raise SettingsError(f"{self.path} is a file, not a folder: choose another with --state")
        if not marker.exists():
            if self.path.exists() and any(map(_is_foreign, self.path.iterdir())):
                raise SettingsError(
                    f"{self.path} holds files that Tidegate did not make, so it is left alone: "
                    "choose another folder with --state"
                )
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            if self.path.stat().st_mode & 0o007:  # an empty folder that somebody has made for this
                self.path.chmod(0o700)
            marker.write_text(_Marker(made_by="tidegate", format=_FORMAT).model_dump_json() + "\n")
            (self.path / ".gitignore").write_text("*\n")
        try:
            found = _Marker.model_validate_json(marker.read_bytes())
        except ValidationError:
            raise SettingsError(f"{marker} is damaged: choose another folder with --state") from None
        if found.format != _FORMAT:
            raise SettingsError(
                f"{self.path} is of format {found.format}, this version of Tidegate knows format {_FORMAT}: "
                "choose another folder with --state"
            )

    def _take_lock(self) -> IO[str]:
        lock = (self.path / _LOCK).open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "another run"
            lock.close()
            raise SettingsError(
                f"{self.path} is in use by {holder}: stop it, or choose another folder with --state"
            ) from None
        lock.truncate(0)
        lock.write(f"pid {os.getpid()}")
        lock.flush()
        return lock

    def _wipe(self) -> None:
        """Remove the files and folders of a run, by name, and nothing else."""
        for name in _OURS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        for name in _OUR_FILES:
            (self.path / name).unlink(missing_ok=True)


def _is_foreign(entry: Path) -> bool:
    """Return whether an entry is not the state folder of another run, such as the demo's."""
    return not (entry / _MARKER).exists()
