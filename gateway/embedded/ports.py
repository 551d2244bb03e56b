"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import fcntl
import os
import random
import re
import socket
import tempfile
from pathlib import Path
from typing import IO

import psutil

from tidegate.contracts.errors import SettingsError

HOST = "127.0.0.1"
"""The only address of the embedded run. A number, because `localhost` may resolve to ::1 first."""

REGISTRY_PORT = 8081
BROKER_PORT = 19092
"""The default ports, which are tried first."""

_BELOW_EPHEMERAL = range(20_000, 32_000)
"""The range of other ports, below those of outgoing connections (from 32768 on)."""


def is_free(port: int) -> bool:
    """Return whether a server could listen on `port` of the loopback interface now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do, so that connections of an earlier server in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


class ClaimedPort:
    """A free port that other runs do not take until it is released or this process ends.

    It covers the seconds between the choice of a port and the moment when a server listens on it. It only excludes
    other runs of Tidegate, because a socket that held the port would block our own server too.
    """

    def __init__(self, port: int, lock: IO[str]) -> None:
        self.port = port
        self._lock = lock

    def release(self) -> None:
        """Release the port."""
        self._lock.close()


def claim(preferred: int | None = None, *, last: Path | None = None) -> ClaimedPort:
    """Claim the first free port of: the one in the file `last`, `preferred`, random ones. Raises SettingsError.

    So a server has the port of its last start (`keep`), and clients find it again.
    """
    candidates = random.sample(_BELOW_EPHEMERAL, k=len(_BELOW_EPHEMERAL))
    first = [port for port in (_kept(last), preferred) if port is not None]
    for port in (*first, *candidates):
        claimed = _try(port)
        if claimed is not None:
            return claimed
    raise SettingsError("no TCP port between 20000 and 32000 is free on this machine")


def keep(last: Path, port: int) -> None:
    """Store a port in a file for the next start."""
    last.write_text(f"{port}\n")


def _kept(last: Path | None) -> int | None:
    """Return the port in a file; None without a file, or if it has no port from 1024 to 65535."""
    try:
        text = "" if last is None else last.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    is_port = re.fullmatch("[0-9]{4,5}", text) is not None and 1024 <= int(text) <= 65_535
    return int(text) if is_port else None


def claim_exactly(port: int, *, option: str) -> ClaimedPort:
    """Claim the port that `option` names. Raises SettingsError, which names the user of the port if known."""
    claimed = _try(port)
    if claimed is not None:
        return claimed
    raise SettingsError(
        f"port {port} is in use by {holder(port) or 'another process'}: stop it, "
        f"or leave {option} out and a free port is picked"
    )


def _try(port: int) -> ClaimedPort | None:
    folder = Path(tempfile.gettempdir()) / f"tidegate-{os.getuid()}" / "ports"
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / str(port)).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    if not is_free(port):
        lock.close()
        return None
    return ClaimedPort(port, lock)


def holder(port: int) -> str | None:
    """Return `name (pid N)` of the process that listens on `port`; None if there is none or it cannot be found."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return None
    for connection in connections:
        here = bool(connection.laddr and connection.laddr.port == port)
        if here and connection.status == psutil.CONN_LISTEN and connection.pid:
            try:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
            except psutil.Error:
                return f"pid {connection.pid}"
    return None
