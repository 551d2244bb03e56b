"""The hash chain of the audit log: values, their canonical encoding, and the check. No I/O."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

NO_ENTRY = "0" * 64
"""The hash before the first entry, and the head of an empty log."""

_HASH = re.compile(r"[0-9a-f]{64}")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@dataclass(frozen=True, slots=True)
class AuditedAction:
    """An action of a principal, at an aware instant.

    `who` is the name of the principal. `action` is a word such as `contract.published`. `subject` is the object of the
    action: a subject of the registry, or the kind and id of something else. `before` and `after` are hashes of its
    content; None if it did not exist before, or does not exist afterwards.
    """

    at: datetime
    who: str
    action: str
    subject: str
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry of the log. `number` counts from 1 without gaps; hashes are 64 lower-case hexadecimal digits."""

    number: int
    at: datetime
    who: str
    action: str
    subject: str
    before: str | None
    after: str | None
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """The number and hash of the newest entry, which the database records in a separate table."""

    number: int
    hash: str


NO_HEAD = Head(0, NO_ENTRY)
"""The head of an empty log."""


@dataclass(frozen=True, slots=True)
class InvalidEntry:
    """A line of an export that is not a valid entry; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The result of a check of the chain.

    `entries` is the number of valid entries from the first on, `head` the hash of the last of them. `broken_at` is
    the number of the first invalid entry, `reason` what is wrong there; both are None if all are valid.
    `has_known_head` is True if a valid entry is the head that was known before, or if none was given.
    """

    entries: int
    head: str
    has_known_head: bool
    broken_at: int | None = None
    reason: str | None = None

    @property
    def is_intact(self) -> bool:
        """Return whether the entries and the known head show no change, gap or cut-off end."""
        return self.broken_at is None and self.has_known_head


def canonical_json(value: Any) -> bytes:
    """Encode a JSON value so that equal values give equal bytes.

    UTF-8, no spaces, keys sorted, only necessary escapes. For the values in the log (strings, null, integers below
    2^53, ASCII keys) that is exactly the JSON Canonicalization Scheme.
    Source: RFC 8785, clause 3.2.
    """
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def content_hash(value: Any) -> str:
    """Return the SHA-256 of a JSON value in its canonical encoding: `before` and `after` of non-contracts."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def chained(change: AuditedAction, number: int, previous: str) -> AuditEntry:
    """Build the entry that follows the one whose hash is `previous`."""
    entry = AuditEntry(**asdict(change), number=number, previous=previous, hash="")
    return AuditEntry(**{**asdict(entry), "hash": entry_hash(entry)})


def entry_hash(entry: AuditEntry) -> str:
    """Return the SHA-256 of an entry in canonical JSON, with the previous hash and without its own."""
    return content_hash({name: value for name, value in document(entry).items() if name != "hash"})


def document(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as a JSON object, as it is exported and hashed.

    The instant is in UTC with six decimals, so that it has one spelling.
    """
    at = entry.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {**asdict(entry), "at": at}


def read_line(line: bytes) -> AuditEntry | InvalidEntry:
    """Parse one line of an export; return Unreadable for an invalid one."""
    try:
        return _read(json.loads(line))
    except (ValueError, RecursionError) as error:
        return InvalidEntry(f"the line is no entry: {error}")


def _read(found: Any) -> AuditEntry:
    names = AuditEntry.__slots__
    if not isinstance(found, dict) or set(found) != set(names):
        raise ValueError(f"it has not exactly the members {', '.join(names)}")
    texts = [found[name] for name in names if name not in {"number", "before", "after"}]
    texts += [found[name] for name in ("before", "after") if found[name] is not None]
    if type(found["number"]) is not int or not all(isinstance(text, str) for text in texts):
        raise ValueError("a member has the wrong type")
    if not _INSTANT.fullmatch(found["at"]):
        raise ValueError("`at` is not an instant in UTC with six decimals")
    return AuditEntry(**{**found, "at": datetime.fromisoformat(found["at"])})


def check(entries: Iterable[AuditEntry | InvalidEntry], known_head: str | None = None) -> ChainReport:
    """Check the entries in stored order, and stop at the first invalid one.

    A changed, missing, repeated or moved entry breaks the chain at its place. An end that was cut off, or a log that
    was rewritten, does not. Therefore `check_end` compares the end with the recorded head, and `known_head` is a head
    that a person noted earlier (None: none).
    """
    number, previous = 0, NO_ENTRY
    has_known_head = known_head in {None, NO_ENTRY}
    for entry in entries:
        reason = _fault(entry, number + 1, previous)
        if reason is not None or isinstance(entry, InvalidEntry):
            return ChainReport(number, previous, has_known_head, number + 1, reason)
        number, previous = entry.number, entry.hash
        has_known_head = has_known_head or entry.hash == known_head
    return ChainReport(number, previous, has_known_head)


def check_end(report: ChainReport, head: Head | None) -> ChainReport:
    """Return a report that also compares the end of the chain with the recorded head; None if that is missing."""
    if report.broken_at is not None or head == Head(report.entries, report.head):
        return report
    if head is None:
        reason = "the record of the head is missing, so entries may be missing from here on"
    elif head.number > report.entries:
        reason = f"the log ends there, and should go on to entry {head.number}, hash {head.hash}"
    else:
        reason = f"the recorded head is entry {head.number}, hash {head.hash}, and not the newest entry"
    return replace(report, broken_at=report.entries + 1, reason=reason)


def is_hash(text: str) -> bool:
    """Return whether a text is spelled as a hash: 64 lower-case hexadecimal digits."""
    return _HASH.fullmatch(text) is not None


def _fault(entry: AuditEntry | InvalidEntry, number: int, previous: str) -> str | None:
    if isinstance(entry, InvalidEntry):
        return entry.reason
    if entry.number != number:
        return f"the entry numbered {entry.number} stands where {number} should"
    if entry.previous != previous:
        return "it does not follow the entry before it: `previous` is not that entry's hash"
    if entry.hash != entry_hash(entry):
        return "its content is not what was hashed when it was written"
    return None
