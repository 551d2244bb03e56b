"""A real registry for jobs in processes of their own."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path


class Registry:
    """A real registry in a process of its own."""

    def __init__(self, folder: Path, port: int) -> None:
        command = [sys.executable, "-m", "tidegate.gateway.cli.main", "serve", "--port", str(port)]
        self._process = subprocess.Popen(
            [*command, "--database-url", f"sqlite:///{folder}/registry.db"], stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        self.port = next(
            int(event["port"])
            for event in map(json.loads, self._process.stderr)
            if event["event"] == "registry_listening"
        )
        self.url = f"http://127.0.0.1:{self.port}"
        # Its log is not read: it must not fill the pipe.
        self._drain = threading.Thread(target=self._process.stderr.read, daemon=True)
        self._drain.start()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._drain.join(30)
        assert self._process.stderr is not None
        self._process.stderr.close()


def back_up(folder: Path) -> None:
    """Copy the database of a registry that runs in a folder."""
    with (
        closing(sqlite3.connect(folder / "registry.db")) as source,
        closing(sqlite3.connect(folder / "backup.db")) as copy,
    ):
        source.backup(copy)


def put_back(folder: Path) -> None:
    """Replace the database of a registry that has ended with its copy."""
    for left in folder.glob("registry.db-*"):
        left.unlink()
    shutil.copy(folder / "backup.db", folder / "registry.db")
