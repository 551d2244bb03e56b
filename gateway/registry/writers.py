"""The schemas that records of a topic may name, as the registry itself has them."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.gateway.registry.schemas.entities import AVRO, JSON
from tidegate.gateway.registry.subject_reading import ListedSubjects, SubjectReader
from tidegate.gateway.storage.schemas import StoredSchema
from tidegate.gateway.storage.subjects import Deleted

_TYPES: Final[dict[str, Any]] = {AVRO: "avro", JSON: "json-schema"}


def with_writers(plan: EnforcementPlan, subjects: SubjectReader) -> EnforcementPlan:
    """Return a plan with the schemas that its records may name: all versions of its topic's subject, deleted ones too."""
    return plan.with_writers(_writers(plan.contract.topic, subjects)) if plan.needs_writers else plan


def _writers(topic: str, subjects: SubjectReader) -> WriterSchemas:
    subject = subject_of(topic)
    listed = subjects.listed(ListedSubjects(subject, Deleted.SHOWN), latest_only=False)
    schemas = (version.schema for version in listed if version.subject == subject)
    return WriterSchemas(tuple(_writer(schema, subjects) for schema in schemas), is_current=True)


def _writer(schema: StoredSchema, subjects: SubjectReader) -> WriterSchema:
    text = subjects.resolved_text(schema) if subjects.references(schema) else schema.text
    return WriterSchema(schema.id, UUID(schema.guid), _TYPES.get(schema.schema_type), text)
