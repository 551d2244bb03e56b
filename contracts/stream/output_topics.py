"""The settings that an output topic must have, so that it keeps what is written to it."""

from __future__ import annotations

from typing import Final

HEADER_ROOM_BYTES: Final = 64 * 1024
"""What our headers may add to a record, with the margin of a record batch."""

LEAST_RETENTION_MS: Final = 24 * 60 * 60 * 1000
"""A restart looks in an output topic for what an unpublished batch has left there: it may be a while until then."""

LEAST_RETENTION_BYTES: Final = 512 * 1024 * 1024
"""Room in each partition for a batch of the default size, which a restart must find, and for as much again beside it."""

LEDGER_TOPIC: Final = "tidegate.ledger"
LEDGER_PARTITIONS: Final = 4

_QUARANTINE: Final = ".quarantine"
_NO_LIMIT: Final = str(2**63 - 1)


def quarantine_topic(topic: str) -> str:
    """Name of the topic that takes the refused records of `topic`."""
    return f"{topic}{_QUARANTINE}"


def source_of_quarantine(topic: str) -> str | None:
    """Return the source topic whose refused records `topic` takes; None for a name that is not made so."""
    source = topic.removesuffix(_QUARANTINE)
    return source if source and source != topic else None


def accepted_topic(topic: str) -> str:
    """Name of the topic that takes the accepted records of `topic` with the Kafka sink."""
    return f"{topic}.accepted"


def dropped_topic(topic: str) -> str:
    """Name of the topic that takes the positions of records of `topic` that a contract drops."""
    return f"{topic}.dropped"


def dropped_settings(max_message_bytes: int, retention_ms: int) -> dict[str, str]:
    """Return the settings of such a topic. Positions are looked at while the source holds their records: `retention_ms`, -1 for ever."""
    kept = retention_ms if retention_ms == -1 else max(retention_ms, LEAST_RETENTION_MS)
    return {**output_settings(max_message_bytes), "retention.ms": str(kept)}


def output_settings(max_message_bytes: int) -> dict[str, str]:
    """Return the settings of an output topic of a source that takes record batches of `max_message_bytes`."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "max.message.bytes": str(max_message_bytes + HEADER_ROOM_BYTES),
        # A refused record keeps its own time: the broker must neither replace it nor refuse an old one.
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": _NO_LIMIT,
        "message.timestamp.after.max.ms": _NO_LIMIT,
    }


def is_enough(key: str, actual: str, wanted: str) -> bool:
    """Return whether the value of one of these settings does.

    How long records are kept is the operator's choice, from a day and 512 MiB on: a restart must find the last batch.
    """
    match key:
        case "retention.ms":
            return actual == wanted or int(actual) >= LEAST_RETENTION_MS
        case "retention.bytes":
            return actual == wanted or int(actual) >= LEAST_RETENTION_BYTES
        case "max.message.bytes":
            return int(actual) >= int(wanted)
        case _:
            return actual == wanted
