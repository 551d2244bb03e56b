"""What output records say about themselves: round trips, bounds, and whose word counts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.contracts.stream.evidence import (
    MAX_HEADER_BYTES,
    EventPointer,
    Evidence,
    Provenance,
    ViolationList,
    decode_violations,
    encode_violations,
    judged_at_header,
    omitted_header,
    provenance_headers,
    quarantine_headers,
    read_evidence,
    read_original,
    read_provenance,
    timestamp_header,
)
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation

SOURCE = EventPointer("hospital.admissions", 3, 18_240)
AGE = Violation(
    Stage.RULE, "age-is-known", "/age", Severity.ERROR, "must not be a value that stands for unknown"
)
TYPE = Violation(Stage.SCHEMA, "type", "/patients/*/größe", Severity.ERROR, "must be a number")
WARNING = Violation(Stage.RULE, "icu-has-consultant", "", Severity.WARNING, "must not be false")
REFUSED = Verdict(Disposition.QUARANTINED, (AGE, TYPE, WARNING))

VIOLATIONS = st.builds(
    Violation,
    st.sampled_from(Stage),
    st.text(min_size=1, max_size=80),
    st.text(max_size=300),
    st.sampled_from(Severity),
    st.text(max_size=300),
)
POINTERS = st.builds(
    EventPointer,
    st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
)


@given(POINTERS)
def test_an_event_pointer_is_read_as_it_is_written(pointer: EventPointer) -> None:
    assert EventPointer.parse(str(pointer)) == pointer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a/1",
        "/1/2",
        "a/b/1/2",
        "a/-1/2",
        "a/1/x",
        "a/1/",
        "a/²/1",
        "a/1/2 ",
        "a/2147483648/1",
        "a/1/9223372036854775808",
        "a/1/" + "9" * 5000,
    ],
)
def test_what_is_no_event_pointer(text: str) -> None:
    with pytest.raises(ValueError, match="expected topic/partition/offset"):
        EventPointer.parse(text)


@given(st.lists(VIOLATIONS, max_size=60))
def test_violations_survive_the_header_up_to_its_bound(violations: list[Violation]) -> None:
    encoded = encode_violations(tuple(violations))
    decoded = decode_violations(encoded)
    kept = len(decoded.violations)
    assert len(encoded) <= MAX_HEADER_BYTES
    assert decoded == ViolationList(tuple(violations[:kept]), len(violations) - kept)
    # Nothing is left out that would have fitted.
    if decoded.left_out:
        next_one = json.loads(encode_violations((violations[kept],)))["violations"]
        size = len(json.dumps(next_one, ensure_ascii=False, separators=(",", ":")).encode())
        assert len(encoded) + size > MAX_HEADER_BYTES


def test_how_violations_are_written() -> None:
    assert encode_violations((TYPE,)).decode() == (
        '{"violations":[{"stage":"schema","code":"type","pointer":"/patients/*/größe","severity":"error",'
        '"message":"must be a number"}]}'
    )
    huge = Violation(Stage.SCHEMA, "type", "/" + "x" * MAX_HEADER_BYTES, Severity.ERROR, "m")
    assert encode_violations((huge, TYPE)) == b'{"violations":[],"left_out":2}'


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"violations":3}',
        b'{"violations":[3]}',
        b'{"violations":[{}]}',
        b'{"violations":[{"stage":"no","code":"a","pointer":"","severity":"error","message":""}]}',
        b"[" * 100_000,
        b'{"violations":[],"left_out":1e400}',
        b'{"violations":[],"left_out":-1}',
        b'{"violations":[],"left_out":99999999999999999999}',
        *(
            b'{"violations":[{"stage":"rule","code":"%s","pointer":"%s","severity":"error","message":"%s"}]}'
            % texts
            for texts in ((rb"\ud800", b"", b""), (b"", rb"\ud800", b""), (b"", b"", rb"\ud800"))
        ),
    ],
)
def test_what_is_no_list_of_violations(encoded: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_violations(encoded)


def test_a_quarantined_record_says_where_it_came_from_and_why() -> None:
    headers = quarantine_headers(SOURCE, "ledger-1", "hospital.admissions@1.2.0", REFUSED)
    assert headers == [
        ("tidegate.source", b"hospital.admissions/3/18240"),
        ("tidegate.ledger", b"ledger-1"),
        ("tidegate.contract", b"hospital.admissions@1.2.0"),
        ("tidegate.rules", b"age-is-known,type,icu-has-consultant"),
        ("tidegate.violations", encode_violations(REFUSED.violations)),
        ("__dlq.errors.topic", b"hospital.admissions"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"18240"),
        (
            "__dlq.errors.message",
            b"age-is-known at /age: must not be a value that stands for unknown (and 2 more)",
        ),
    ]
    assert read_evidence(headers) == Evidence(
        SOURCE,
        "ledger-1",
        "hospital.admissions@1.2.0",
        ("age-is-known", "type", "icu-has-consultant"),
        REFUSED.violations,
    )


@given(POINTERS, st.text(), st.text(), st.lists(VIOLATIONS, min_size=1, max_size=60))
def test_every_header_is_bounded(
    source: EventPointer, ledger: str, contract: str, violations: list[Violation]
) -> None:
    verdict = Verdict(Disposition.QUARANTINED, tuple(violations))
    headers = dict(quarantine_headers(source, ledger, contract, verdict))
    for name in ("tidegate.rules", "tidegate.violations", "__dlq.errors.message"):
        assert len(headers[name]) <= MAX_HEADER_BYTES
    evidence = read_evidence(headers.items())
    assert evidence is not None
    assert (evidence.source, evidence.ledger, evidence.contract) == (source, ledger, contract)


def test_the_last_header_counts() -> None:
    forged = provenance_headers(EventPointer("other", 0, 0), "ledger-0", "other@1.0.0")
    own = provenance_headers(SOURCE, "ledger-1", "hospital.admissions@1.2.0")
    provenance = Provenance(SOURCE, "ledger-1", "hospital.admissions@1.2.0")
    assert read_provenance([*forged, ("trace", None), *own]) == provenance


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [],
        [("trace", b"1"), ("tidegate.source", None)],
        [("tidegate.source", b"\xff"), ("tidegate.ledger", b"l"), ("tidegate.contract", b"c")],
        [("tidegate.source", b"t/0/x"), ("tidegate.ledger", b"l"), ("tidegate.contract", b"c")],
        [("tidegate.source", b"t/0/1"), ("tidegate.contract", b"c")],
    ],
)
def test_a_record_that_tidegate_did_not_write(headers: list[tuple[str, bytes | None]] | None) -> None:
    assert read_provenance(headers) is None
    assert read_evidence(headers) is None


def test_an_accepted_record_has_provenance_and_no_evidence() -> None:
    headers = provenance_headers(SOURCE, "ledger-1", "hospital.admissions@1.2.0")
    assert read_evidence(headers) is None
    assert read_evidence([*headers, ("tidegate.violations", b"{"), ("tidegate.rules", b"")]) is None
    assert read_evidence(
        [*headers, ("tidegate.violations", b'{"violations":[]}'), ("tidegate.rules", b"")]
    ) == (Evidence(SOURCE, "ledger-1", "hospital.admissions@1.2.0", (), ()))


def test_a_verdict_without_violations_still_has_a_message() -> None:
    headers = dict(quarantine_headers(SOURCE, "l", "c", Verdict(Disposition.QUARANTINED)))
    assert headers["__dlq.errors.message"] == b"refused"
    assert headers["tidegate.rules"] == b""


def test_the_own_headers_of_a_quarantined_record_are_those_before_ours() -> None:
    """A producer may have sent headers of the same names, or a record may have been refused twice in its life."""
    own = (("a", b"1"), *provenance_headers(SOURCE, "old", "c@1.0.0"), timestamp_header(5), ("a", None))
    ours = [
        *quarantine_headers(SOURCE, "ledger", "c@1.2.0", REFUSED),
        timestamp_header(1_600_000_000_000),
        *judged_at_header(1_700_000_000_000_000_001),
    ]
    found = read_original([*own, *ours])
    assert found.headers == own
    assert (found.timestamp_ms, found.judged_at) == (1_600_000_000_000, 1_700_000_000_000_000_001)
    assert not found.is_omitted
    assert read_original([*ours, omitted_header(b"k", b"v", ())]).is_omitted
    assert read_original([("a", b"1")]).headers == (("a", b"1"),)
    assert read_original(quarantine_headers(SOURCE, "ledger", "c@1.2.0", REFUSED)).judged_at is None
