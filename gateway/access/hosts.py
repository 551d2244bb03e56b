"""Host names of the registry: checks of the Host and Origin headers, as protection against DNS rebinding."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

EVERY_HOST = "*"
_LONGEST_HOST = 300
"""Maximum characters of a Host header: 253 for the name, plus a port. Longer ones are refused before the cache."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_allowed(host: str, allowed: tuple[str, ...]) -> bool:
    """Return whether a Host header names this server: a loopback name, an IP address, or one of `allowed`.

    IP addresses are always allowed: DNS rebinding needs a name, and health probes use addresses.
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
    # The scheme of the request is not known, because a proxy may terminate TLS. A Host header without a port therefore
    # means the default port of the origin's scheme.
    same_port = port == host_port if host_port is not None else port == _DEFAULT_PORTS.get(parts.scheme)
    return (name == host_name and same_port) or name in allowed


def split_host(host: str) -> tuple[str, int | None]:
    """Split a Host header into its name, in lower case without brackets, and its port.

    The port is None if there is none. The name is empty for a header that cannot be parsed.
    """
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return "", None
