"""Values and keys as written to an accepted topic: masked as the contract declares, and otherwise equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegate.contracts.document.model import AvroSchema, Mask
from tidegate.contracts.formats.avro import AvroFormat
from tidegate.contracts.formats.avro_decoder import MALFORMED
from tidegate.contracts.formats.avro_reader import ResolvedReader
from tidegate.contracts.formats.column_values import json_text
from tidegate.contracts.formats.framing import PREFIX_BYTES
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.privacy.avro_masks import compile_avro_masks
from tidegate.contracts.privacy.masks import require_key
from tidegate.contracts.verdict import Violation

_UNREADABLE: Final = {"avro": b"", "json-schema": b"null"}
"""Replacement for a value that cannot be decoded but that the contract still accepts, by schema type."""


class MaskedValues:
    """Masks record values and keys of one plan.

    A JSON value with masked members is serialized again. Whitespace, escapes, duplicate names and the spelling of
    numbers may change; every number keeps its exact value. In an Avro value only the masked fields change. The frame
    before the payload is kept.
    """

    def __init__(self, plan: EnforcementPlan) -> None:
        """Initialise from a plan.

        Raises SettingsError if a mask hashes and there is no mask key, and StreamStopped if a type of the Avro schema
        cannot hold a masked value.
        """
        require_key(plan.contract, plan.masks.key)
        self._plan = plan
        self._of_groups = (
            {each.name: MaskedValues(each) for each in plan.plans} if len(plan.plans) > 1 else {}
        )
        self._schema = plan.contract.schema_
        self._key_mask = plan.contract.key_mask
        self._avro: dict[str | None, Callable[[bytes], bytes]] = {}
        self._is_prefixed = plan.contract.framing in {"confluent-prefix", "auto"}
        if isinstance(plan.payload_format, AvroFormat) and plan.masks:
            self._avro[None] = self._compiled(plan.payload_format.own)

    @property
    def changes_nothing(self) -> bool:
        """Return whether values and keys are written unchanged."""
        if self._of_groups:
            return all(each.changes_nothing for each in self._of_groups.values())
        return not self._plan.masks and self._key_mask is None

    def key(self, key: bytes | None) -> bytes | None:
        """Return the key to write for a record's key: the same, a token, or None if it is redacted."""
        if key is None or self._key_mask is None:
            return key
        mask_key = self._plan.masks.key
        if self._key_mask is Mask.REDACT or mask_key is None:
            return None
        return mask_key.token_of_key(key)

    def value(self, value: bytes | None, header: bytes | None = None) -> bytes | None:
        """Return the value to write for a value; `header` is its schema header. A tombstone (None) is unchanged."""
        if value is not None and self._of_groups:
            own = self._plan.plan_of(value, header)
            return (
                _UNREADABLE[self._schema.type]
                if own is None
                else self._of_groups[own.name].value(value, header)
            )
        if value is None or not self._plan.masks:
            return value
        has_prefix = self._is_prefixed and value[:1] == b"\0" and len(value) >= PREFIX_BYTES
        prefix, payload = (value[:PREFIX_BYTES], value[PREFIX_BYTES:]) if has_prefix else (b"", value)
        if isinstance(self._schema, AvroSchema):
            return prefix + self._masked_avro(payload, self._writer(prefix, header))
        record = self._plan.record_of(value, header)
        if isinstance(record, Violation):
            return prefix + _UNREADABLE["json-schema"]
        return prefix + (json_text(self._plan.masks.applied(record)) or "null").encode()

    def _masked_avro(self, payload: bytes, text: str | None) -> bytes:
        if text not in self._avro:
            assert isinstance(self._plan.payload_format, AvroFormat)  # noqa: S101 - narrows for the type checker
            self._avro[text] = self._compiled(self._plan.payload_format.written_with(text or ""))
        try:
            return self._avro[text](payload)
        except MALFORMED:
            return _UNREADABLE["avro"]

    def _compiled(self, reader: ResolvedReader) -> Callable[[bytes], bytes]:
        if reader.writer is None:
            return lambda _: _UNREADABLE["avro"]
        return compile_avro_masks(reader.writer, reader.node, self._plan.masks)

    def _writer(self, prefix: bytes, header: bytes | None) -> str | None:
        """Return the text of the writer schema that a record names; None if it names no known one."""
        writers = self._plan.writers
        if writers is None:
            return None
        found = (
            writers.by_id.get(int.from_bytes(prefix[1:], "big"))
            if prefix
            else writers.by_header.get(header)
            if header is not None
            else None
        )
        return None if found is None else found.text
