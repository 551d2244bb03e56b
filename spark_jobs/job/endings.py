"""What is said about the end of a stream: its severity, the event of the registry, and the reason without values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidegate.contracts.address_secrets import masked
from tidegate.contracts.crash import described
from tidegate.contracts.errors import Fenced, StreamStopped, TidegateError, Unavailable
from tidegate.contracts.stream.control import EventKind
from tidegate.spark_jobs.kafka.topics import TransactionEnded

_CAUSE: Final = "Caused by: "


def outcome_of(
    failure: BaseException, stream: str, is_held: Callable[[], bool], timeout_seconds: float
) -> BaseException:
    """Return the error that ends an attempt; `is_held` asks the ledger whether another instance has taken over.

    A broker returns the same error for two causes: another producer has initialized our transactional.id, or a
    transaction was open for too long and was aborted. So a fence alone does not prove another instance.
    """
    if isinstance(failure, StreamStopped) and not isinstance(failure, Fenced):
        return failure
    try:
        is_ours = is_held()
    except Unavailable as unknown:
        return unknown if isinstance(failure, Fenced) else failure  # the next attempt will find out
    if not is_ours:
        outcome: BaseException = Fenced(f"{stream}: another instance of this stream has taken over")
    elif isinstance(failure, Fenced):
        outcome = TransactionEnded.by_broker(stream, timeout_seconds)
    else:
        return failure
    outcome.__cause__ = failure
    return outcome


def severity(error: BaseException) -> int:
    """Return the severity of a failure: highest for a bug, then errors that need a person, then temporary ones."""
    match error:
        case Fenced():
            return 2
        case StreamStopped():
            return 3
        case Unavailable():
            return 1
        case TidegateError():
            return 4
        case _:
            return 5


def event_of(error: BaseException) -> EventKind:
    """Return the event that tells the registry of the end."""
    match error:
        case Fenced():
            return EventKind.OVERTAKEN
        case StreamStopped():
            return EventKind.STOPPED
        case _:
            return EventKind.FAILED


def java_is_gone(contract_id: str) -> str:
    """Return the message of a stream whose Java process has ended."""
    return (
        f"{contract_id}: Spark's Java process has ended; what it said stands above. Start the job again, and if it was "
        "killed for want of memory, with another TIDEGATE_SPARK_DRIVER_MEMORY"
    )


def shown_reason(error: BaseException) -> str:
    """Return why a stream ended, for readers without its log; no library messages, which may quote a record."""
    if isinstance(error, TidegateError) and not isinstance(error.__cause__, (PySparkException, Py4JError)):
        return masked(str(error))
    return f"the stream gave up after {type(error.__cause__ or error).__name__}; the log of its job says more"


def brief(error: BaseException) -> str:
    """Return an error's message in one line; for a JVM error its innermost cause, without the stack."""
    if not isinstance(error, (TidegateError, KafkaException, Py4JError, PySparkException, OSError)):
        return described(error)[:500]  # its message may quote a record
    first, *rest = str(error).strip().splitlines() or [""]
    causes = [line.removeprefix(_CAUSE) for line in rest if line.startswith(_CAUSE)]
    return (causes[-1] if causes else first)[:500]
