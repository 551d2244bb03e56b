"""Names of output topics, and the settings that they need to keep their records."""

from __future__ import annotations

from typing import Final

HEADER_ROOM_BYTES: Final = 64 * 1024
"""Bytes that our headers may add to a record, including the overhead of a record batch."""

LEAST_RETENTION_MS: Final = 24 * 60 * 60 * 1000
"""A restart searches an output topic for records of an unpublished batch, and may come hours after them."""

LEAST_RETENTION_BYTES: Final = 512 * 1024 * 1024
"""Space in each partition for two batches of the default size, because a restart must find the last one."""

LEDGER_TOPIC: Final = "tidegate.ledger"
LEDGER_PARTITIONS: Final = 4
LEDGER_POLICY: Final = {"cleanup.policy": "compact"}
"""Setting without which a start refuses the topic: retention would delete the ledger of an idle stream."""
LEDGER_SETTINGS: Final = {**LEDGER_POLICY, "segment.bytes": str(16 * 1024 * 1024)}
"""Settings of a new topic of ledgers. Kafka never compacts the segment that it appends to, of 1 GiB by default."""

_QUARANTINE: Final = ".quarantine"
_NO_LIMIT: Final = str(2**63 - 1)
_ARRIVAL: Final = "LogAppendTime"
_FOR_EVER: Final = "-1"
_DAY_MS: Final = 24 * 60 * 60 * 1000
_WEEK_MS: Final = 7 * _DAY_MS


def quarantine_topic(topic: str) -> str:
    """Return the name of the topic for the refused records of `topic`."""
    return f"{topic}{_QUARANTINE}"


def source_of_quarantine(topic: str) -> str | None:
    """Return the source topic of a quarantine topic; None for a name that is not a quarantine topic's."""
    source = topic.removesuffix(_QUARANTINE)
    return source if source and source != topic else None


def accepted_topic(topic: str) -> str:
    """Return the name of the topic for the accepted records of `topic` with the Kafka sink."""
    return f"{topic}.accepted"


def dropped_topic(topic: str) -> str:
    """Return the name of the topic for the positions of records of `topic` that a contract drops."""
    return f"{topic}.dropped"


def replayed_topic(topic: str) -> str:
    """Return the name of the topic for the positions of records of `topic` that were refused and later replayed."""
    return f"{topic}.replayed"


def marks_topic(topic: str) -> str:
    """Return the name of the topic for the marks of keys that records of `topic` delete from a table with upserts."""
    return f"{topic}.marks"


def marks_settings(max_message_bytes: int, days: int | None, of_source_ms: int) -> dict[str, str]:
    """Return the settings of a topic of marks.

    Replays need the marks as long as the quarantine topic holds a record (`days`, None for no limit). Reconciliations
    need them as long as the source does (`of_source_ms`, negative for no limit).
    """
    settings = output_settings(max_message_bytes)
    if days is None or of_source_ms < 0:
        return settings
    return {**settings, "retention.ms": str(max(days * _DAY_MS, of_source_ms, LEAST_RETENTION_MS))}


def least_settings(topic: str) -> dict[str, str] | None:
    """Return the settings that every job needs of an output topic of this name, or of the ledgers; None for others.

    `is_enough` compares them. The maximum message size depends on the source, so it is left out.
    """
    if topic == LEDGER_TOPIC:
        return LEDGER_POLICY
    settings = output_settings(0)
    del settings["max.message.bytes"]
    match topic.rpartition(".")[2]:
        case "quarantine":
            return {**settings, "message.timestamp.type": _ARRIVAL}
        case "accepted" | "dropped" | "replayed" | "marks":
            return settings
        case _:
            return None


def dropped_settings(max_message_bytes: int, retention_ms: int) -> dict[str, str]:
    """Return the settings of a topic of dropped positions.

    Positions are needed while the source holds their records: `retention_ms`, or -1 for no limit.
    """
    kept = retention_ms if retention_ms == -1 else max(retention_ms, LEAST_RETENTION_MS)
    return {**output_settings(max_message_bytes), "retention.ms": str(kept)}


def quarantine_settings(max_message_bytes: int, days: int | None) -> dict[str, str]:
    """Return the settings of a quarantine topic that keeps records for `days` after refusal; None for no limit.

    Kafka computes retention from the timestamp of a record, so an old refused record would be deleted immediately.
    Therefore the broker sets the time of arrival, and a header keeps the record's own timestamp.
    """
    settings = output_settings(max_message_bytes)
    if days is None:
        return settings
    return {
        **settings,
        "retention.ms": str(days * _DAY_MS),
        "message.timestamp.type": _ARRIVAL,
    }


def accepted_settings(max_message_bytes: int, days: int | None, of_source_ms: int) -> dict[str, str]:
    """Return the settings of an accepted topic. `of_source_ms` is the retention of the source; -1 for no limit.

    Records keep their own timestamps, because consumers use them. With `days` None, the retention is a week longer than
    the source's, because a stream may be a week behind.
    """
    settings = output_settings(max_message_bytes)
    if days is not None:
        return {**settings, "retention.ms": str(days * _DAY_MS)}
    kept = -1 if of_source_ms < 0 else max(of_source_ms, LEAST_RETENTION_MS) + _WEEK_MS
    return {**settings, "retention.ms": str(kept)}


def output_settings(max_message_bytes: int) -> dict[str, str]:
    """Return the settings of an output topic without a retention limit.

    `max_message_bytes` is the maximum size of a record batch in the source.
    """
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "max.message.bytes": str(max_message_bytes + HEADER_ROOM_BYTES),
        # A refused record keeps its own timestamp: the broker must not replace it or refuse an old one.
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": _NO_LIMIT,
        "message.timestamp.after.max.ms": _NO_LIMIT,
    }


def is_enough(key: str, actual: str, wanted: str) -> bool:
    """Return whether the `actual` value of a topic setting is sufficient where the job wants `wanted`.

    Operators may choose a retention from one day and 512 MiB on, because a restart must find the last batch. Where the
    broker's time of arrival is wanted, the records' own timestamps are sufficient too.
    """
    match key:
        case "message.timestamp.type":
            return wanted in {actual, _ARRIVAL}
        case "retention.ms":
            return actual in {wanted, _FOR_EVER} or int(actual) >= LEAST_RETENTION_MS
        case "retention.bytes":
            return actual in {wanted, _FOR_EVER} or int(actual) >= LEAST_RETENTION_BYTES
        case "max.message.bytes":
            return int(actual) >= int(wanted)
        case _:
            return actual == wanted
