"""Looks at a line from outside and says what became of each record: reads source, sink, quarantine and ledger, and nothing
that the job remembers. Shares no code with `reconcile`, which is held to the same answers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from tests.integration.enforce.line import Line
from tidegate.contracts.stream.evidence import SOURCE_HEADER, headers_of, read_timestamp
from tidegate.contracts.stream.ledger import Position
from tidegate.contracts.stream.output_topics import accepted_topic, quarantine_topic
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics

CONTRACT_COLUMNS = ("id", "amount", "day")


class Read(NamedTuple):
    """A record of a topic, with all that must stay as it was."""

    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, Any], ...]
    timestamp_ms: int


@dataclass(frozen=True)
class Account:
    """Records that do not have exactly one fate, by what is the matter with them. All empty: everything is accounted for.

    `from_nowhere` are in an output and not in the source, or not below the ledger's end, or lost to a newer record.
    """

    lost: tuple[Position, ...] = ()
    doubled: tuple[Position, ...] = ()
    in_both: tuple[Position, ...] = ()
    from_nowhere: tuple[Position, ...] = ()
    changed: tuple[Position, ...] = ()


CLEAN = Account()


Topic = dict[Position, Read]
"""Records of a topic, by partition and offset."""
NOTHING: Mapping[str, Topic] = {}


def account(
    line: Line,
    deleted: Mapping[str, Topic] = NOTHING,
    *,
    replayed: AbstractSet[Position] = frozenset(),
) -> Account:
    """Look at everything that the ledger covers. `deleted` are records that topics held and retention has deleted.

    `replayed` are refused records that must have been written since.
    """
    ledger, quarantine = line.ledger(), quarantine_topic(line.topic)
    source = {
        position: read
        for position, read in (deleted.get(line.topic, {}) | dict(read_topic(line, line.topic))).items()
        if ledger.begin.get(position[0], 0) <= position[1] < ledger.end.get(position[0], 0)
    }
    refused = [
        (position, read)
        for position, read in outputs(line, quarantine, deleted.get(quarantine, {}))
        if position
    ]
    written, changed = _written(line, source, deleted.get(accepted_topic(line.topic), {}))
    in_quarantine, in_sink = Counter(position for position, _ in refused), Counter(written)
    still_refused = Counter({p: count for p, count in in_quarantine.items() if p not in replayed})
    expected = _expected(line, source, still_refused)
    changed = [position for position in changed if position not in replayed]  # a fix has changed them

    writes_ahead = line.settings.sink == "kafka" and ledger.slots > 1

    def is_ahead(position: Position) -> bool:
        return position[1] >= ledger.end.get(position[0], 0)

    changed += [
        position for position, read in refused if position in source and not _is_same(source[position], read)
    ]
    return Account(
        lost=_sorted(position for position in expected if not in_sink[position]),
        doubled=_sorted(p for counts in (in_quarantine, in_sink) for p, count in counts.items() if count > 1),
        in_both=_sorted(still_refused.keys() & in_sink.keys()),
        # What is quarantined and ahead of the ledger is settled, and its batch still to be published; so is what tasks have written.
        from_nowhere=_sorted(
            {p for p in {*in_sink} - expected if not (writes_ahead and is_ahead(p))}
            | {p for p in in_quarantine if p not in source and not is_ahead(p)}
        ),
        changed=_sorted(changed),
    )


def require_exactly_once(line: Line, replayed: AbstractSet[Position] = frozenset()) -> None:
    """Require that all of the source is accounted for, that the ledger says the same, and `reconcile` too."""
    ledger = line.ledger()
    latest = Topics(line.settings.kafka).latest(line.topic)
    assert ledger.end == latest, "the stream has not come to its end"
    assert account(line, replayed=replayed) == CLEAN
    written = len(line.accepted()) if line.settings.sink == "kafka" else len(line.rows())
    assert (ledger.totals.written, ledger.totals.quarantined) == (
        written,
        len(line.quarantined()) - len(replayed),
    )
    found = line.reconcile()
    assert found.holds, found


def _expected(line: Line, source: dict[Position, Read], refused: Counter[Position]) -> set[Position]:
    """Return which records must be in the sink: all that were not refused, or of each key the newest."""
    accepted = {position: read for position, read in source.items() if not refused[position]}
    if line.settings.write_mode == "append":
        return {*accepted}
    newest: dict[str, Position] = {}
    for position in sorted(
        accepted
    ):  # producers here keep a key in one partition: its newest record is its last
        read = accepted[position]
        key = (read.key or b"").decode() if read.value is None else str(json.loads(read.value)["id"])
        newest[key] = position
    return {position for position in newest.values() if accepted[position].value is not None}


def _written(
    line: Line, source: dict[Position, Read], deleted: Topic
) -> tuple[list[Position], list[Position]]:
    """Return the positions of what is in the sink, or was `deleted` from it, and of what is not what it was."""
    if line.settings.sink == "kafka":
        records = [(p, read) for p, read in outputs(line, accepted_topic(line.topic), deleted) if p]
        changed = [p for p, read in records if p in source and not _is_same(source[p], read)]
        return [position for position, _ in records], changed
    positions, changed = [], []
    for row in line.rows():
        place = row.get("_source") or {name.removeprefix("_source_"): row[name] for name in row}
        position = (place["partition"], place["offset"])
        positions.append(position)
        if position in source and not _is_row_of(source[position], row, place):
            changed.append(position)
    return positions, changed


def _is_row_of(read: Read, row: dict[str, Any], place: dict[str, Any]) -> bool:
    record: dict[str, Any] = json.loads(read.value or b"{}")
    if (day := record.get("day")) is not None:
        record["day"] = date.fromisoformat(day)
    is_same = all(row[name] == record.get(name) for name in CONTRACT_COLUMNS if name in row)
    return is_same and place["timestamp"] == datetime.fromtimestamp(read.timestamp_ms / 1000, UTC)


def _is_same(original: Read, read: Read) -> bool:
    """Return whether a record kept its bytes; ours are behind its own headers."""
    headers = read.headers[: len(original.headers)]
    return read._replace(headers=headers) == original


def outputs(line: Line, topic: str, deleted: Topic) -> Iterator[tuple[Position | None, Read]]:
    """Read an output topic, by the source position that its records name; None for a stranger's record."""
    for read in (deleted | dict(read_topic(line, topic))).values():
        named = [value for name, value in read.headers if name == SOURCE_HEADER]
        if not named:
            yield None, read
            continue
        name, partition, offset = named[-1].decode().rsplit("/", 2)
        assert name == line.topic
        own = read_timestamp(read.headers)  # the broker may have set the time of a refused record
        yield (int(partition), int(offset)), read if own is None else read._replace(timestamp_ms=own)


def read_topic(line: Line, topic: str) -> Iterator[tuple[Position, Read]]:
    """Read the committed records of a topic, by partition and offset."""
    kafka = line.settings.kafka
    for message in read_committed(kafka, topic, {}, Topics(kafka).latest(topic)):
        value, key, moment = message.value(), message.key(), message.timestamp()[1]
        read = Read(value, key, tuple(headers_of(message)), moment)
        yield (message.partition() or 0, message.offset() or 0), read


def _sorted(positions: Iterable[Position]) -> tuple[Position, ...]:
    return tuple(sorted({*positions}))
