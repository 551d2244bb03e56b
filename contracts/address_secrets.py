"""Secrets in addresses: found among arguments, and masked in what others can read."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any, Final

MASK: Final = "***"

# Every repetition has a bound: an error can quote a text of any length, and the search must stay linear.
_SCHEME: Final = r"[A-Za-z][\w+.:-]{0,40}://"
_PORT: Final = r"[0-9]*(?:[\s/?#\"']|$)"
"""What follows a colon in `host:port/path@x`, which has no password."""
_PASSWORD: Final = re.compile(rf"(?P<kept>{_SCHEME}[^\s/?#@:]{{0,4000}}:)(?!{_PORT})[^@]{{0,4000}}(?=@)")
_PASSWORD_IN_TEXT: Final = re.compile(
    rf"(?P<kept>{_SCHEME}[^\s/?#@:]{{0,4000}}:)(?!{_PORT})[^\s@]{{0,4000}}(?=@)"
)
_WEB_USER: Final = re.compile(r"(?P<kept>https?://)[^\s/?#@]+(?=@)", re.IGNORECASE)
"""Registries, catalogs and forges take a token as the user of a web address."""
_PARAMETER: Final = re.compile(
    r"(?P<kept>[?&;](?:[\w.-]*(?:password|secret|token|credential)|passwd|pwd|sig|signature"
    r"|(?:[\w.-]*[._-])?(?:access|account|private|api|shared)[._-]?key)=)[^&;\s\"']+",
    re.IGNORECASE,
)


def holds_secret(address: str) -> bool:
    """Return whether an address has a password, a token as its user, or a parameter whose name says that it is secret."""
    scheme, separator, rest = address.partition("://")
    if not scheme or not separator:
        return False
    return any(pattern.search(address) for pattern in (_PASSWORD, _WEB_USER)) or bool(_PARAMETER.search(rest))


def masked(text: str) -> str:
    """Return a text in which the secrets of addresses are three asterisks. Foreign errors quote whole addresses."""
    if "://" not in text:
        return text
    for pattern in (_WEB_USER, _PASSWORD_IN_TEXT, _PARAMETER):
        text = pattern.sub(rf"\g<kept>{MASK}", text)
    return text


def mask_event(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask the texts of a log event: a processor of structlog."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = masked(value)
        elif isinstance(value, list):
            event[key] = [masked(each) if isinstance(each, str) else each for each in value]
    return event
