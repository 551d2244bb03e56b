"""A folder of JSON Lines that the tasks of `tidegate judge --spark` write, each a file of its own."""

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
"""The mark of Spark and Hadoop for a folder that is whole."""


@dataclass(frozen=True, slots=True)
class JudgedFolder:
    """The folder; `mark` is a file in it by which a task knows that it sees this folder, and not another of its name."""

    path: Path
    mark: str

    @classmethod
    @contextmanager
    def created(cls, path: Path | None) -> Iterator[Self | None]:
        """Create a folder that only its owner may read; None without a path. After an error it is removed.

        Raises SettingsError for one that exists, so that no data is overwritten.
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
            for left in path.glob(".*"):  # by tasks that were lost, and the mark
                left.unlink()
            (path / _SUCCESS).touch()
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    def scratch(self) -> Path:
        """Return the name of a file to write; `keep` makes it the result of a task, of which several attempts may run.

        Raises SettingsError if this machine does not see the folder.
        """
        if not (self.path / self.mark).exists():
            raise SettingsError(
                f"{socket.gethostname()} does not see the folder {self.path}: name one that all executors have under the "
                "same path"
            )
        return self.path / f".{uuid4().hex}"

    def keep(self, scratch: Path, task: int) -> None:
        """Make a file the result of a task; an empty one is removed."""
        if scratch.stat().st_size:
            scratch.replace(self.path / f"part-{task:05}.jsonl")
        else:
            scratch.unlink()
