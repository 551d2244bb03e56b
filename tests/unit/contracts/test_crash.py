"""The report of a crash contains no value of a record."""

from __future__ import annotations

import json
import logging
import traceback
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from tidegate.contracts.crash import described, exception_without_values
from tidegate.contracts.errors import TidegateError, Unavailable
from tidegate.spark_jobs.crashes import WorkerCrash, crashes_without_values

SENTINEL = "P00-secret-of-a-patient"


def raised(value: str) -> BaseException:
    try:
        try:
            pa.array([value], pa.int64())
        except pa.ArrowException as error:
            raise KeyError(value) from error
    except KeyError as error:
        found = error
    return found


def test_a_foreign_error_is_its_kind_and_its_places() -> None:
    told = described(raised(SENTINEL))
    assert told.startswith("KeyError at ")
    assert "test_crash.py" in told
    assert SENTINEL not in told


def test_our_own_message_and_the_reason_of_the_system_are_kept() -> None:
    assert described(TidegateError("try again")) == "tidegate.contracts.errors.TidegateError: try again"
    assert described(OSError(28, "No space left on device", SENTINEL)) == "OSError (No space left on device)"


@pytest.mark.parametrize("given", ["error", "tuple", "true"])
def test_a_log_line_names_each_error_of_a_chain_and_no_value(given: str) -> None:
    error = raised(SENTINEL)
    event: dict[str, Any] = {"event": "stream_failed"}
    try:
        raise error
    except KeyError:
        event["exc_info"] = {
            "error": error,
            "tuple": (type(error), error, error.__traceback__),
            "true": True,
        }[given]
        line = json.dumps(exception_without_values(logging.getLogger(), "error", event))
    assert SENTINEL not in line
    assert [each.partition(" ")[0] for each in json.loads(line)["exception"]] == [
        "KeyError",
        "pyarrow.lib.ArrowInvalid",
    ]


def test_a_chain_ends_at_an_error_of_the_kafka_client_that_is_no_exception() -> None:
    fatal: Any = KafkaError(KafkaError._ALL_BROKERS_DOWN)
    error = KeyError(SENTINEL)
    error.__context__ = fatal
    event = exception_without_values(logging.getLogger(), "error", {"exc_info": error})
    assert event["exception"] == ["KeyError"]


def test_what_crashes_in_a_worker_keeps_nothing_of_what_was_raised_before() -> None:
    with pytest.raises(WorkerCrash) as caught, crashes_without_values():
        raise raised(SENTINEL)
    shown = "".join(traceback.format_exception(caught.value))
    assert SENTINEL not in shown
    assert "KeyError" in shown
    with pytest.raises(TidegateError, match="ours"), crashes_without_values():
        raise TidegateError("ours")


def test_an_error_of_a_disk_or_a_store_is_an_outage_with_its_reason_on_one_line() -> None:
    reason = "When completing multiple part upload for key 'x':\nAWS Error SLOW_DOWN " + "x" * 500
    with pytest.raises(Unavailable) as caught, crashes_without_values():
        raise OSError(reason)
    told = str(caught.value)
    assert told.startswith(
        "a worker could not write its part of the batch: When completing multiple part upload for key 'x': AWS Error"
    )
    assert len(told) < 400
    assert caught.value.__suppress_context__
