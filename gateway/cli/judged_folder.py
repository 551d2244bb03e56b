"""A folder of JSON Lines files: each task of `tidegate judge --spark` writes one file."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from uuid import uuid4

from tidegate.contracts.errors import SettingsError

_SUCCESS: Final = "_SUCCESS"
"""The file that marks a folder as complete, as in Spark and Hadoop."""


@dataclass(frozen=True, slots=True)
class JudgedFolder:
    """A folder for the output of tasks. The file `mark` shows a task that its path leads to this very folder."""

    path: Path
    mark: str

    @classmethod
    @contextmanager
    def created(cls, path: Path | None) -> Iterator[Self | None]:
        """Create a folder that only its owner can read, and remove it after an error. Yields None without a path.

        Raises SettingsError for a folder that exists, to avoid overwriting data, or cannot be created.
        """
        if path is None:
            yield None
            return
        path = path.absolute()
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            raise SettingsError(f"{path} exists; name another folder, or remove it") from None
        except OSError as error:
            raise SettingsError(f"cannot create the folder {path}: {error.strerror}") from None
        folder = cls(path, f".tidegate-{uuid4().hex}")
        try:
            (path / folder.mark).touch()
            yield folder
            for left in path.glob(".*"):  # files of lost tasks, and the mark
                left.unlink()
            (path / _SUCCESS).touch()
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    def scratch(self) -> Path:
        """Return a unique path for a task's output. Several attempts of a task may run; `keep` makes one the result.

        Raises SettingsError if this machine does not see the folder.
        """
        if not (self.path / self.mark).exists():
            raise SettingsError(
                f"{socket.gethostname()} does not see the folder {self.path}: name one that all executors have under the "
                "same path"
            )
        return self.path / f".{uuid4().hex}"

    def keep(self, scratch: Path, task: int) -> None:
        """Make a file the result of a task; remove an empty one."""
        if scratch.stat().st_size:
            scratch.replace(self.path / f"part-{task:05}.jsonl")
        else:
            scratch.unlink()
