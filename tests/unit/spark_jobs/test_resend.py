"""What an attempt knows of the records that it has sent back, after an error of the broker. Without Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.ledgers import LEDGER
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.ledger import Position
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import Closed
from tidegate.contracts.stream.replay_preview import RefusedRecord
from tidegate.spark_jobs.job import resend
from tidegate.spark_jobs.job.resend import ClosedRecords

FIRST, SECOND = Positions([(0, 1)]), Positions([(0, 2)])


class Broker:
    """What was sent and committed. Each sender fails for good with its first error, as the client does."""

    def __init__(self) -> None:
        self.sent: list[Position] = []
        self.errors: list[Exception | None] = []
        self.looks: list[Exception | None] = []

    def sender(self, *_: Any) -> Sender:
        return Sender(self)

    def ahead(self, *_: Any) -> Positions:
        if self.looks and (error := self.looks.pop(0)) is not None:
            raise error
        return Positions(self.sent)


class Sender:
    """A producer whose commits are done, also where the answer is lost."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._is_broken = False

    def write(self, records: list[Any]) -> None:
        if self._is_broken:
            raise Unavailable("Operation not valid in this state")
        self._broker.sent += [each[1] for each in records if each[0] == "position"]
        if self._broker.errors and (error := self._broker.errors.pop(0)) is not None:
            self._is_broken = True
            raise error


class Topic:
    """The topic of closed positions."""

    def records(self, _: Any, chunk: Any) -> tuple[list[Any], str]:
        return [("position", each) for each in chunk.closed], "digest"


class Held:
    """A sink whose ledger no other instance has claimed."""

    def is_held(self) -> bool:
        return True


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def closed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> ClosedRecords:
    monkeypatch.setattr(resend, "fenced_sender", broker.sender)
    monkeypatch.setattr(resend, "require_closed", lambda *_: Closed(resent=Positions(broker.sent)))
    monkeypatch.setattr(resend, "resent_ahead", broker.ahead)
    parts: list[Any] = [None, Held(), Topic()]
    return ClosedRecords(*parts)


@pytest.fixture
def send(closed: ClosedRecords) -> Callable[[Positions], None]:
    def work(positions: Positions) -> None:
        closed.known(LEDGER)
        record = RefusedRecord(b"k", b"{}", (), 1_000, 1_000)
        closed.send(LEDGER, dict.fromkeys(positions - closed.ahead, (record, b"{}")))

    return work


def test_what_was_sent_is_looked_up_after_an_error_and_sent_by_another_producer(
    broker: Broker, closed: ClosedRecords, send: Callable[[Positions], None]
) -> None:
    broker.errors = [Unavailable("the answer to the commit was lost")]
    with pytest.raises(Unavailable, match="was lost"):
        send(FIRST)
    send(FIRST | SECOND)
    assert closed.ahead == FIRST | SECOND
    assert broker.sent.count((0, 2)) == 1


def test_records_that_were_sent_before_are_known_although_the_first_look_fails(
    broker: Broker, closed: ClosedRecords
) -> None:
    broker.sent, broker.looks = [(0, 1)], [Unavailable("the broker does not answer")]
    with pytest.raises(Unavailable):
        closed.known(LEDGER)
    assert closed.known(LEDGER).resent == FIRST
    assert closed.ahead == FIRST
