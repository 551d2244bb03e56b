"""The precedence of semantic versions, as bytes that every database compares in the same way."""

from __future__ import annotations

_DIGITS = 4  # digits for the length of a number, enough for any number in a version


def precedence(version: str) -> bytes:
    """Return a key whose bytewise order is the precedence of versions: 1.9.0 < 1.10.0-rc.1 < 1.10.0.

    `version` matches `tidegate.contracts.document.terms.SemanticVersion`. Source: Semantic Versioning 2.0.0, clause 11.
    """
    core, _, prerelease = version.partition("-")
    key = b"".join(_number(part) for part in core.split("."))
    if not prerelease:
        return key + b"\x02"  # a release comes after all its pre-releases
    return key + b"\x01" + b"".join(_identifier(part) for part in prerelease.split("."))


def next_minor(version: str) -> str:
    """Return the version whose minor number is one higher: 1.10.0 for 1.9.3."""
    major, minor, _ = version.partition("-")[0].split(".")
    return f"{major}.{int(minor) + 1}.0"


def next_major(version: str) -> str:
    """Return the version whose major number is one higher: 2.0.0 for 1.9.3."""
    return f"{int(version.partition('.')[0]) + 1}.0.0"


def next_patch(version: str) -> str:
    """Return the next patch version: 1.9.4 for 1.9.3, and 1.9.3 for 1.9.3-rc.1."""
    core, _, prerelease = version.partition("-")
    major, minor, patch = core.split(".")
    return core if prerelease else f"{major}.{minor}.{int(patch) + 1}"


def major_of(version: str) -> int:
    """Return the major number. Versions with the same one are checked for compatibility with each other."""
    return int(version.partition(".")[0])


def _number(digits: str) -> bytes:
    """Encode a number of any size, preceded by its length so that 9 sorts before 10."""
    return f"{len(digits):0{_DIGITS}}{digits}".encode()


def _identifier(part: str) -> bytes:
    """Encode a pre-release identifier. Numbers sort before names, and a list of identifiers before its extensions."""
    if part.isdigit():
        return b"\x03" + _number(part.lstrip("0") or "0") + b"\x00"
    return b"\x04" + part.encode() + b"\x00"
