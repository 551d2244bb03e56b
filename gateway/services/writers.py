"""The schemas that records of a topic may name, as the registry itself has them."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from contracts.writers import WriterSchema, WriterSchemas
from gateway.confluent.entities import AVRO, JSON
from gateway.confluent.names import subject_of
from gateway.services.subject_reading import ListedSubjects, SubjectReader
from gateway.storage.schemas import StoredSchema
from gateway.storage.subjects import Deleted

_TYPES: Final[dict[str, Any]] = {AVRO: "avro", JSON: "json-schema"}


def writers_of(topic: str, subjects: SubjectReader) -> WriterSchemas:
    """List the versions of a topic's subject, deleted ones too."""
    subject = subject_of(topic)
    listed = subjects.listed(ListedSubjects(subject, Deleted.SHOWN), latest_only=False)
    schemas = (version.schema for version in listed if version.subject == subject)
    return WriterSchemas(tuple(_writer(schema, subjects) for schema in schemas), is_current=True)


def _writer(schema: StoredSchema, subjects: SubjectReader) -> WriterSchema:
    text = subjects.resolved_text(schema) if subjects.references(schema) else schema.text
    return WriterSchema(schema.id, UUID(schema.guid), _TYPES.get(schema.schema_type), text)
