"""Kafka headers that record where an output record came from, and why it was refused.

A record in an output topic keeps its key, value, headers and timestamp; these headers are appended to its own.
Readers take the last header of a name, so a producer's forged or replayed header never counts. Everything written
here is static text: codes, pointers through declared names, sentences; never a value of the payload.

Source: KIP-1191 for the `__dlq.errors.*` headers, whose values are UTF-8 text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from hashlib import sha256
from operator import methodcaller
from typing import Any, Self

from tidegate.contracts.stream.ledger import BatchRefusal, Vector
from tidegate.contracts.stream.versions import HEADER_FORMAT
from tidegate.contracts.verdict import Severity, Stage, Verdict, Violation

MAX_HEADER_BYTES = 8 * 1024
"""Maximum size of one header value: brokers limit the record size, and the payload must still fit."""

SOURCE_HEADER = "tidegate.source"
"""Topic, partition and offset of the record in its source, as `topic/partition/offset`."""
LEDGER_HEADER = "tidegate.ledger"
"""Name of the ledger in which the record counts."""
CONTRACT_HEADER = "tidegate.contract"
"""Contract version that judged the record, as `id@version`."""
RULES_HEADER = "tidegate.rules"
"""Codes of the violations, with commas between them (quarantine only)."""
VIOLATIONS_HEADER = "tidegate.violations"
"""The violations as JSON (quarantine only)."""
BATCH_HEADER = "tidegate.batch"
"""End of the record's batch, as offset by partition, if the whole batch was refused (quarantine only)."""
TIMESTAMP_HEADER = "tidegate.timestamp"
"""Time of the record in its source, in milliseconds since 1970 UTC. The broker may replace the record's own time
(quarantine), and Kafka's client replaces a time of 0."""
GENERATION_HEADER = "tidegate.generation"
"""Generation of the ledger that refused the record, omitted if it is 0 (quarantine only)."""
JUDGED_AT_HEADER = "tidegate.judged-at"
"""Moment at which the batch of the record was judged, in nanoseconds since 1970 UTC (quarantine only)."""
REPLAY_HEADER = "tidegate.replay"
"""Id of the request that has replayed the record, 32 hexadecimal digits (accepted topic only)."""
SENT_BACK_HEADER = "tidegate.replayed-from"
"""Source position, as `topic/partition/offset`, of the refused record that was sent again as this one."""
OMITTED_HEADER = "tidegate.omitted"
"""Sizes in bytes and SHA-256 of a record that was set aside and is too large for the quarantine topic, as JSON."""
ORIGIN_HEADER = "tidegate.origin"
"""File or table from which `tidegate enforce --from-files` or `--from-table` read the record; one of its own headers."""
FORMAT_HEADER = "tidegate.format"
"""Format of these headers, a number; omitted if it is 1. It counts only after the last `tidegate.source`."""

SET_ASIDE = Violation(
    Stage.FRAME, "record.set-aside", "", Severity.ERROR, "was set aside by a person, and not judged"
)
"""The violation of a record that a person has quarantined without a verdict."""

Headers = Iterable[tuple[str, bytes | None]]
"""Kafka headers in their order in the record; names may repeat, values may be null."""

_KNOWN_FORMATS = frozenset(str(number).encode() for number in range(1, HEADER_FORMAT + 1))
# Any producer can write our headers: numbers beyond these fit into no column of the tables.
_MOST_PARTITION = (1 << 31) - 1
_MOST_OFFSET = (1 << 63) - 1
_MOST_LEFT_OUT = (1 << 31) - 1
_MOST_MILLISECONDS = 1 << 53
"""Maximum time in milliseconds since 1970; microseconds fit into 64 bits."""
_MOST_REMEMBERED = 4_096
_MOST_REASONS = 256
"""Maximum number of cached lists of violations; each takes up to two headers."""

# The Kafka client sets an error for a header name that is not UTF-8, but returns a half-built list. Python's specialised
# call of `message.headers()` does not check for that error, and the process crashes. A methodcaller does check.
_read_headers = methodcaller("headers")


@dataclass(frozen=True, slots=True, order=True)
class EventPointer:
    """The identity of a record: where in Kafka it was first read, written as `topic/partition/offset`."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the form that `str` returns. Raises ValueError for anything else, and for numbers beyond Kafka's."""
        with suppress(ValueError):
            topic, partition, offset = text.split("/")  # a topic name has no slash
            if topic:
                return cls(topic, _natural(partition, _MOST_PARTITION), _natural(offset, _MOST_OFFSET))
        raise ValueError(f"{text!r} is not an event pointer; expected topic/partition/offset")


@dataclass(frozen=True, slots=True)
class Provenance:
    """The content of the headers of every output record: its source, its ledger, and the contract as `id@version`.

    `generation` is the ledger's; 0 for accepted records. `is_replayed` means that a replay wrote the record.
    """

    source: EventPointer
    ledger: str
    contract: str
    generation: int = field(default=0, kw_only=True)
    is_replayed: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ViolationList:
    """The violations of one record that fit into a header, and the number of those that did not."""

    violations: tuple[Violation, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Evidence(Provenance):
    """The evidence in the headers of a quarantined record. `rules` are the violated codes, in the judge's order.

    `refusal` is set if the record was quarantined because its whole batch was refused.
    """

    rules: tuple[str, ...]
    violations: tuple[Violation, ...]
    left_out: int = 0
    refusal: BatchRefusal | None = None


def encode_violations(violations: tuple[Violation, ...]) -> bytes:
    """Encode as JSON `{"violations": [...], "left_out": n}` in UTF-8, at most MAX_HEADER_BYTES.

    The list is cut after a whole violation; `left_out` counts the violations that were cut, and is omitted if 0.
    """
    encoded = [_encode_violation(violation) for violation in violations]
    # Reserve room for the longest possible tail, so that adding it never exceeds the limit.
    room = MAX_HEADER_BYTES - len(b'{"violations":[]}') - len(f',"left_out":{len(encoded)}')
    kept = _fitting(encoded, room)
    left_out = len(encoded) - len(kept)
    tail = f',"left_out":{left_out}'.encode() if left_out else b""
    return b'{"violations":[' + b",".join(kept) + b"]" + tail + b"}"


def decode_violations(encoded: bytes) -> ViolationList:
    """Decode what `encode_violations` wrote. Raises ValueError for anything else."""
    return _decoded(encoded) if len(encoded) > MAX_HEADER_BYTES else _remembered(encoded)


def _decoded(encoded: bytes) -> ViolationList:
    try:
        document = json.loads(encoded)
        violations = tuple(_decode_violation(item) for item in document["violations"])
        return ViolationList(violations, _natural(str(document.get("left_out", 0)), _MOST_LEFT_OUT))
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("not a list of violations as Tidegate writes it") from error


_remembered = lru_cache(maxsize=_MOST_REASONS)(_decoded)  # many records have the same violations


def provenance_headers(source: EventPointer, ledger: str, contract: str) -> list[tuple[str, bytes]]:
    """Return the headers of a record in an accepted topic; `contract` is `id@version`."""
    return [
        (SOURCE_HEADER, str(source).encode()),
        (LEDGER_HEADER, ledger.encode()),
        (CONTRACT_HEADER, contract.encode()),
    ]


def quarantine_headers(
    source: EventPointer, ledger: str, contract: str, verdict: Verdict, batch_end: Vector | None = None
) -> list[tuple[str, bytes]]:
    """Return the headers of a record in a quarantine topic, to be appended to the record's own.

    `batch_end` is the end of the record's batch if the batch was refused as a whole, else None.
    """
    rules, violations, message = _reasons(verdict.violations)
    return [
        *provenance_headers(source, ledger, contract),
        (RULES_HEADER, rules),
        (VIOLATIONS_HEADER, violations),
        *([] if batch_end is None else [(BATCH_HEADER, _encode_vector(batch_end))]),
        ("__dlq.errors.topic", source.topic.encode()),
        ("__dlq.errors.partition", str(source.partition).encode()),
        ("__dlq.errors.offset", str(source.offset).encode()),
        ("__dlq.errors.message", message),
    ]


def timestamp_header(timestamp_ms: int) -> tuple[str, bytes]:
    """Return the header with the time of a record in its source, in milliseconds since 1970 UTC."""
    return TIMESTAMP_HEADER, str(timestamp_ms).encode()


def read_timestamp(headers: Headers | None) -> int | None:
    """Return the time of a record in its source, in milliseconds; None if the record's own time applies."""
    return _number_in(dict(headers or ()), TIMESTAMP_HEADER, _MOST_MILLISECONDS)


def generation_header(generation: int) -> list[tuple[str, bytes]]:
    """Return the header with the generation, which follows `quarantine_headers`; an empty list for generation 0."""
    return [(GENERATION_HEADER, str(generation).encode())] if generation else []


def judged_at_header(now: int | None) -> list[tuple[str, bytes]]:
    """Return the header with the moment of a batch, in nanoseconds since 1970; an empty list for None."""
    return [] if now is None else [(JUDGED_AT_HEADER, str(now).encode())]


@dataclass(frozen=True, slots=True)
class Original:
    """A quarantined record as it was in its source: its own headers, and its time in milliseconds since 1970 UTC.

    `judged_at` is the moment at which it was judged, in nanoseconds since 1970; None without such a header. With
    `is_omitted`, its key, value and headers were left out.
    """

    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None
    judged_at: int | None
    is_omitted: bool

    @property
    def was_sent_back(self) -> bool:
        """Return whether the record was sent to its source topic from quarantine; such a record is never sent again."""
        return any(name == SENT_BACK_HEADER for name, _ in self.headers)


def our_headers_begin(headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the index of the last `tidegate.source`; the number of headers if there is none.

    Tidegate's headers begin there. Those before it are the producer's, or from an earlier refusal of the record.
    """
    for index in range(len(headers) - 1, -1, -1):
        if headers[index][0] == SOURCE_HEADER:
            return index
    return len(headers)


def read_original(headers: Headers) -> Original:
    """Split the headers of a quarantined record into its own and ours, which begin at the last `tidegate.source`."""
    found = tuple(headers)
    begin = our_headers_begin(found)
    ours = {name: value or b"" for name, value in found[begin:]}
    return Original(
        found[:begin],
        _number_in(ours, TIMESTAMP_HEADER, _MOST_MILLISECONDS),
        _number_in(ours, JUDGED_AT_HEADER, _MOST_OFFSET),
        OMITTED_HEADER in ours,
    )


def _number_in(headers: Mapping[str, bytes | None], name: str, most: int) -> int | None:
    try:
        number = int(headers.get(name) or b"")
    except ValueError:
        return None
    return number if abs(number) <= most else None


def omitted_header(key: bytes | None, value: bytes | None, headers: Headers) -> tuple[str, bytes]:
    """Return the header that describes an omitted record: sizes in bytes, and the SHA-256 of the value."""
    omitted = {
        "key_bytes": len(key or b""),
        "value_bytes": len(value or b""),
        "headers_bytes": sum(len(name.encode()) + len(each or b"") for name, each in headers),
        "value_sha256": None if value is None else sha256(value).hexdigest(),
    }
    return OMITTED_HEADER, json.dumps(omitted).encode()


def read_provenance(headers: Headers | None) -> Provenance | None:
    """Return where an output record came from; None if Tidegate did not write it."""
    last: dict[str, bytes] = {}
    for name, value in headers or ():
        if name == SOURCE_HEADER:
            # Our headers begin here. Those before it are a producer's, or from an earlier refusal of the record.
            last.pop(GENERATION_HEADER, None)
            last.pop(REPLAY_HEADER, None)
        last[name] = value or b""
    try:
        return Provenance(
            source=EventPointer.parse(last[SOURCE_HEADER].decode()),
            ledger=last[LEDGER_HEADER].decode(),
            contract=last[CONTRACT_HEADER].decode(),
            generation=_read_generation(last.get(GENERATION_HEADER)),
            is_replayed=REPLAY_HEADER in last,
        )
    except (KeyError, ValueError):
        return None


def read_evidence(headers: Headers | None) -> Evidence | None:
    """Return why a record was quarantined; None if Tidegate did not write it, or the format is unknown."""
    found = tuple(headers or ())
    if not _is_known_format(found):
        return None
    last = {name: value or b"" for name, value in found}
    provenance = read_provenance(found)
    if provenance is None:
        return None
    try:
        listed = decode_violations(last[VIOLATIONS_HEADER])
        rules = last[RULES_HEADER].decode()
        refusal = _read_refusal(last.get(BATCH_HEADER), listed.violations)
    except (KeyError, ValueError):
        return None
    return Evidence(
        source=provenance.source,
        ledger=provenance.ledger,
        contract=provenance.contract,
        generation=provenance.generation,
        rules=tuple(rules.split(",")) if rules else (),
        violations=listed.violations,
        left_out=listed.left_out,
        refusal=refusal,
    )


def _is_known_format(headers: Headers) -> bool:
    """Return whether this release can read the format of the headers.

    Our headers follow all others. A format header of the producer precedes our source header, and does not count.
    """
    written_format: bytes | None = None
    for name, value in headers:
        if name == SOURCE_HEADER:
            written_format = None
        elif name == FORMAT_HEADER:
            written_format = value or b""
    return written_format is None or written_format in _KNOWN_FORMATS


def _read_generation(encoded: bytes | None) -> int:
    if encoded is None:
        return 0
    return _natural(encoded.decode(), _MOST_OFFSET)


def _encode_vector(vector: Vector) -> bytes:
    return json.dumps({str(partition): vector[partition] for partition in sorted(vector)}).encode()


def _read_refusal(encoded: bytes | None, violations: tuple[Violation, ...]) -> BatchRefusal | None:
    """Decode where a refused batch ends; None without a header. Raises ValueError unless `_encode_vector` wrote it.

    A producer can send this header too, so it counts only together with a violation of an expectation, which is ours.
    """
    reasons = tuple(each for each in violations if each.stage is Stage.EXPECTATION)
    if encoded is None or not reasons:
        return None
    try:
        end = {
            _natural(partition, _MOST_PARTITION): _natural(str(offset), _MOST_OFFSET)
            for partition, offset in json.loads(encoded).items()
        }
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError("not the end of a batch as Tidegate writes it") from error
    return BatchRefusal(end, reasons)


@lru_cache(maxsize=_MOST_REMEMBERED)  # many records have the same violations
def _encode_violation(violation: Violation) -> bytes:
    return json.dumps(asdict(violation), ensure_ascii=False, separators=(",", ":")).encode()


def _decode_violation(item: dict[str, str]) -> Violation:
    code, pointer, message = (str(item[name]) for name in ("code", "pointer", "message"))
    for text in (code, pointer, message):
        text.encode()  # a lone surrogate could be neither shown nor stored; Tidegate writes none
    return Violation(Stage(item["stage"]), code, pointer, Severity(item["severity"]), message)


def _fitting(parts: list[bytes], room: int) -> list[bytes]:
    """Return the longest prefix of `parts` that takes at most `room` bytes when joined by a separator of one byte."""
    used = -1
    for count, part in enumerate(parts):
        used += len(part) + 1
        if used > room:
            return parts[:count]
    return parts


@lru_cache(maxsize=_MOST_REASONS)  # many records have the same violations
def _reasons(violations: tuple[Violation, ...]) -> tuple[bytes, bytes, bytes]:
    """Return the encoded codes, the encoded violations, and a sentence about them."""
    codes = dict.fromkeys(violation.code for violation in violations)
    rules = _fitting([code.encode() for code in codes], MAX_HEADER_BYTES)
    return b",".join(rules), encode_violations(violations), _summary(violations).encode()


def _summary(violations: tuple[Violation, ...]) -> str:
    """Return one sentence with the reason, for tools that show dead-letter records, such as Kafka UIs."""
    if not violations:
        return "refused"
    first, *others = violations
    place = f" at {first.pointer}" if first.pointer else ""
    more = f" (and {len(others)} more)" if others else ""
    (message,) = _fitting([f"{first.code}{place}: {first.message}".encode()], MAX_HEADER_BYTES - 64) or [
        first.code.encode()
    ]
    return message.decode() + more


def _natural(text: str, most: int) -> int:
    """Return a decimal number without a sign. Raises ValueError for anything else, and for one above `most`."""
    if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and (number := int(text)) <= most:
        return number
    raise ValueError(f"not a number from 0 to {most}")


def headers_of(message: Any) -> list[tuple[str, bytes | None]]:
    """Return the headers of a message of the Kafka client, in order.

    The list is empty if a name is not UTF-8: no record that Tidegate has written has such a header.
    """
    try:
        found = _read_headers(message) or []
    except (SystemError, UnicodeDecodeError):
        # The message keeps the half-built list, and the next call of `headers` would crash the process.
        message.set_headers([])
        return []
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in found]
