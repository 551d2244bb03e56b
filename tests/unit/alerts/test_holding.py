"""Once in an interval, of one kind about one stream; what was held back is counted."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.alerts.alert import Alert, AlertKind
from tidegate.gateway.alerts.sending import AlertThrottle

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


def alert(sentence: str, kind: AlertKind = AlertKind.BUDGET, stream: str = "s") -> Alert:
    return Alert(kind, stream, NOON, sentence, "page")


def test_the_newest_goes_when_its_turn_comes_with_the_count_of_the_others() -> None:
    throttle = AlertThrottle(10)
    assert throttle.offer(alert("a"), 0) == alert("a")
    assert throttle.next_due() is None
    assert [throttle.offer(alert(name), 1) for name in "bcd"] == [None, None, None]
    assert (throttle.due(9.9), throttle.next_due()) == ([], 10)
    (told,) = throttle.due(10)
    assert (told.sentence, told.held_back) == ("d", 2)
    assert (throttle.due(30), throttle.next_due()) == ([], None)
    assert throttle.offer(alert("e"), 19.9) is None  # the last one went at 10
    assert [each.sentence for each in throttle.due(20)] == ["e"]


def test_kinds_and_streams_do_not_wait_for_each_other() -> None:
    throttle = AlertThrottle(10)
    several = [alert("a"), alert("b", AlertKind.PAUSED), alert("c", stream="t")]
    assert [throttle.offer(each, 0) for each in several] == several


@given(st.lists(st.tuples(st.floats(0, 8), st.booleans()), max_size=40), st.floats(0.5, 5))
def test_no_alert_is_lost_uncounted_and_none_comes_too_soon(
    steps: list[tuple[float, bool]], interval: float
) -> None:
    throttle, now, offered = AlertThrottle(interval), 0.0, 0
    sent: list[tuple[float, Alert]] = []
    for wait, offers in [*steps, (interval, False)]:
        now += wait
        if offers:
            offered += 1
            told = throttle.offer(alert(str(offered)), now)
            sent += [] if told is None else [(now, told)]
        sent += [(now, told) for told in throttle.due(now)]
    assert sum(1 + told.held_back for _, told in sent) == offered
    assert all(later >= earlier + interval for (earlier, _), (later, _) in pairwise(sent))
