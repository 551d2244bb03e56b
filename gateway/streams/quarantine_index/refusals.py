"""Conversion of refused records to entries of the index: position, source position, and facets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import orjson

from tidegate.contracts.document.fields import value_at
from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.document.rule_model import Forbidden
from tidegate.contracts.formats.framing import PREFIX_BYTES
from tidegate.contracts.stream.evidence import (
    MAX_HEADER_BYTES,
    SOURCE_HEADER,
    VIOLATIONS_HEADER,
    Evidence,
    read_evidence,
)
from tidegate.contracts.verdict import Stage
from tidegate.contracts.words import is_visible
from tidegate.gateway.storage.quarantine_index import Facet
from tidegate.gateway.streams.quarantine import Origin
from tidegate.gateway.streams.quarantine_index.avro_values import Decode, Headers
from tidegate.gateway.streams.quarantine_index.facets import (
    Offence,
    ProblemKey,
    all_records,
    offences_of,
    producer_facet,
    version_facet,
    version_of,
)
from tidegate.gateway.streams.quarantine_index.shapes import ABSENT, UNKNOWN, sentinel, shape_of

_MOST_VALUE_BYTES = 1 << 20
"""Maximum bytes of a value that is decoded: decoding larger ones would delay the index, so their shape is unknown."""
_MOST_REMEMBERED = 10_000
_LONGEST_SHOWN = 100
_EARLIEST_MINUTE, _LATEST_MINUTE = 946_684_800 // 60, 4_102_444_800 // 60  # the years 2000 and 2100
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class RawRefusal:
    """A record of a quarantine topic, as read; `timestamp_ms` is its arrival in milliseconds since 1970."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class ContractHints:
    """The facts about a contract version that the index needs.

    `decode` reads Avro records. `sentinels` are the values that a rule names, by the rule's id. `producer_headers` are
    pairs (name, is public).
    """

    is_json: bool = False
    is_framed: bool = False
    sentinels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    producer_headers: tuple[tuple[str, bool], ...] = ()
    decode: Decode | None = None

    @classmethod
    def of(cls, contract: DataContract, decode: Decode | None = None) -> ContractHints:
        """Return the hints of a contract; `decode` reads records that are not JSON, None without a decoder."""
        return cls(
            is_json=isinstance(contract.schema_, JsonSchema),
            is_framed=contract.framing in {"confluent-prefix", "auto"},
            sentinels={
                rule.id: frozenset(sentinel(value) for value in rule.values)
                for rule in contract.rules
                if isinstance(rule, Forbidden)
            },
            producer_headers=tuple((each.name, each.public) for each in contract.producer_headers),
            decode=decode,
        )


UNKNOWN_CONTRACT: Final = ContractHints()
FindHints = Callable[[str], ContractHints]
"""Returns the hints of a version of the stream's contract; UNKNOWN_CONTRACT if the registry does not have it."""


def key_hash(key: bytes | None, secret: bytes) -> int:
    """Return a keyed 32-bit hash of a record's key; 0 for a null key."""
    return 0 if key is None else int.from_bytes(blake2b(key, digest_size=4, key=secret).digest(), "big")


class RefusalReader:
    """A reader of one stream's refused records; `secret` keys the hashes of keys and producer headers."""

    def __init__(self, origin: Origin, secret: bytes, hints: FindHints) -> None:
        self._origin = origin
        self._secret = secret
        self._hints = hints
        self._all = all_records(origin.contract_id)
        self._facets: dict[object, Facet] = {}

    def read(self, record: RawRefusal) -> tuple[tuple[int, int, int, int, int], list[Facet]] | None:
        """Return (offset, minute, source partition, source offset, key hash) and the facets of a record.

        None for a record without evidence, or one that another contract refused: these are not this stream's.
        """
        if any(
            name == VIOLATIONS_HEADER and len(value or b"") > MAX_HEADER_BYTES
            for name, value in record.headers
        ):
            return None  # Tidegate itself writes no header of this size
        evidence = read_evidence(record.headers)
        if evidence is None or not self._origin.owns(evidence):
            return None
        minute = min(max(record.timestamp_ms // 60_000, _EARLIEST_MINUTE), _LATEST_MINUTE)
        source = evidence.source
        row = (record.offset, minute, source.partition, source.offset, key_hash(record.key, self._secret))
        return row, self._facets_of(record, evidence)

    def _facets_of(self, record: RawRefusal, evidence: Evidence) -> list[Facet]:
        stream = self._origin.contract_id
        version = version_of(evidence)
        hints = self._hints(version)
        found = [self._all, self._remembered(("v", version), partial(version_facet, stream, version))]
        if hints.producer_headers:
            found += self._producers(record.headers, hints)
        offences = offences_of(evidence.violations)
        has_places = any(each.path is not None for each in offences)
        decoded = _decoded(record, hints) if has_places else None
        for offence in offences:
            key = _problem(offence, decoded, hints, record.value)
            found.append(
                self._remembered((key, offence.message), partial(key.facet, stream, offence.message))
            )
        return found if len(found) < 4 else list({each.facet: each for each in found}.values())

    def _producers(self, headers: Headers, hints: ContractHints) -> list[Facet]:
        """Return the facets of the producer's headers: the last of each name counts.

        Tidegate appends its own headers after those of the producer.
        """
        own = max(index for index, (name, _) in enumerate(headers) if name == SOURCE_HEADER)
        last = {name: value for name, value in headers[:own] if value is not None}
        found = []
        for name, is_public in hints.producer_headers:
            if (value := last.get(name)) is not None:
                # Only a hash of the value is cached, because the value may be as long as a record.
                hashed = blake2b(value, digest_size=8, key=self._secret).hexdigest()
                identity = (name, is_public, hashed)
                found.append(
                    self._remembered(
                        identity, partial(self._producer, name, hashed, _shown(value, is_public=is_public))
                    )
                )
        return found

    def _producer(self, name: str, hashed: str, shown: str | None) -> Facet:
        return producer_facet(self._origin.contract_id, name, hashed if shown is None else shown, shown)

    def _remembered(self, what: object, make: Callable[[], Facet]) -> Facet:
        facet = self._facets.get(what)
        if facet is None:
            if len(self._facets) >= _MOST_REMEMBERED:
                self._facets.clear()
            facet = self._facets[what] = make()
        return facet


def _shown(value: bytes, *, is_public: bool) -> str | None:
    """Return the text of a producer header's value, cut; None unless the contract declares the header public."""
    if not is_public:
        return None
    text = value[: 4 * _LONGEST_SHOWN].decode(errors="replace")[:_LONGEST_SHOWN]
    return "".join(each if is_visible(each) else "\N{REPLACEMENT CHARACTER}" for each in text)


def _problem(offence: Offence, decoded: Any, hints: ContractHints, value: bytes | None) -> ProblemKey:
    stage, code = offence.stage.value, offence.code
    if offence.is_absence:
        return ProblemKey(stage, code, offence.field, ABSENT)
    if offence.stage in {Stage.FRAME, Stage.DECODE}:
        flaw = _json_flaw(value) if code == "json.invalid" else None
        sentence = f"{offence.sentence}: {flaw}" if flaw else offence.sentence
        return ProblemKey(stage, code, offence.field, "", sentence)
    if offence.path is None:
        return ProblemKey(stage, code, offence.field)
    if decoded is _MISSING or decoded is None:
        return ProblemKey(stage, code, offence.field, UNKNOWN)
    found = value_at(decoded, offence.path, _MISSING)
    shape = ABSENT if found is _MISSING else shape_of(found, hints.sentinels.get(code, frozenset()))
    return ProblemKey(stage, code, offence.field, shape)


def _decoded(record: RawRefusal, hints: ContractHints) -> Any:
    """Return the decoded value of a record; `_MISSING` if it cannot be decoded here."""
    value = record.value
    if value is None or len(value) > _MOST_VALUE_BYTES:
        return _MISSING
    if hints.decode is not None:
        found = hints.decode(value, record.headers)
        return _MISSING if found is None else found
    if not hints.is_json:
        return _MISSING
    payload = value[PREFIX_BYTES:] if hints.is_framed and value[:1] == b"\0" else value
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError:
        return _MISSING


# Our own words for messages of Python's parser, by their beginnings: without positions and quoted text.
_FLAWS: Mapping[str, str] = {
    "Expecting value": "a value is expected",
    "Expecting property name": "a property name in quotes is expected",
    "Expecting ':' delimiter": "a colon is expected after a property name",
    "Expecting ',' delimiter": "a comma is expected between two values",
    "Unterminated string": "a text does not end",
    "Invalid control character": "a text holds a control character",
    "Invalid \\": "a text holds an escape that JSON does not have",
    "Extra data": "more follows after the value",
    "Unexpected UTF-8 BOM": "it begins with a byte order mark",
}


def _json_flaw(value: bytes | None) -> str | None:
    """Return why a value is not JSON, in our own words; None if unknown."""
    if value is None or len(value) > _MOST_VALUE_BYTES:
        return None
    try:
        json.loads(value)
    except json.JSONDecodeError as error:
        return _words_of(error)
    except (ValueError, RecursionError):
        return None
    return None


def _words_of(error: json.JSONDecodeError) -> str | None:
    if not error.doc.strip():
        return "it is empty"
    if error.pos >= len(error.doc):
        return "it ends before the value is complete"
    # Python 3.13 has a separate message for this, older versions have two others; the index must not depend on that.
    is_trailing = error.doc[: error.pos].rstrip().endswith(",") and error.doc[error.pos] in "]}"
    if is_trailing or error.msg.startswith("Illegal trailing comma"):
        return "a comma stands before the end of an object or array"
    return next((words for begin, words in _FLAWS.items() if error.msg.startswith(begin)), None)
