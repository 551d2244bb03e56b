"""What a record is made of, through the broker and back: byte for byte, however odd it is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from tests.integration.enforce.line import Line, Sent
from tests.integration.enforce.wire import BATCH_OVERHEAD_BYTES, RawHeaders, record_size_bytes, send_batch
from tidegate.contracts.stream.evidence import RULES_HEADER, SOURCE_HEADER, TIMESTAMP_HEADER, read_evidence
from tidegate.spark_jobs.kafka.topics import Topics

MAX_MESSAGE_BYTES = 1_048_588
GOOD = b'{"id": "a", "amount": 1}'
ODD: list[tuple[Sent, RawHeaders]] = [
    (Sent(b"\xff\x00\xfe", b"\x00\xff\x80", timestamp_ms=1_600_000_000_000), ()),
    (Sent(b"not json", None, timestamp_ms=1), ((b"", b"no name"),)),
    (Sent(b"not json", b"", timestamp_ms=-5), ((b"null", None), (b"empty", b""))),
    (Sent(None, b"gone", timestamp_ms=946_684_799_999), ((b"twice", b"1"), (b"x", b"2"), (b"twice", b"3"))),
    (Sent(None, None, timestamp_ms=2), (("n\u00e4me \U0001f30a".encode(), b"\xff\xfe\x00\xc3\x28"),)),
    (Sent(b"", b"k", timestamp_ms=3), ((b"tidegate.source", b"forged/0/7"), (b"tidegate.ledger", b"forged"))),
    (Sent(b"not json", b"epoch", timestamp_ms=0), ((b"a", b"b"),)),
]
"""All of one batch, one partition; what each has of headers is beside it."""


@pytest.fixture(params=["iceberg", pytest.param("kafka", marks=pytest.mark.full)])
def either(request: pytest.FixtureRequest, make_line: Callable[..., Line]) -> Line:
    """A line into a table, then one into a topic."""
    return make_line(sink=request.param)


def send(line: Line, records: list[tuple[Sent, RawHeaders]]) -> None:
    send_batch(line.settings.bootstrap_servers, line.topic, records)
    expected = [sent for sent, _ in records]
    as_kept = [(r.value, r.key, r.timestamp_ms) for r in line.read(line.topic)]
    assert as_kept == [(r.value, r.key, r.timestamp_ms) for r in expected]


def require_same(found: list[Sent], sent: list[tuple[Sent, RawHeaders]]) -> None:
    """Require that each record is what was sent, with our headers after its own."""
    for kept, (original, headers) in zip(found, sent, strict=True):
        assert (kept.value, kept.key) == (original.value, original.key)
        count = len(headers)
        assert [(name.encode(), value) for name, value in kept.headers[:count]] == list(headers)
        ours = dict(kept.headers[count:])
        assert all(name.startswith(("tidegate.", "__dlq.")) for name in ours)
        assert SOURCE_HEADER in ours
        assert kept.timestamp_ms == original.timestamp_ms
        if RULES_HEADER in ours or original.timestamp_ms == 0:
            assert ours[TIMESTAMP_HEADER] == str(original.timestamp_ms).encode()
        else:
            assert TIMESTAMP_HEADER not in ours


def test_refused_records_are_kept_byte_for_byte(either: Line) -> None:
    send(either, ODD)
    either.enforce()
    found = either.quarantined()
    require_same(found, ODD)
    assert [str(e.source) for e in map(read_evidence, (r.headers for r in found)) if e] == [
        f"{either.topic}/0/{offset}" for offset in range(len(ODD))
    ]
    assert either.reconcile().holds


def test_accepted_records_are_passed_on_byte_for_byte(make_line: Callable[..., Line]) -> None:
    line = make_line(sink="kafka")
    line.contracts.plan = line.plan(tombstones="pass")
    sent = [
        (Sent(r.value and GOOD, r.key, timestamp_ms=r.timestamp_ms), headers)
        for r, headers in ODD
        if r.value != b""
    ]
    send(line, sent)
    line.enforce()
    require_same(line.accepted(), sent)
    assert line.quarantined() == []
    assert line.reconcile().holds


def test_header_names_that_no_client_can_read_are_mended_and_their_values_kept(line: Line) -> None:
    """Spark reads names as Unicode, and the client that writes them ends them at a zero byte."""
    send_batch(
        line.settings.bootstrap_servers,
        line.topic,
        [(Sent(b"not json"), ((b"\xff\xfea", b"\xff"), (b"a\x00b", b"\x00")))],
    )
    line.enforce()
    (found,) = line.quarantined()
    assert found.headers[:2] == (("\ufffd\ufffda", b"\xff"), ("a", b"\x00"))


def test_a_replayed_record_that_names_a_rule_for_clients_to_pass_is_judged_by_that_rule(line: Line) -> None:
    """Clients skip a rule that the header `__rule.name` names, so a producer could skip any rule."""
    refused = b'{"id": "a", "amount": 999}'
    names: list[RawHeaders] = [
        ((b"__rule.name", name), (b"__rule.mode", b"WRITE"))
        for name in (b"amount-is-known", b"confluent.amount-is-known", b"*")
    ]
    sent = [(Sent(refused, b"k", timestamp_ms=number + 1), headers) for number, headers in enumerate(names)]
    send(line, [*sent, (Sent(GOOD, b"k", timestamp_ms=9), names[0])])
    line.enforce()
    found = line.quarantined()
    require_same(found, sent)
    evidence = [read_evidence(record.headers) for record in found]
    assert [each.rules for each in evidence if each is not None] == [("amount-is-known",)] * len(sent)
    assert [row["amount"] for row in line.rows()] == [1]
    assert line.reconcile().holds


def filled(make: Callable[[int], bytes]) -> tuple[Sent, RawHeaders]:
    """Return a record that makes a batch of exactly the size that the source topic allows."""
    headers = ((b"trace", b"t" * 1000),)
    smallest = Sent(make(MAX_MESSAGE_BYTES - 2000), b"key")
    room = MAX_MESSAGE_BYTES - BATCH_OVERHEAD_BYTES - record_size_bytes(smallest, headers)
    return Sent(make(MAX_MESSAGE_BYTES - 2000 + room), b"key"), headers


def hostile(size: int) -> bytes:
    """Break the schema thousands of times, in exactly `size` bytes that hardly compress."""
    document = json.dumps({os.urandom(16).hex(): os.urandom(16).hex() for _ in range(size // 74)}).encode()
    return document + b" " * (size - len(document))


@pytest.mark.parametrize("make", [os.urandom, hostile])
def test_the_largest_record_of_the_source_fits_into_the_quarantine(
    line: Line, make: Callable[[int], bytes]
) -> None:
    sent = [filled(make)]
    send(line, sent)
    source = Topics(line.settings.kafka).describe(line.topic)
    assert source is not None
    assert source.max_message_bytes == MAX_MESSAGE_BYTES
    line.enforce()
    require_same(line.quarantined(), sent)
