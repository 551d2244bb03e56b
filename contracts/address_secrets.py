"""Secrets in URLs: found in arguments of processes, and masked in logs and messages."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any, Final

MASK: Final = "***"

# Every repetition has a bound: an error can quote a text of any length, and the search must take linear time.
_SCHEME: Final = r"[A-Za-z][\w+.:-]{0,40}://"
_PORT: Final = r"[0-9]*(?:[\s/?#\"']|$)"
"""The text after a colon in `host:port/path@x`, which has no password."""
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
    """Return whether a URL has a password, a token as its user, or a parameter with the name of a secret."""
    scheme, separator, rest = address.partition("://")
    if not scheme or not separator:
        return False
    return any(pattern.search(address) for pattern in (_PASSWORD, _WEB_USER)) or bool(_PARAMETER.search(rest))


def masked(text: str) -> str:
    """Replace the secrets of URLs in a text by MASK. Errors of libraries quote whole URLs."""
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
