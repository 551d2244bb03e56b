"""A real PostgreSQL server for one test run: it listens on a Unix socket only, and stops with the process that started it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psycopg
import pytest
from psycopg import sql

from tidegate.gateway.storage.database import Database

_BINARIES = Path("/usr/lib/postgresql")
_TEMPLATE = "tidegate_template"
_USERS = ("postgres", "nobody")
_ROOM_BYTES = 1 << 30
# Data must survive a killed gateway, but not a crash of the machine.
_QUICK = "-F -c full_page_writes=off -c shared_buffers=32MB -c max_connections=300 -c autovacuum=off"
# The shell waits until its standard input is closed, which happens however the tests end; then it removes the server.
_UNTIL_THE_PIPE_CLOSES = f"""
if "$0" start --wait --silent --pgdata "$1/data" --log "$1/log" --options "-k $1 -h '' {_QUICK}"; then
  echo ready
  read -r _
  "$0" stop --silent --pgdata "$1/data" --mode fast
  rm -rf "$1"
fi
"""


class Postgresql:
    """A server that creates databases from a migrated template."""

    def __init__(self, socket_folder: Path) -> None:
        self._folder = socket_folder
        self._admin = psycopg.connect(
            host=str(socket_folder), user="tidegate", dbname="postgres", autocommit=True
        )

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Self]:
        """Start a server from Debian's binaries. It sorts text by the locale en-US, so that tests notice a missing COLLATE."""
        binaries = newest_binaries()
        folder = Path(tempfile.mkdtemp(prefix="tidegate-pg-", dir=_memory()))
        as_user = _unprivileged(folder)
        try:
            subprocess.run(
                [binaries / "initdb", "--pgdata", folder / "data", "--auth", "trust", "--username", "tidegate", "--no-sync",
                 "--encoding", "UTF8", "--locale", "C.UTF-8", "--locale-provider", "icu", "--icu-locale", "en-US"],
                check=True, capture_output=True, **as_user,
            )  # fmt: skip
            with subprocess.Popen(
                ["sh", "-c", _UNTIL_THE_PIPE_CLOSES, binaries / "pg_ctl", folder],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, **as_user,
            ) as process:  # fmt: skip
                assert process.stdin is not None
                assert process.stdout is not None
                with process.stdin:
                    if process.stdout.readline() != b"ready\n":
                        pytest.fail("PostgreSQL did not start: " + (folder / "log").read_text())
                    server = cls(folder)
                    server._make_template()
                    yield server
                    server._admin.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def url(self, name: str) -> str:
        """Return the SQLAlchemy URL of a database."""
        return f"postgresql+psycopg://tidegate@/{name}?host={self._folder}"

    @contextmanager
    def database(self, *, template: str = _TEMPLATE) -> Iterator[str]:
        """Create a migrated database (`template0`: an empty one) and yield its URL; drop it at the end."""
        name = f"t{uuid.uuid4().hex}"
        self._do("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", name, template)
        yield self.url(name)
        self._do("DROP DATABASE {} WITH (FORCE)", name)

    def _make_template(self) -> None:
        self._do("CREATE DATABASE {}", _TEMPLATE)
        database = Database(self.url(_TEMPLATE))
        database.migrate()
        database.close()

    def _do(self, statement: str, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))  # type: ignore[arg-type]  # our own literals


def for_psycopg(url: str) -> str:
    """Return the URL for the sink, without the driver name of SQLAlchemy."""
    return url.replace("+psycopg", "")


def newest_binaries(folder: Path = _BINARIES) -> Path:
    """Return the folder of the newest PostgreSQL. If there is none, skip the test; in CI, fail it."""
    found = sorted(folder.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    missing = "PostgreSQL is not installed; as root: apt-get install postgresql"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def _unprivileged(folder: Path) -> dict[str, object]:
    """Make another user own the folder, because PostgreSQL refuses to run as root; return the options of `subprocess` for that user."""
    if os.getuid() != 0:
        return {}
    users = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = next(users[name] for name in _USERS if name in users)
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _memory() -> Path | None:
    """Return a folder in memory if it has space, else None: a database is created there in a third of the time."""
    folder = Path("/dev/shm")  # noqa: S108 - what is made in it belongs to the server's user alone
    is_roomy = folder.is_dir() and shutil.disk_usage(folder).free > _ROOM_BYTES
    return folder if is_roomy and os.access(folder, os.W_OK) else None
