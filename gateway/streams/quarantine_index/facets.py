"""Facets: properties that refused records have in common, by which they are counted.

They are problems, contract versions, producers, and all records of a stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Self

from tidegate.contracts.document.fields import join, tokens
from tidegate.contracts.stream.evidence import Evidence
from tidegate.contracts.verdict import Severity, Stage, Violation
from tidegate.gateway.storage.quarantine_index import Facet

OTHER: Final = "other"
_DIGEST_BYTES = 16
_LONGEST = 500
"""Maximum characters of a code, pointer, message or version; longer ones exist only in forged headers and are cut."""
_REQUIRED = re.compile(r"required property `(.*)` is missing", re.DOTALL)
_NUMBERS = re.compile(r"\d[\d,.]*")


class FacetKind(StrEnum):
    """The kinds of facets."""

    ALL = "all"
    PROBLEM = "problem"
    VERSION = "version"
    PRODUCER = "producer"


@dataclass(frozen=True, slots=True)
class ProblemKey:
    """The properties that refused records of one problem have in common.

    `field` is a JSON Pointer in which every index is `*`. `shape` is that of the offending value, or "".
    `sentence` is the normalised message of a frame or decode error, "" for the other stages.
    """

    stage: str
    code: str
    field: str
    shape: str = ""
    sentence: str = ""

    @property
    def is_noise(self) -> bool:
        """Return whether the problem is about unreadable bytes; such problems are joined by their sentences."""
        return bool(self.sentence)

    def facet(self, stream: str, message: str) -> Facet:
        """Return the facet of the problem in a stream; `message` is that of one of its violations."""
        return _facet(stream, FacetKind.PROBLEM, asdict(self), message=message)

    @classmethod
    def read(cls, facet: Facet) -> Self:
        """Return the key of a problem's facet."""
        found = json.loads(facet.description)
        return cls(**{name: found[name] for name in cls.__slots__})


MOST: Final[Mapping[FacetKind, int]] = {
    FacetKind.PROBLEM: 1_000,
    FacetKind.VERSION: 200,
    FacetKind.PRODUCER: 100,
}
"""Maximum facets of one stream by kind; records of further facets are counted together, as `OTHER`."""

MOST_CODES_AGAIN: Final = 200
"""Maximum codes of one stream by which replays refused records again; further ones are counted as `OTHER`."""

OTHER_PROBLEMS: Final = ProblemKey(OTHER, "*", "")


def problem_id(facet: bytes) -> str:
    """Return the permanent id of a problem."""
    return facet.hex()


def all_records(stream: str) -> Facet:
    """Return the facet of every refused record of a stream."""
    return _facet(stream, FacetKind.ALL, {})


def version_facet(stream: str, version: str) -> Facet:
    """Return the facet of the records that a contract version refused."""
    return _facet(stream, FacetKind.VERSION, {"version": version})


def producer_facet(stream: str, header: str, value: str, shown: str | None) -> Facet:
    """Return the facet of a producer header's value.

    `value` is the value or its hash; `shown` is the value if people may read it, else None.
    """
    return _facet(stream, FacetKind.PRODUCER, {"header": header, "value": value, "shown": shown})


def described(facet: Facet) -> dict[str, Any]:
    """Return the description of a facet as an object."""
    found: dict[str, Any] = json.loads(facet.description)
    return found


@dataclass(frozen=True, slots=True)
class Offence:
    """One violation as the index sees it; `path` leads to the offending value, None if no value is read."""

    stage: Stage
    code: str
    field: str
    path: tuple[str, ...] | None
    message: str
    sentence: str
    is_absence: bool = False


@lru_cache(maxsize=4_096)  # many records have the same violations
def offences_of(violations: tuple[Violation, ...]) -> tuple[Offence, ...]:
    """Return the distinct offences of a record: of its violations of severity error, or of all if it has none."""
    errors = tuple(each for each in violations if each.severity is Severity.ERROR)
    return tuple(dict.fromkeys(_offence(each) for each in errors or violations))


def _offence(violation: Violation) -> Offence:
    stage, code, message = violation.stage, violation.code[:_LONGEST], violation.message[:_LONGEST]
    path = tokens(violation.pointer)
    if stage in {Stage.FRAME, Stage.DECODE}:
        sentence = _NUMBERS.sub("#", message)
        return Offence(stage, code, _generalised(path), None, message, sentence)
    if stage is Stage.SCHEMA and code == "required" and (missing := _REQUIRED.fullmatch(message)):
        field = _generalised((*path, missing[1]))
        return Offence(stage, code, field, None, message, "", is_absence=True)
    is_read = bool(path) and "*" not in path
    return Offence(stage, code, _generalised(path), tuple(path) if is_read else None, message, "")


def _generalised(path: tuple[str, ...] | list[str]) -> str:
    return join(tuple("*" if token.isdecimal() else token for token in path))[:_LONGEST]


def version_of(evidence: Evidence) -> str:
    """Return the contract version that refused a record."""
    return evidence.contract.rpartition("@")[2][:_LONGEST]


def _facet(stream: str, kind: FacetKind, what: dict[str, Any], **more: str) -> Facet:
    identity = json.dumps([kind.value, stream, what], ensure_ascii=True, sort_keys=True)
    digest = sha256(identity.encode()).digest()[:_DIGEST_BYTES]
    return Facet(digest, kind.value, json.dumps(what | more, ensure_ascii=True, sort_keys=True))
