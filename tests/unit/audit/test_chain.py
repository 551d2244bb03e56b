"""What the hash chain shows, and what it cannot show."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.storage.audit_chain import (
    NO_ENTRY,
    AuditedAction,
    AuditEntry,
    canonical_json,
    chained,
    check,
    document,
    read_line,
)

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


def log(count: int = 5) -> list[AuditEntry]:
    entries: list[AuditEntry] = []
    for number in range(1, count + 1):
        change = AuditedAction(
            NOON + timedelta(seconds=number), "key:a", "contract.published", f"s{number}-value"
        )
        entries.append(chained(change, number, entries[-1].hash if entries else NO_ENTRY))
    return entries


def forged(entry: AuditEntry, **changes: object) -> AuditEntry:
    """Change an entry and hash it again, as an attacker with access to the database would."""
    changed = replace(entry, **changes)  # whatever is tried
    values = {name: getattr(changed, name) for name in AuditedAction.__slots__}
    return chained(AuditedAction(**values), changed.number, changed.previous)


def test_an_entry_has_the_hash_that_the_documentation_describes() -> None:
    (entry,) = log(1)
    text = (
        '{"action":"contract.published","after":null,"at":"2026-07-01T12:00:01.000000Z","before":null,"number":1,'
        f'"previous":"{"0" * 64}","subject":"s1-value","who":"key:a"}}'
    )
    assert entry.hash == hashlib.sha256(text.encode()).hexdigest()


def test_an_untouched_log_is_intact() -> None:
    entries = log()
    report = check(entries)
    assert (report.entries, report.head, report.broken_at, report.is_intact) == (
        5,
        entries[-1].hash,
        None,
        True,
    )
    assert check([]).head == NO_ENTRY


@pytest.mark.parametrize(
    "name", ["at", "who", "action", "subject", "before", "after", "previous", "hash", "number"]
)
def test_a_change_of_any_member_breaks_the_chain_there(name: str) -> None:
    entries = log()
    values: dict[str, Any] = {"at": NOON, "number": 7}
    entries[2] = replace(entries[2], **{name: values.get(name, "f" * 64)})
    report = check(entries)
    assert (report.entries, report.broken_at, report.is_intact) == (2, 3, False)
    assert report.reason is not None


def test_an_entry_that_was_changed_and_hashed_again_breaks_the_chain_after_it() -> None:
    entries = log()
    entries[2] = forged(entries[2], who="key:b")
    assert check(entries).broken_at == 4


@pytest.mark.parametrize("index", range(4))
def test_a_missing_a_doubled_and_a_moved_entry_break_the_chain_at_their_place(index: int) -> None:
    entries = log()
    assert check(entries[:index] + entries[index + 1 :]).broken_at == index + 1
    assert check([*entries[: index + 1], *entries[index:]]).broken_at == index + 2
    moved = [*entries[:index], entries[index + 1], entries[index], *entries[index + 2 :]]
    assert check(moved).broken_at == index + 1


def test_a_truncated_end_is_detected_only_with_an_earlier_head() -> None:
    entries = log()
    assert check(entries[:3]).is_intact
    assert check(entries, entries[2].hash).is_intact
    assert check(entries, NO_ENTRY).is_intact
    cut = check(entries[:3], entries[4].hash)
    assert (cut.broken_at, cut.has_known_head, cut.is_intact) == (None, False, False)


def test_a_rewritten_log_is_detected_with_an_earlier_head() -> None:
    entries = log()
    anew: list[AuditEntry] = []
    for entry in entries:
        anew.append(forged(entry, who="key:b", previous=anew[-1].hash if anew else NO_ENTRY))
    assert check(anew).is_intact
    assert not check(anew, entries[1].hash).is_intact


def test_an_instant_has_one_spelling_whatever_its_zone() -> None:
    change = AuditedAction(NOON, "a", "b", "c")
    elsewhere = replace(change, at=NOON.astimezone(timezone(timedelta(hours=2))))
    assert chained(change, 1, NO_ENTRY).hash == chained(elsewhere, 1, NO_ENTRY).hash


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
changes = st.builds(
    AuditedAction,
    at=st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis adds the zone
    who=texts,
    action=texts,
    subject=texts,
    before=st.none() | texts,
    after=st.none() | texts,
)


@given(changes, changes)
def test_a_line_gives_back_its_entry_and_different_changes_have_different_hashes(
    a: AuditedAction, b: AuditedAction
) -> None:
    first, second = (chained(change, 1, NO_ENTRY) for change in (a, b))
    assert read_line(canonical_json(document(first))) == first
    assert (first.hash == second.hash) == (a == b)


# Source: RFC 8785, clauses 3.2.2.2 and 3.2.3 - the escapes, and the order of keys.
def test_the_encoding_is_the_canonicalization_scheme_for_what_the_log_holds() -> None:
    value = {"b": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/\u007f", "a": None, "B": 1}
    assert canonical_json(value).decode() == '{"B":1,"a":null,"b":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/\u007f"}'


@pytest.mark.parametrize(
    "change",
    [
        {"at": "2026-07-01T12:00:01Z"},
        {"number": "1"},
        {"number": True},
        {"who": None},
        {"before": 1},
        {"x": "y"},
    ],
)
def test_a_line_that_is_no_entry_breaks_the_chain(change: dict[str, object]) -> None:
    entries = log(3)
    lines = [json.dumps(document(entry)).encode() for entry in entries]
    lines[1] = json.dumps({**document(entries[1]), **change}).encode()
    report = check(map(read_line, lines))
    assert (report.entries, report.broken_at) == (1, 2)
    assert report.reason is not None
    assert report.reason.startswith("the line is no entry: ")


@pytest.mark.parametrize("line", [b"", b"\n", b"\xff", b"[]", b"{", b"[" * 100_000, b'"text"'])
def test_a_hostile_line_breaks_the_chain(line: bytes) -> None:
    assert check([read_line(line)]).broken_at == 1
