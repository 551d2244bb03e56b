"""The schemas that records of a subject may have been written with, so that a page reads them as the job did."""

from __future__ import annotations

import json
from typing import Final, Literal
from uuid import UUID

from contracts.writers import WriterSchema, WriterSchemas
from gateway.services.schema_content import parsed
from gateway.storage.database import Database
from gateway.storage.sql import Stores
from gateway.storage.subjects import Deleted

_TYPES: Final[dict[str, Literal["avro", "json-schema"]]] = {"AVRO": "avro", "JSON": "json-schema"}


def writers_of(database: Database, subject: str) -> WriterSchemas:
    """Give every version of a subject, deleted ones too: records that were written with them are still there."""

    def work(stores: Stores) -> tuple[WriterSchema, ...]:
        numbers = stores.subjects.numbers(subject, Deleted.SHOWN)
        found = (stores.subjects.version(subject, number) for number in numbers)
        return tuple(
            WriterSchema(
                each.schema.id,
                UUID(each.schema.guid),
                _TYPES.get(each.schema.schema_type),
                json.dumps(parsed(stores, each.schema).definition),
            )
            for each in found
            if each is not None
        )

    return WriterSchemas(database.read(work), is_current=True)
