"""The operations of the API (method, path, required role, handler), for the router and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.gateway.access.principal import Role
from tidegate.gateway.access.rules import AccessRule, Reach
from tidegate.gateway.http.confluent import association_handlers as associations
from tidegate.gateway.http.confluent import schema_handlers as schemas
from tidegate.gateway.http.confluent import subject_handlers as subjects
from tidegate.gateway.http.confluent.calls import Call, OperationAnswer
from tidegate.gateway.registry.schemas.errors import (
    Refused,
    no_subject_level,
    no_subject_mode,
    subject_not_found,
)

_ANY = AccessRule(Role.VIEWER, Reach.NOBODY_ASKED)
_VIEW = AccessRule(Role.VIEWER, Reach.SOMEWHERE)
_VIEW_SUBJECT = AccessRule(Role.VIEWER, Reach.SUBJECT)
_PRODUCE = AccessRule(Role.PRODUCER, Reach.SOMEWHERE)
_PRODUCE_SUBJECT = AccessRule(Role.PRODUCER, Reach.SUBJECT)
_PRODUCE_NEW = AccessRule(Role.PRODUCER, Reach.NEW_SUBJECT)
_APPROVE_SUBJECT = AccessRule(Role.APPROVER, Reach.SUBJECT)
_APPROVE_NEW = AccessRule(Role.APPROVER, Reach.NEW_SUBJECT)
_APPROVE_ALL = AccessRule(Role.APPROVER, Reach.EVERYWHERE)
_APPROVE = AccessRule(Role.APPROVER, Reach.SOMEWHERE)
_ADMIN_SUBJECT = AccessRule(Role.ADMIN, Reach.SUBJECT)
_ADMIN_NEW = AccessRule(Role.ADMIN, Reach.NEW_SUBJECT)
_ADMIN_ALL = AccessRule(Role.ADMIN, Reach.EVERYWHERE)

_PAGE = ("offset", "limit")
_TRY = ("context", "dryRun")
_DELETED = ("deleted", "deleted_only")
_FORMATS = ("format", "reference_format")
_SUBJECT = "/subjects/{subject}"
_VERSION = f"{_SUBJECT}/versions/{{version}}"

_REGISTER: dict[str, Any] = {
    "schema": '{"type":"record","name":"Admission","fields":[{"name":"age","type":"int"}]}',
    "schemaType": "AVRO",
}
_LEVEL: dict[str, Any] = {"compatibility": "FULL_TRANSITIVE"}
_MODE: dict[str, Any] = {"mode": "READONLY"}
_TAGS: dict[str, Any] = {
    "tagsToAdd": [
        {"schemaEntity": {"entityPath": ".Admission.age", "entityType": "sr_field"}, "tags": ["PII"]}
    ]
}
_ASSOCIATE: dict[str, Any] = {
    "resourceName": "hospital.admissions",
    "resourceNamespace": "cluster-1",
    "resourceId": "topic-1",
    "resourceType": "topic",
    "associations": [{"subject": "hospital.admissions-value", "associationType": "value"}],
}
_BATCH: dict[str, Any] = {"requests": [{"resourceId": "topic-1"}]}


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the API.

    `query` has the names of the query parameters, `body` an example body. `permanent` and `forced` replace `rule` if
    the query has `permanent` or `force`. `hidden` builds the error for a subject that the principal may not see: the
    same as for one that does not exist.
    """

    method: str
    path: str
    run: Callable[[Call], OperationAnswer]
    rule: AccessRule
    query: tuple[str, ...] = ()
    body: Mapping[str, Any] | None = None
    permanent: AccessRule | None = None
    forced: AccessRule | None = None
    hidden: Callable[[str], Refused] = subject_not_found

    @property
    def id(self) -> str:
        """Return the unique `operationId` in the OpenAPI document."""
        parts = [part.strip("{}").replace(":", "_") for part in self.path.split("/") if part]
        return "_".join(("confluent", self.method.lower(), *parts)).replace(".", "_")

    @property
    def follows_aliases(self) -> bool:
        """Return whether the subject in the path may be an alias; False for settings and associations."""
        return "/subjects/{subject}" in self.path and not self.path.startswith("/associations/")

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the segments of the path template; parameters are in braces."""
        return tuple(part for part in self.path.split("/") if part)


OPERATIONS = (
    Operation("GET", "/subjects", subjects.list_subjects, _VIEW, ("subjectPrefix", *_DELETED, *_PAGE)),
    Operation(
        "POST", _SUBJECT, subjects.look_up_schema, _VIEW_SUBJECT, ("normalize", "deleted", *_FORMATS), _REGISTER
    ),
    Operation(
        "DELETE", _SUBJECT, subjects.delete_subject, _ADMIN_SUBJECT, ("permanent",), permanent=_ADMIN_SUBJECT
    ),
    Operation("GET", f"{_SUBJECT}/versions", subjects.list_versions, _VIEW_SUBJECT, (*_DELETED, *_PAGE)),
    Operation(
        "POST", f"{_SUBJECT}/versions", subjects.register_schema, _PRODUCE_NEW, ("normalize", "format", "force"),
        _REGISTER, forced=_APPROVE_NEW
    ),
    Operation("GET", f"{_SUBJECT}/metadata", subjects.get_with_metadata, _VIEW_SUBJECT, ("key", "value", "deleted")),
    Operation("GET", _VERSION, subjects.get_version, _VIEW_SUBJECT, ("deleted", *_FORMATS)),
    Operation(
        "DELETE", _VERSION, subjects.delete_version, _ADMIN_SUBJECT, ("permanent",), permanent=_ADMIN_SUBJECT
    ),
    Operation("GET", f"{_VERSION}/schema", subjects.get_version_text, _VIEW_SUBJECT, ("deleted", "format")),
    Operation("GET", f"{_VERSION}/referencedby", subjects.list_referencing, _VIEW_SUBJECT, _PAGE),
    Operation("POST", f"{_VERSION}/tags", subjects.tag_version, _PRODUCE_SUBJECT, (), _TAGS),
    Operation(
        "GET", "/schemas", schemas.list_schemas, _VIEW,
        ("subjectPrefix", "latestOnly", "ruleType", *_DELETED, *_PAGE),
    ),
    Operation("GET", "/schemas/types", schemas.list_schema_types, _VIEW),
    Operation("GET", "/schemas/ids/{id}", schemas.get_schema, _VIEW, ("subject", *_FORMATS, "fetchMaxId")),
    Operation("GET", "/schemas/ids/{id}/schema", schemas.get_schema_text, _VIEW, ("subject", "format")),
    Operation(
        "GET", "/schemas/ids/{id}/subjects", schemas.list_subjects_of_schema, _VIEW, ("subject", *_DELETED, *_PAGE)
    ),
    Operation(
        "GET", "/schemas/ids/{id}/versions", schemas.list_versions_of_schema, _VIEW, ("subject", *_DELETED, *_PAGE)
    ),
    Operation("GET", "/schemas/guids/{guid}", schemas.get_schema_by_guid, _VIEW, _FORMATS),
    Operation("GET", "/schemas/guids/{guid}/ids", schemas.list_ids_of_guid, _VIEW),
    Operation(
        "POST", "/compatibility/subjects/{subject}/versions", subjects.check_all, _VIEW_SUBJECT,
        ("normalize", "verbose"), _REGISTER,
    ),
    Operation(
        "POST", "/compatibility/subjects/{subject}/versions/{version}", subjects.check_version, _VIEW_SUBJECT,
        ("normalize", "verbose"), _REGISTER,
    ),
    Operation("GET", "/config", subjects.get_config, _VIEW),
    Operation("PUT", "/config", subjects.put_config, _APPROVE_ALL, (), _LEVEL),
    Operation("DELETE", "/config", subjects.delete_config, _APPROVE_ALL),
    Operation("GET", "/config/{subject}", subjects.get_config, _VIEW_SUBJECT, ("defaultToGlobal",), hidden=no_subject_level),
    Operation("PUT", "/config/{subject}", subjects.put_config, _APPROVE_NEW, (), _LEVEL),
    Operation("DELETE", "/config/{subject}", subjects.delete_config, _APPROVE_SUBJECT),
    Operation("GET", "/mode", subjects.get_mode, _VIEW),
    Operation("PUT", "/mode", subjects.put_mode, _ADMIN_ALL, ("force",), _MODE),
    Operation("DELETE", "/mode", subjects.delete_mode, _ADMIN_ALL),
    Operation("GET", "/mode/{subject}", subjects.get_mode, _VIEW_SUBJECT, ("defaultToGlobal",), hidden=no_subject_mode),
    Operation("PUT", "/mode/{subject}", subjects.put_mode, _ADMIN_NEW, ("force",), _MODE),
    Operation("DELETE", "/mode/{subject}", subjects.delete_mode, _ADMIN_SUBJECT),
    Operation("GET", "/contexts", schemas.list_contexts, _VIEW, _PAGE),
    Operation("DELETE", "/contexts/{context}", schemas.delete_context, _ADMIN_ALL),
    Operation(
        "GET", "/associations/resources/{namespace}/{name}", associations.list_by_name, _VIEW,
        ("resourceType", "associationType", "lifecycle", "context", *_PAGE),
    ),
    Operation(
        "GET", "/associations/resources/{resource}", associations.list_by_resource, _VIEW,
        ("resourceType", "associationType", "lifecycle", "context", *_PAGE),
    ),
    Operation(
        "GET", "/associations/subjects/{subject}", associations.list_by_subject, _VIEW_SUBJECT,
        ("resourceType", "associationType", "lifecycle", "context", *_PAGE),
    ),
    Operation("POST", "/associations", associations.create, _PRODUCE, _TRY, _ASSOCIATE),
    Operation("PUT", "/associations", associations.create_or_update, _PRODUCE, _TRY, _ASSOCIATE),
    Operation("PUT", "/associations/resources/{resource}", associations.update, _PRODUCE, _TRY, _ASSOCIATE),
    Operation(
        "DELETE", "/associations/resources/{resource}", associations.delete, _APPROVE,
        ("resourceType", "associationType", "cascadeLifecycle", *_TRY),
    ),
    Operation("POST", "/associations:batchGet", associations.batch_get, _VIEW, ("context",), _BATCH),
    Operation("POST", "/associations:batchMutate", associations.batch_mutate, _PRODUCE, _TRY, {"requests": [_ASSOCIATE]}),
    Operation("GET", "/v1/metadata/id", schemas.get_metadata_id, _ANY),
    Operation("GET", "/v1/metadata/version", schemas.get_metadata_version, _ANY),
    Operation("GET", "/v1/metadata/deployment", schemas.get_deployment, _ANY),
)  # fmt: skip

ROOTS = frozenset(operation.parts[0] for operation in OPERATIONS)
"""The first path segments of this API; requests for other paths are passed on."""


@dataclass(frozen=True, slots=True)
class Match:
    """An operation and the values of its path parameters."""

    operation: Operation
    parameters: Mapping[str, str]


def find_operation(method: str, segments: tuple[str, ...]) -> Match | tuple[str, ...]:
    """Return the operation for a method and path.

    Otherwise return the methods that the path supports; an empty tuple means there is no such path.
    """
    methods: list[str] = []
    for operation in OPERATIONS:
        parameters = _parameters(operation.parts, segments)
        if parameters is None:
            continue
        if operation.method == method:
            return Match(operation, parameters)
        methods.append(operation.method)
    return tuple(methods)


def _parameters(parts: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    if len(parts) != len(segments):
        return None
    found: dict[str, str] = {}
    for part, segment in zip(parts, segments, strict=True):
        if part[0] == "{":
            found[part[1:-1]] = segment
        elif part != segment:
            return None
    return found
