"""Refused records for the API and for downloads, masked for a reader by the contract that refused them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from pydantic_core import to_json

from tidegate.contracts.document.model import AvroSchema, DataContract
from tidegate.contracts.errors import ContractError, NotFoundError
from tidegate.contracts.explain.account import Explainer, Explanation
from tidegate.contracts.formats.framing import schema_header
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.privacy.classes import (
    BODY,
    HEADERS,
    KEY,
    Visibility,
    visibility_of,
    with_classes_of,
)
from tidegate.contracts.stream.evidence import (
    BATCH_HEADER,
    CONTRACT_HEADER,
    FORMAT_HEADER,
    GENERATION_HEADER,
    JUDGED_AT_HEADER,
    LEDGER_HEADER,
    RULES_HEADER,
    SOURCE_HEADER,
    TIMESTAMP_HEADER,
    VIOLATIONS_HEADER,
    our_headers_begin,
)
from tidegate.contracts.verdict import Violation
from tidegate.contracts.words import plain_sentence
from tidegate.gateway.registry.publication import LATEST
from tidegate.gateway.storage.sql import ContractVersion
from tidegate.gateway.streams.masking import HIDDEN, declared_names, decoded_json, masked_json
from tidegate.gateway.streams.quarantine import QuarantinedRecord

MOST_VALUE_BYTES: Final = 64 << 10
"""Maximum bytes of a value in a list of records."""
MOST_SINGLE_BYTES: Final = 1 << 20
_MOST_HEADER_BYTES = 400
_OURS = frozenset(
    {
        *(SOURCE_HEADER, LEDGER_HEADER, CONTRACT_HEADER, RULES_HEADER, VIOLATIONS_HEADER, BATCH_HEADER),
        *(TIMESTAMP_HEADER, GENERATION_HEADER, JUDGED_AT_HEADER, FORMAT_HEADER),
        *(f"__dlq.errors.{name}" for name in ("topic", "partition", "offset", "message")),
    }
)
"""Tidegate's headers without values of the record. `tidegate.omitted` is not among them: it has a hash of the value."""


FindVersion = Callable[[str, str], ContractVersion]
"""Returns a contract version by contract id and version. Raises NotFoundError."""


@dataclass(frozen=True, slots=True)
class MaskedRecord:
    """A refused record without the parts that its reader may not see.

    `value_text` is the value as JSON, with HIDDEN in place of hidden parts; an Avro value is decoded by the contract. It
    is None for a null, for bytes that are not text, and for a value above the limit (`is_cut`). `value` is the decoded
    `value_text`; None if it is not JSON. `hidden` names the hidden parts. `headers` are those of the producer.
    """

    position: str
    source: str
    at: datetime | None
    refused_at: datetime | None
    contract: str
    explanations: tuple[Explanation, ...]
    left_out: int
    key: str | None
    value: Any
    value_text: str | None
    is_cut: bool
    hidden: tuple[str, ...]
    headers: tuple[tuple[str, str | None], ...]
    size: int | None


@dataclass(frozen=True)
class Viewer:
    """A reader of the records of one contract version, with the parts that were `revealed` to them.

    `contract` is None if the registry does not show it, `plan` also if it no longer compiles.
    """

    contract: DataContract | None
    plan: EnforcementPlan | None
    revealed: frozenset[str] = frozenset()
    may_reveal: bool = False

    @cached_property
    def visibility(self) -> Visibility:
        """Return the parts of a record that are shown."""
        if self.contract is None:
            return Visibility(None, revealed=self.revealed)
        return visibility_of(self.contract, declared_names(self.contract), self.revealed)

    @cached_property
    def explainer(self) -> Explainer | None:
        """Return the writer of the sentences about violations; None if the contract does not compile."""
        return None if self.plan is None else Explainer(self.plan, self.visibility)

    @property
    def knows_writers(self) -> bool:
        """Return whether the schemas that writers of the records may have used are known."""
        is_framed = self.contract is not None and self.contract.framing != "none"
        return not is_framed or (self.plan is not None and self.plan.writers is not None)

    def explain(self, record: QuarantinedRecord, violations: Sequence[Violation]) -> tuple[Explanation, ...]:
        """Return the explanation of each violation of a record."""
        if self.explainer is None:
            return tuple(Explanation(violation, plain_sentence(violation)) for violation in violations)
        return self.explainer.explain(record.value, violations, schema_header(record.headers))


class RecordMasking:
    """A masker of records for one reader. It looks up each contract version once."""

    def __init__(
        self,
        version: FindVersion,
        plan: Callable[[ContractVersion], EnforcementPlan],
    ) -> None:
        self._version = version
        self._plan = plan
        self._viewers: dict[str, Viewer] = {}

    def viewer(self, contract: str) -> Viewer:
        """Return the viewer for a contract version, given as `id@version`."""
        if contract not in self._viewers:
            self._viewers[contract] = self._found(contract)
        return self._viewers[contract]

    def masked(self, record: QuarantinedRecord, most_bytes: int = MOST_VALUE_BYTES) -> MaskedRecord:
        """Return a record as the reader sees it."""
        evidence = record.evidence
        viewer = self.viewer(evidence.contract)
        visibility = viewer.visibility
        shown, hidden, is_cut = _value(record, viewer, most_bytes)
        parts = set(hidden)
        if record.key is not None and not visibility.shows(KEY):
            parts.add(KEY)
        own = own_headers(record)
        foreign = [each for index, each in enumerate(record.headers) if index not in own]
        if foreign and not visibility.shows(HEADERS):
            parts.add(HEADERS)
        return MaskedRecord(
            position=f"{record.pointer.partition}/{record.pointer.offset}",
            source=str(evidence.source),
            at=record.timestamp,
            refused_at=record.refused_at,
            contract=evidence.contract,
            explanations=viewer.explain(record, evidence.violations),
            left_out=evidence.left_out,
            key=_text(record.key, may_show=visibility.shows(KEY)),
            value=None if shown is None else _decoded(shown),
            value_text=None if shown is None else _readable(shown),
            is_cut=is_cut,
            hidden=tuple(sorted(parts)),
            headers=tuple(
                (name, _text(value, may_show=visibility.shows(HEADERS))) for name, value in foreign
            ),
            size=None if record.value is None else len(record.value),
        )

    def in_order(
        self, records: Iterable[QuarantinedRecord], positions: Iterable[tuple[int, int]]
    ) -> list[MaskedRecord]:
        """Return masked records in the order of positions (partition, offset); those that were not found are left out.

        Each record is masked before the next one is taken: a masked one has no value above MOST_VALUE_BYTES.
        """
        found = {(each.pointer.partition, each.pointer.offset): self.masked(each) for each in records}
        return [found[position] for position in positions if position in found]

    def _found(self, contract: str) -> Viewer:
        contract_id, _, name = contract.rpartition("@")
        try:
            version = self._version(contract_id, name)
        except NotFoundError:
            return Viewer(None, None)
        document = classified_as_now(version.contract, self._version)
        try:
            return Viewer(document, self._plan(version))
        except ContractError:
            return Viewer(document, None)


def classified_as_now(contract: DataContract, version: FindVersion) -> DataContract:
    """Return a contract with the enforced version's classes added, so that new classes also hide earlier records."""
    try:
        enforced = version(contract.id, LATEST)
    except NotFoundError:
        return contract
    return with_classes_of(contract, enforced.contract)


def own_headers(record: QuarantinedRecord) -> frozenset[int]:
    """Return the indices of Tidegate's own headers that hold no value of the record."""
    begin = our_headers_begin(record.headers)
    return frozenset(
        index for index, (name, _) in enumerate(record.headers) if index >= begin and name in _OURS
    )


def _value(
    record: QuarantinedRecord, viewer: Viewer, most_bytes: int
) -> tuple[bytes | None, frozenset[str], bool]:
    """Return the masked value as text, its hidden parts, and whether it is left out because of its size.

    The text is None if the value is left out, or hidden as a whole.
    """
    text, contract, visibility = record.value, viewer.contract, viewer.visibility
    if text is None:
        return None, frozenset(), False
    if contract is not None and isinstance(contract.schema_, AvroSchema):
        may_show = visibility.shows(BODY)
        decoded = decoded_json(text, contract, viewer.plan, schema_header(record.headers))
        if decoded is None or not (may_show or viewer.knows_writers):
            return None, frozenset() if may_show or not text else frozenset({BODY}), False
        text = decoded
    # Masks take up to a second for each megabyte, and a list has many records.
    if contract is not None and len(text) > most_bytes:
        return None, frozenset(), True
    masked, hidden = masked_json(text, contract, visibility)
    return (None, hidden, True) if len(masked) > most_bytes else (masked, hidden, False)


def _decoded(text: bytes) -> Any:
    """Return the value of JSON; None where there is none, or where an answer cannot hold it."""
    try:
        found = json.loads(text, parse_constant=lambda _: None)
        # Raises for a lone surrogate, and for more than 255 levels, a few of which are those of the answer.
        to_json({"records": [{"value": [found]}]})
    except (ValueError, RecursionError):  # PydanticSerializationError is a ValueError
        return None
    return found


def _readable(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def _text(value: bytes | None, *, may_show: bool) -> str | None:
    if value is None:
        return None
    return value[:_MOST_HEADER_BYTES].decode(errors="replace") if may_show else HIDDEN
