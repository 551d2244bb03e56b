"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import random
import socket

import psutil

from contracts.errors import SettingsError

HOST = "127.0.0.1"
"""The embedded run listens here only. A number, because `localhost` may resolve to ::1 first."""

GATEWAY_PORT = 8081
BROKER_PORT = 19092
"""The ports that are tried first."""

_BELOW_EPHEMERAL = range(20_000, 32_000)
"""Where other ports are looked for: outgoing connections take theirs from 32768 on."""


def is_free(port: int) -> bool:
    """Whether a server could listen on `port` of the loopback interface now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections of a predecessor in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def pick(preferred: int | None, *, taken: frozenset[int] = frozenset()) -> int:
    """Return `preferred` if there is one, it is free and not in `taken`; else a random free port."""
    if preferred is not None and preferred not in taken and is_free(preferred):
        return preferred
    for port in random.sample(_BELOW_EPHEMERAL, k=len(_BELOW_EPHEMERAL)):
        if port not in taken and is_free(port):
            return port
    raise SettingsError("no TCP port between 20000 and 32000 is free on this machine")


def require(port: int, *, option: str) -> int:
    """Return `port`, which a person asked for with `option`; raise SettingsError naming who holds it."""
    if is_free(port):
        return port
    raise SettingsError(
        f"port {port} is in use by {holder(port) or 'another process'}: stop it, "
        f"or leave {option} out and a free port is picked"
    )


def holder(port: int) -> str | None:
    """Return `name (pid N)` of the process that listens on `port`, None where it cannot be known."""
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
