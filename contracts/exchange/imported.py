"""The result of an import: a contract document, and the parts of the source that it cannot express."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tidegate.contracts.document.source import escape

_SEMANTIC = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(-[0-9A-Za-z.-]+)?")
_NO_TOPIC = re.compile(r"[^a-zA-Z0-9._-]+")
_NO_RULE_ID = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of the source by which no record is judged: its JSON Pointer in the source, and the reason."""

    pointer: str
    reason: str

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Imported:
    """An imported contract document with its schema in `definition`, which `parse_contract` can read."""

    document: dict[str, Any]
    left_out: tuple[LeftOut, ...] = ()
    places: dict[str, str] = field(default_factory=dict)
    """The JSON Pointer in the source of each rule and expectation, by id, where known."""


def semantic_version(text: object) -> str | None:
    """Return a version such as `v1.1` or `2` as a semantic version; None for any other text."""
    found = _SEMANTIC.fullmatch(str(text).strip())
    if found is None:
        return None
    return ".".join(str(int(part or 0)) for part in found.groups()[:3]) + (found[4] or "")


def identifier(*parts: object) -> str:
    """Return the non-empty parts joined by dots as an identifier of a contract or topic."""
    named = [_NO_TOPIC.sub("-", str(part)).strip("._-") for part in parts if part]
    return ".".join(part for part in named if part)[:200]


def rule_id(name: str, taken: Iterable[str]) -> str:
    """Return a rule id for a name that is not in `taken`."""
    plain = _NO_RULE_ID.sub("-", name.lower()).strip("._-")[:70] or "rule"
    used = set(taken)
    found, number = plain, 2
    while found in used:
        found, number = f"{plain}-{number}", number + 1
    return found


def pointer(*tokens: object) -> str:
    """Return a JSON Pointer of these tokens."""
    return "".join(f"/{escape(str(token))}" for token in tokens)
