"""The shown reason for the end of a stream, for readers who do not see its log."""

from __future__ import annotations

from py4j.protocol import Py4JError

from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.spark_jobs.job.endings import shown_reason


def test_a_stop_is_shown_with_its_own_message() -> None:
    assert shown_reason(StreamStopped("topic t was deleted")) == "topic t was deleted"
    ours = Unavailable("the broker is away")
    ours.__cause__ = OSError("refused")
    assert shown_reason(ours) == "the broker is away"


def test_what_others_have_raised_is_not_quoted_for_it_may_hold_a_record() -> None:
    secret = "patient 17"  # noqa: S105 - a value of a record
    gave_up = Unavailable(f"gave up after repeated failures: {secret}")
    gave_up.__cause__ = Py4JError(secret)
    for error in (gave_up, ValueError(secret)):
        assert secret not in shown_reason(error)
    assert shown_reason(gave_up) == "the stream gave up after Py4JError; the log of its job says more"
    assert (
        shown_reason(ValueError(secret))
        == "the stream gave up after ValueError; the log of its job says more"
    )
