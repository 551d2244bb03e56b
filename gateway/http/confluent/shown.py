"""The JSON representations of schemas and versions in the API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tidegate.gateway.http.confluent.calls import Call
from tidegate.gateway.registry.approvals import NotApproved, next_step
from tidegate.gateway.registry.schema_content import (
    metadata_of,
    references_of,
    rule_set_of,
    whole_references_of,
)
from tidegate.gateway.registry.schemas.entities import Metadata, Reference
from tidegate.gateway.registry.schemas.errors import Refused, WeakerContract
from tidegate.gateway.registry.schemas.fields import with_inline_tags
from tidegate.gateway.registry.subject_reading import SubjectReader
from tidegate.gateway.storage.subjects import StoredSchema, SubjectVersion

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FORMATS = ("", "default", "resolved", "ignore_extensions", "serialized")


def weaker_contract(error: NotApproved) -> WeakerContract:
    """Convert the error of a missing approval to the error of an incompatible schema, which clients understand."""
    proposal = error.proposal
    details = [
        f"{{errorType:'{each.code}', description:'{each.sentence}', path:'{each.pointer}', field:'{each.field}'}}"
        for each in proposal.weakenings
    ]
    details.append(
        f"{{errorType:'contract.not-approved', description:'{next_step(proposal)}', "
        f"candidate:'{proposal.candidate}'}}"
    )
    return WeakerContract(proposal.contract_id, tuple(details))


def milliseconds(instant: datetime) -> int:
    """Return an aware datetime as milliseconds since the Unix epoch."""
    return int((instant - _EPOCH).total_seconds() * 1000)


def has_tags(schema: StoredSchema) -> bool:
    """Return whether a schema has tags in its metadata; the Python client gets them inside the schema instead."""
    metadata = metadata_of(schema)
    return metadata is not None and bool(metadata.tags)


def differs_by_client(schema: StoredSchema) -> bool:
    """Return whether the Python client gets another representation of the schema: of its tags, or its references."""
    return has_tags(schema) or references_of(schema) != whole_references_of(schema)


def show_schema(schema: StoredSchema, call: Call, reader: SubjectReader) -> dict[str, Any]:
    """Return the JSON object of a schema with references, metadata and rules: the response for an id or a GUID."""
    metadata, text = metadata_of(schema), _text(schema, call, reader)
    if metadata is not None and metadata.tags and call.is_python_client:
        # The Python client fails on tags in metadata, but reads tags inside the schema.
        text = with_inline_tags(schema.schema_type, text, metadata.tags)
        metadata = Metadata(properties=metadata.properties, sensitive=metadata.sensitive)
    rule_set = rule_set_of(schema)
    shown: dict[str, Any] = {"schemaType": schema.schema_type, "schema": text, "guid": schema.guid}
    references = _references(schema, call)
    if references:
        shown["references"] = [one.model_dump() for one in references]
    if metadata is not None:
        shown["metadata"] = metadata.shown()
    if rule_set is not None:
        shown["ruleSet"] = rule_set.shown()
    shown["ts"] = milliseconds(schema.created_at)
    return shown


def show_version(version: SubjectVersion, call: Call, reader: SubjectReader) -> dict[str, Any]:
    """Return the JSON object of a version: its schema with subject, version, id and deletion state."""
    return {
        "subject": version.subject,
        "version": version.number,
        "id": version.schema.id,
        **show_schema(version.schema, call, reader),
        "ts": milliseconds(version.created_at),
        "deleted": version.deleted_at is not None,
    }


def _references(schema: StoredSchema, call: Call) -> tuple[Reference, ...]:
    """Return the references of a schema, with subjects as they were registered or with qualified subjects.

    The default is as registered, so that a copy in another context refers to subjects of that context. The Python
    client ignores the context when it looks up a subject, so it gets qualified names. An unknown `reference_format` is
    ignored, as in Confluent's registry.
    """
    wanted = call.text("reference_format", "referenceFormat").lower()
    is_whole = wanted == "qualified" or (wanted != "default" and call.is_python_client)
    return whole_references_of(schema) if is_whole else references_of(schema)


def _text(schema: StoredSchema, call: Call, reader: SubjectReader) -> str:
    wanted = call.text("format")
    if wanted not in FORMATS:
        raise Refused(422, 422, f"no format of a schema is named {wanted}; there are default and resolved")
    if wanted == "resolved" and references_of(schema):
        return reader.resolved_text(schema)
    return schema.text
