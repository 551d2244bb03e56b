"""The headers of refused records one by one: what each has, what is left out, and where a list is cut."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from confluent_kafka import Message

from tidegate.contracts.stream.evidence import (
    BATCH_HEADER,
    FORMAT_HEADER,
    GENERATION_HEADER,
    HEADER_FORMAT,
    JUDGED_AT_HEADER,
    MAX_HEADER_BYTES,
    OMITTED_HEADER,
    REPLAY_HEADER,
    SENT_BACK_HEADER,
    EventPointer,
    Original,
    decode_violations,
    encode_violations,
    generation_header,
    headers_of,
    judged_at_header,
    omitted_header,
    provenance_headers,
    quarantine_headers,
    read_evidence,
    read_provenance,
    read_timestamp,
    timestamp_header,
)
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation

SUMMARY = "__dlq.errors.message"
ROOM = MAX_HEADER_BYTES - 64
"""The longest summary; the rest of the header is for the number of other violations."""


def violation(message: str, pointer: str = "/a") -> Violation:
    return Violation(Stage.RULE, "r", pointer, Severity.ERROR, message)


def summary(*violations: Violation) -> str:
    verdict = Verdict(Disposition.QUARANTINED, violations)
    return dict(quarantine_headers(EventPointer("t", 0, 1), "l", "s@1.0.0", verdict))[SUMMARY].decode()


def test_an_omitted_record_is_described() -> None:
    name, described = omitted_header(b"key", b"value", [("é", b"12"), ("n", None)])
    assert name == OMITTED_HEADER
    assert json.loads(described) == {
        "key_bytes": 3,
        "value_bytes": 5,
        "headers_bytes": 5,
        "value_sha256": sha256(b"value").hexdigest(),
    }


def test_an_omitted_record_without_key_and_value_is_described() -> None:
    _, described = omitted_header(None, None, [])
    assert json.loads(described) == {
        "key_bytes": 0,
        "value_bytes": 0,
        "headers_bytes": 0,
        "value_sha256": None,
    }


def test_the_time_of_a_record_is_read_back() -> None:
    assert read_timestamp([("other", None), timestamp_header(1_700_000_000_123)]) == 1_700_000_000_123
    assert read_timestamp(None) is None
    assert read_timestamp([(timestamp_header(0)[0], None)]) is None
    assert read_timestamp([timestamp_header(-1)]) == -1
    for none in (1 << 54, -(1 << 54)):  # any producer can send it
        assert read_timestamp([(timestamp_header(0)[0], b"%d" % none)]) is None


def test_headers_that_say_nothing_are_left_out() -> None:
    assert generation_header(0) == []
    assert generation_header(2) == [(GENERATION_HEADER, b"2")]
    assert judged_at_header(None) == []
    assert judged_at_header(0) == [(JUDGED_AT_HEADER, b"0")]


def test_a_record_that_was_sent_back_says_so() -> None:
    assert Original(((SENT_BACK_HEADER, b"t/0/1"),), None, None, is_omitted=False).was_sent_back
    assert not Original((("other", b""),), None, None, is_omitted=False).was_sent_back


@pytest.mark.parametrize("length", range(40))
def test_a_list_of_violations_is_as_long_as_the_header_allows(length: int) -> None:
    """The lengths sweep across the limit one byte at a time."""
    given = (*(violation("x" * 925) for _ in range(8)), violation("y" * length), violation("z"))
    one = [len(encode_violations((each,))) - len(b'{"violations":[]}') for each in given]
    room = MAX_HEADER_BYTES - len(b'{"violations":[]}') - len(f',"left_out":{len(given)}')
    fits = max(count for count in range(len(given) + 1) if sum(one[:count]) + max(count - 1, 0) <= room)
    encoded = encode_violations(given)
    found = decode_violations(encoded)
    assert len(encoded) <= MAX_HEADER_BYTES
    assert (found.violations, found.left_out) == (given[:fits], len(given) - fits)


def test_the_summary_has_place_message_and_the_number_of_the_others() -> None:
    assert summary(violation("is wrong")) == "r at /a: is wrong"
    assert summary(violation("is wrong", "")) == "r: is wrong"
    assert summary(violation("is wrong"), violation("too")) == "r at /a: is wrong (and 1 more)"


def test_the_longest_message_of_a_summary() -> None:
    longest = "x" * (ROOM - len("r at /a: "))
    assert summary(violation(longest)) == f"r at /a: {longest}"
    assert summary(violation(longest + "x")) == "r"


def test_the_headers_of_a_message_are_bytes_in_order() -> None:
    headers = [("b", b"1"), ("a", None), ("b", b"2")]
    assert headers_of(Message(topic="t", headers=headers)) == headers
    assert headers_of(Message(topic="t")) == []
    assert headers_of(Message(topic="t", headers=[("a", "text")])) == [("a", b"text")]


def refused_headers(
    *more: tuple[str, bytes | None], stage: Stage = Stage.RULE
) -> list[tuple[str, bytes | None]]:
    found = Violation(stage, "r", "", Severity.ERROR, "m")
    verdict = Verdict(Disposition.QUARANTINED, (found,))
    return [*quarantine_headers(EventPointer("t", 0, 1), "l", "s@1.0.0", verdict), *more]


def test_the_format_of_this_release_is_read_and_no_other() -> None:
    assert read_evidence(refused_headers((FORMAT_HEADER, str(HEADER_FORMAT).encode()))) is not None
    assert read_evidence(refused_headers((FORMAT_HEADER, str(HEADER_FORMAT + 1).encode()))) is None
    assert read_evidence(refused_headers((FORMAT_HEADER, None))) is None


@pytest.mark.parametrize("text", [b"+1", b"-1", b"1_0", b"", "\u0661".encode(), b"9" * 30])
def test_a_generation_is_a_decimal_number(text: bytes) -> None:
    assert read_evidence(refused_headers((GENERATION_HEADER, b"1"))) is not None
    assert read_evidence(refused_headers((GENERATION_HEADER, text))) is None


def test_the_end_of_a_batch_that_is_none_is_no_evidence() -> None:
    found = read_evidence(refused_headers((BATCH_HEADER, b'{"0": 3}'), stage=Stage.EXPECTATION))
    assert found is not None
    assert found.refusal is not None
    assert found.refusal.end == {0: 3}
    for none in (
        b"[3]",
        b'{"0": 1e400}',
        b'{"0": -1}',
        b'{"-1": 3}',
        b'{"0": 3.5}',
        b'{"0": 9223372036854775808}',
    ):
        assert read_evidence(refused_headers((BATCH_HEADER, none), stage=Stage.EXPECTATION)) is None


def test_only_our_own_header_says_that_a_record_was_replayed() -> None:
    ours = provenance_headers(EventPointer("t", 0, 1), "l", "s@1.0.0")
    given = [(REPLAY_HEADER, b"0" * 32)]
    told = [read_provenance(headers) for headers in (ours, [*given, *ours], [*ours, *given])]
    assert [each is not None and each.is_replayed for each in told] == [False, False, True]
