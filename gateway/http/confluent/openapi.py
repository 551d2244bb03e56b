"""The part of the OpenAPI document that describes the Confluent API."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from tidegate.gateway.http.confluent.calls import MEDIA_TYPE
from tidegate.gateway.http.confluent.operations import OPERATIONS, Operation

TAG = "schema registry"
TAGS = [{"name": TAG, "description": "The API of the Confluent Schema Registry, over the same store."}]

_ERROR = "ConfluentError"
SCHEMAS: dict[str, Any] = {
    _ERROR: {
        "type": "object",
        "description": "A refusal, with the number that clients of a schema registry know.",
        "required": ["error_code", "message"],
        "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
        "example": {"error_code": 40401, "message": "Subject 'hospital.admissions-value' not found."},
    }
}
_NUMBERS = {"offset", "limit"}
_LISTS = {"associationType", "key", "value"}
_TEXTS = {
    "subjectPrefix": "Only subjects that begin with it; `:*:` stands for every context.",
    "subject": "The subject in whose context the id is looked up.",
    "format": "`resolved` gives the schema with its references in it.",
    "reference_format": "`qualified` gives references with whole names of subjects, `default` as they were registered.",
    "ruleType": "Only versions that have a rule of this type.",
    "resourceType": "Type of the resource, such as topic.",
    "lifecycle": "STRONG or WEAK.",
    "associationType": "key or value.",
    "key": "Name of a property.",
    "value": "Value of the property.",
}
_FLAGS = {
    "deleted": "Show soft-deleted versions too.",
    "deleted_only": "Show soft-deleted ones only.",
    "normalize": "Compare and keep the schema with its members in order.",
    "permanent": "Delete for good what is soft-deleted already.",
    "verbose": "Say why.",
    "latestOnly": "Only the latest version of each subject.",
    "fetchMaxId": "Say the highest id too.",
    "defaultToGlobal": "Show what holds in the end.",
    "force": "Of a mode: also where there are schemas. Of a registration: without comparing it.",
    "context": "The context of the subjects that are meant.",
    "dryRun": "Answer as if, and keep nothing.",
    "cascadeLifecycle": "Soft-delete the subjects that belong to the resource.",
}
_PATH = {
    "subject": ("Name of the subject; a slash in it is sent as %2F.", "hospital.admissions-value"),
    "version": ("Number of the version, `latest`, or -1 for the latest.", "latest"),
    "id": ("Id of the schema.", "1"),
    "guid": ("GUID of the schema.", "095d71cf-1255-6b9d-5e33-0ad575b3df5d"),
    "context": ("Name of the context.", ".staging"),
    "namespace": ("Namespace of the resource, such as the id of a cluster; - for any.", "-"),
    "name": ("Name of the resource, such as that of a topic.", "hospital.admissions"),
    "resource": ("Id of the resource.", "topic-1"),
}


_SCHEMA: dict[str, Any] = {
    "schemaType": "AVRO",
    "schema": '"string"',
    "guid": "095d71cf-1255-6b9d-5e33-0ad575b3df5d",
    "ts": 1782907200000,
}
_VERSION = {"subject": "hospital.admissions-value", "version": 1, "id": 1, **_SCHEMA, "deleted": False}
_ASSOCIATED = {
    "subject": "hospital.admissions-value",
    "associationType": "value",
    "lifecycle": "WEAK",
    "frozen": False,
}
_RESOURCE = {
    "resourceName": "hospital.admissions",
    "resourceNamespace": "cluster-1",
    "resourceId": "topic-1",
    "resourceType": "topic",
}
_ANSWERS: dict[str, Any] = {
    "list_subjects": ["hospital.admissions-value"],
    "list_versions": [1, 2],
    "get_version": _VERSION,
    "get_version_text": "string",
    "get_with_metadata": _VERSION,
    "list_referencing": [2],
    "register_schema": _VERSION,
    "look_up_schema": _VERSION,
    "tag_version": _VERSION,
    "delete_subject": [1, 2],
    "delete_version": 1,
    "check_version": {"is_compatible": True},
    "check_all": {"is_compatible": False, "messages": ["{compatibility: 'BACKWARD'}"]},
    "list_schemas": [_VERSION],
    "list_schema_types": ["JSON", "AVRO"],
    "get_schema": _SCHEMA,
    "get_schema_text": "string",
    "list_subjects_of_schema": ["hospital.admissions-value"],
    "list_versions_of_schema": [{"subject": "hospital.admissions-value", "version": 1}],
    "get_schema_by_guid": _SCHEMA,
    "list_ids_of_guid": [{"context": ".", "id": 1}],
    "get_config": {"compatibilityLevel": "BACKWARD"},
    "put_config": {"compatibility": "FULL_TRANSITIVE"},
    "delete_config": {"compatibilityLevel": "FULL_TRANSITIVE"},
    "get_mode": {"mode": "READWRITE"},
    "put_mode": {"mode": "READONLY"},
    "delete_mode": {"mode": "READONLY"},
    "list_contexts": ["."],
    "list_by_name": [_RESOURCE | _ASSOCIATED],
    "list_by_resource": [_RESOURCE | _ASSOCIATED],
    "list_by_subject": [_RESOURCE | _ASSOCIATED],
    "create": {**_RESOURCE, "associations": [_ASSOCIATED]},
    "update": {**_RESOURCE, "associations": [_ASSOCIATED]},
    "create_or_update": {**_RESOURCE, "associations": [_ASSOCIATED]},
    "batch_get": {"results": [{"result": [_RESOURCE | _ASSOCIATED]}]},
    "batch_mutate": {"results": [{"result": {**_RESOURCE, "associations": [_ASSOCIATED]}}]},
    "get_metadata_id": {
        "id": "",
        "scope": {"path": [], "clusters": {"kafka-cluster": "", "schema-registry-cluster": "tidegate"}},
    },
    "get_metadata_version": {"version": "tidegate-0.1.0", "commitId": ""},
    "get_deployment": {"attributes": ["deploymentScope:tidegate"]},
}


def paths() -> dict[str, Any]:
    """Return the OpenAPI path items of the API, by path."""
    found: dict[str, Any] = {}
    for operation in OPERATIONS:
        found.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return found


def _operation(operation: Operation) -> dict[str, Any]:
    description = " ".join((operation.run.__doc__ or "").split())
    written: dict[str, Any] = {
        "tags": [TAG],
        "summary": description.partition(". ")[0].partition(";")[0].rstrip("."),
        "description": description,
        "operationId": operation.id,
        "parameters": [
            *(_path_parameter(part[1:-1]) for part in operation.parts if part.startswith("{")),
            *(_query_parameter(name) for name in operation.query),
        ],
        "responses": _responses(operation),
    }
    if operation.body is not None:
        content = {"schema": {"type": "object"}, "example": dict(operation.body)}
        written["requestBody"] = {
            "required": True,
            "content": {MEDIA_TYPE: content, "application/json": content},
        }
    return written


def _responses(operation: Operation) -> dict[str, Any]:
    statuses = [404, 422, 500]
    if operation.body is not None:
        statuses += [400, 409, 413, 415]
    done: dict[str, Any]
    if operation.run.__name__ not in _ANSWERS:
        done = {"204": {"description": "It is gone."}}
    else:
        content = {"schema": {}, "example": _ANSWERS[operation.run.__name__]}
        done = {"200": {"description": "The answer.", "content": {MEDIA_TYPE: content}}}
    return done | {str(status): refusal(status) for status in sorted(statuses)}


def refusal(status: int) -> dict[str, Any]:
    """Return the OpenAPI response object of an error status."""
    reference = {"$ref": f"#/components/schemas/{_ERROR}"}
    return {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": reference}},
    }


def _path_parameter(name: str) -> dict[str, Any]:
    description, example = _PATH[name]
    schema = {"type": "string", "minLength": 1}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
        "example": example,
    }


def _query_parameter(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    description = _TEXTS.get(name, "")
    if name in _FLAGS:
        schema, description = {"type": "boolean"}, _FLAGS[name]
    elif name in _NUMBERS:
        schema = {"type": "integer"}
        description = {
            "offset": "How many to pass over.",
            "limit": "How many to give; below 1 all, of schemas at most 1,000.",
        }[name]
    elif name in _LISTS:
        schema = {"type": "array", "items": schema}
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}
