"""Names by which the registry may be asked for: a page of another site cannot borrow one (DNS rebinding)."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

EVERY_HOST = "*"
_LONGEST_HOST = 300
"""A name has at most 253 characters, and a port follows; what is longer is refused, so that none is remembered."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_allowed(host: str, allowed: tuple[str, ...]) -> bool:
    """Return whether a Host header names this server: a loopback name, an IP address, or one of `allowed`.

    An IP address needs no setting: it cannot be made to lead to another machine, and health probes use it.
    """
    return len(host) <= _LONGEST_HOST and _is_allowed(host, allowed)


@lru_cache(maxsize=1024)
def _is_allowed(host: str, allowed: tuple[str, ...]) -> bool:
    name, _ = split_host(host)
    if EVERY_HOST in allowed or name in allowed or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_same_origin(origin: str, host: str, allowed: tuple[str, ...]) -> bool:
    """Return whether an Origin header names the server of a Host header, or one of `allowed` (behind a proxy)."""
    try:
        parts = urlsplit(origin)
        name, port = (parts.hostname or "").rstrip("."), parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return False
    if not name:  # `null`: a page without an origin, such as a sandboxed frame
        return False
    host_name, host_port = split_host(host)
    # The scheme of Host is not known: a TLS proxy may have decoded it. Left out, the port is that of the origin's scheme.
    same_port = port == host_port if host_port is not None else port == _DEFAULT_PORTS.get(parts.scheme)
    return (name == host_name and same_port) or name in allowed


def split_host(host: str) -> tuple[str, int | None]:
    """Split a Host header into its name in lower case, without brackets, and its port."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return "", None
