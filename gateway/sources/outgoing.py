"""Read the records of a source for sending to a contract's topic, with frames and keys."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import orjson

from tidegate.contracts.columns.table_limits import write_key
from tidegate.contracts.compiled import table_columns
from tidegate.contracts.document.model import AvroSchema, DataContract
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.formats.framing import PREFIX_BYTES
from tidegate.contracts.formats.writers import SCHEMA_HEADER, WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.verdict import Violation
from tidegate.gateway.sources.record_reader import RecordReader
from tidegate.gateway.sources.source import Source, Unreadable
from tidegate.gateway.topics.sender import Outgoing


class OutgoingRecords:
    """A reader of a source as records of a contract's topic.

    `schemas` are those of the topic's subject, if the framing refers to schema ids; None without a registry. The frame of
    a record names its writer schema: that of its Avro container, otherwise the contract's. Its key holds the contract's
    `primary_key`. The key is None if the record lacks a column of it, or the contract has no primary key.
    """

    def __init__(
        self,
        source: Source,
        contract: DataContract,
        schemas: WriterSchemas | None,
        *,
        is_avro_json: bool = False,
    ) -> None:
        """Prepare to read. Raises SettingsError if the records cannot be encoded or framed for the topic."""
        self._contract = contract
        self._reader = RecordReader(source, contract, is_avro_json=is_avro_json)
        self._schemas = schemas
        self._plan = compile_plan(self._reader.contract)
        self._key = [column for column in table_columns(contract) if column.name in contract.primary_key]
        self._frames: dict[bytes, Callable[[bytes, bytes | None], Outgoing]] = {}
        if self._reader.writers is None:
            self._frames[b""] = self._frame(contract.schema_.definition)

    def blocks(
        self, most: int | None = None, *, to_first_unreadable: bool = False
    ) -> Iterator[tuple[list[Outgoing], tuple[Unreadable, ...]]]:
        """Yield blocks of records, and the records between them that cannot be sent; at most `most` records in total.

        With `to_first_unreadable`, the first record that cannot be sent ends them: the records after it are not yielded.

        Raises the errors of the source, and SettingsError for a schema that the framing cannot name.
        """
        left = most
        for block in self._reader.blocks():
            values, unreadable = block.values[:left], block.unreadable
            if left is not None and len(values) == left:
                last = block.positions[left - 1]
                unreadable = tuple(each for each in unreadable if each.position < last)
            is_ended = to_first_unreadable and bool(unreadable)
            if is_ended:
                unreadable = unreadable[:1]
                values = values[: bisect_left(block.positions, unreadable[0].position)]
            yield [self._outgoing(value or b"") for value in values], unreadable
            left = None if left is None else left - len(values)
            if is_ended or left == 0:
                return

    def _outgoing(self, value: bytes) -> Outgoing:
        key = self._key_of(value) if self._key else None
        if self._reader.writers is None:
            return self._frames[b""](value, key)
        prefix, payload = value[:PREFIX_BYTES], value[PREFIX_BYTES:]
        if prefix not in self._frames:
            schema = self._reader.writers.by_id[int.from_bytes(prefix[1:], "big")]
            self._frames[prefix] = self._frame(orjson.loads(schema.text))
        return self._frames[prefix](payload, key)

    def _key_of(self, value: bytes) -> bytes | None:
        record = self._plan.with_writers(self._reader.writers).record_of(value)
        return None if isinstance(record, Violation) else write_key(record, self._key)

    def _frame(self, schema: Any) -> Callable[[bytes, bytes | None], Outgoing]:
        """Return a function that frames a payload of this schema. Raises SettingsError if the framing cannot name it."""
        contract = self._contract
        if contract.framing in ("none", "auto"):
            if _normal(schema, contract) != _normal(contract.schema_.definition, contract):
                raise SettingsError(
                    f"the records are written with another schema than that of {contract.id} {contract.version}, and its "
                    "framing `none` has no place to name it; write them with the contract's schema"
                )
            return Outgoing
        named = self._registered(schema)
        if contract.framing == "confluent-prefix":
            prefix = b"\0" + named.id.to_bytes(PREFIX_BYTES - 1, "big")
            return lambda payload, key: Outgoing(prefix + payload, key)
        headers = ((SCHEMA_HEADER, named.header),)
        return lambda payload, key: Outgoing(payload, key, headers)

    def _registered(self, schema: Any) -> WriterSchema:
        contract = self._contract
        wanted = _normal(schema, contract)
        for each in self._schemas.schemas if self._schemas is not None else ():
            if each.type == contract.schema_.type and _normal(orjson.loads(each.text), contract) == wanted:
                return each
        subject = subject_of(contract.topic)
        raise SettingsError(
            f"the subject {subject} of the registry has no version with the schema of the records, which their frames "
            f"name; publish {contract.id} {contract.version}, or register the schema under {subject}"
        )


def _normal(schema: Any, contract: DataContract) -> Any:
    """Return a form of a schema that is equal for equal schemas: for Avro, with full names and without documentation."""
    if not isinstance(contract.schema_, AvroSchema):
        return schema
    return _without_notes(fastavro.parse_schema(schema))


def _without_notes(schema: Any) -> Any:
    match schema:
        case dict():
            kept = {
                name: each for name, each in schema.items() if name != "doc" and not name.startswith("__")
            }
            return {name: each if name == "default" else _without_notes(each) for name, each in kept.items()}
        case list():
            return [_without_notes(each) for each in schema]
        case _:
            return schema
