"""Answers by id are kept for seconds, so that what another process deleted for good is gone soon."""

from __future__ import annotations

from tidegate.gateway.http.confluent.calls import Answer
from tidegate.gateway.http.confluent.face import KEPT_SECONDS, AnswerCache

KEY = (b"/schemas/ids/1", b"")


def test_an_answer_is_kept_for_seconds_and_never_longer() -> None:
    now = 100.0
    cache = AnswerCache(lambda: now)
    cache.keep(KEY, Answer({"schema": "x"}, headers={"ETag": '"1"'}), ("s",))
    now += KEPT_SECONDS
    found = cache.find(KEY)
    assert found is not None
    assert found.body["body"] == b'{"schema":"x"}'
    now += 0.001
    assert cache.find(KEY) is None
    assert KEPT_SECONDS <= 5


def test_what_this_process_deletes_is_forgotten_at_once() -> None:
    cache = AnswerCache()
    cache.keep(KEY, Answer({"schema": "x"}, headers={"ETag": '"1"'}), ("s",))
    cache.clear()
    assert cache.find(KEY) is None
