"""Schemas, versions and errors as clients are shown them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.responses import Response

from tidegate.contracts.errors import TidegateError, Unavailable
from tidegate.gateway.access.principal import AccessError, Forbidden
from tidegate.gateway.http.confluent.calls import MEDIA_TYPE, Call
from tidegate.gateway.http.gate import SubjectHidden
from tidegate.gateway.http.problems import status_of
from tidegate.gateway.registry.approvals import NotApproved, next_step
from tidegate.gateway.registry.schema_content import (
    metadata_of,
    references_of,
    rule_set_of,
    whole_references_of,
)
from tidegate.gateway.registry.schemas.entities import Metadata, Reference
from tidegate.gateway.registry.schemas.errors import (
    IncompatibleSchema,
    Refused,
    WeakerContract,
    subject_not_found,
)
from tidegate.gateway.registry.schemas.fields import with_inline_tags
from tidegate.gateway.registry.subject_reading import SubjectReader
from tidegate.gateway.storage.subjects import StoredSchema, SubjectVersion

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FORMATS = ("", "default", "resolved", "ignore_extensions", "serialized")


@dataclass(frozen=True, slots=True)
class ShownError:
    """An error with the status and the number that clients of a schema registry know; `headers` are those of the answer."""

    status: int
    code: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def members(self) -> dict[str, Any]:
        """Return the error as an object of an answer."""
        return {"error_code": self.code, "message": self.message}

    def response(self) -> Response:
        """Return the error as an answer."""
        return Response(orjson.dumps(self.members()), self.status, dict(self.headers), MEDIA_TYPE)


def shown_error(error: TidegateError, incompatible: int = 409) -> ShownError:
    """Show an error to clients; `incompatible` is the number of an incompatible schema.

    Source: Schema Registry API, errors: 40301 for an operation that is denied, else the status as the code.
    """
    shown: TidegateError = error
    if isinstance(error, NotApproved):
        shown = _weaker_contract(error)
    elif isinstance(error, SubjectHidden):
        shown = subject_not_found(error.subject)
    status = shown.status if isinstance(shown, Refused) else status_of(shown)
    code = status
    match shown:
        case IncompatibleSchema():
            code = incompatible
        case Refused():
            code = shown.error_code
        case Forbidden():
            code = 40301
        case Unavailable():
            status, code = 500, 50001
    headers = shown.headers if isinstance(shown, AccessError) else {}
    return ShownError(status, code, shown.message if isinstance(shown, Refused) else str(shown), headers)


def _weaker_contract(error: NotApproved) -> WeakerContract:
    """Show a change that lacks an approval as clients read the refusal of a schema."""
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
