"""Records that the broker never takes back: their request stops, and those behind it go on."""

from __future__ import annotations

from collections.abc import Callable

from tests.integration.enforce.line import Line, Sent, row
from tests.integration.enforce.replaying import MENDED, refusals, request, sent_back
from tests.integration.enforce.test_output_topics import alter
from tidegate.contracts.stream.replay import ReplayState
from tidegate.gateway.embedded.broker import Broker


def test_a_record_that_the_source_topic_refuses_for_good_stops_its_request(
    make_line: Callable[..., Line], broker: Broker
) -> None:
    line = make_line()
    line.produce(Sent(b'{"id":"r0","amount":999}', partition=0), row(1, 999))
    line.enforce()
    without_key, with_key = sorted(refusals(line), key=lambda place: refusals(line)[place])
    alter(broker, line.topic, {"cleanup.policy": "compact"})  # from now on, records need a key
    first = request(line, [without_key], fix=MENDED, action="to-source")
    second = request(line, [with_key], fix=MENDED, action="to-source")
    line.enforce()
    ended = {each.request: each for each in line.replays.told if each.state is not ReplayState.OPEN}
    assert ended[first.id].state is ReplayState.STOPPED
    assert "the broker refuses the records" in str(ended[first.id].message)
    assert (ended[second.id].state, ended[second.id].closed) == (ReplayState.DONE, 1)
    assert [each.key() for each in sent_back(line)] == [b"1"]
    line.enforce()
    assert line.reconcile().holds
