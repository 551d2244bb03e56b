"""Operations on schemas by id and GUID, on contexts, and on the registry as a whole."""

from __future__ import annotations

from importlib.metadata import version

from tidegate.gateway.http.confluent.calls import MOST_SCHEMAS, Call, OperationAnswer
from tidegate.gateway.http.confluent.shown import differs_by_client, show_schema, show_version
from tidegate.gateway.registry.schemas.errors import schema_not_found
from tidegate.gateway.registry.schemas.names import EVERY_CONTEXT
from tidegate.gateway.registry.schemas.parsing import SCHEMA_TYPES
from tidegate.gateway.registry.subject_reading import ListedSubjects, has_rule_type
from tidegate.gateway.storage.subjects import StoredSchema

IMMUTABLE = "private, max-age=31536000, immutable"


def get_schema(call: Call) -> OperationAnswer:
    """Fetch a schema by its id, in the context of a subject if one is given."""
    found = _schema(call)
    reader = call.factory.subjects()
    shown = show_schema(found, call, reader)
    if call.flag("fetchMaxId"):
        shown["maxId"] = reader.highest_id(found.context)
        return OperationAnswer(shown)
    return OperationAnswer(shown, headers={"ETag": _etag(found, call), "Cache-Control": IMMUTABLE})


def get_schema_text(call: Call) -> OperationAnswer:
    """Fetch the text of a schema by its id."""
    found = _schema(call)
    text = show_schema(found, call, call.factory.subjects())["schema"]
    return OperationAnswer(
        content=text.encode(), headers={"ETag": _etag(found, call), "Cache-Control": IMMUTABLE}
    )


def get_schema_by_guid(call: Call) -> OperationAnswer:
    """Fetch a schema by its GUID."""
    found = _schemas_with_guid(call)[0]
    shown = show_schema(found, call, call.factory.subjects())
    return OperationAnswer(shown, headers={"ETag": _etag(found, call), "Cache-Control": IMMUTABLE})


def list_ids_of_guid(call: Call) -> OperationAnswer:
    """List the contexts in which a schema has an id, and those ids."""
    return OperationAnswer([{"context": found.context, "id": found.id} for found in _schemas_with_guid(call)])


def list_subjects_of_schema(call: Call) -> OperationAnswer:
    """List the subjects that have a schema."""
    names = tuple(dict.fromkeys(subject for subject, _ in _versions(call)))
    return OperationAnswer(call.page.cut(names))


def list_versions_of_schema(call: Call) -> OperationAnswer:
    """List the subjects and versions that have a schema."""
    found = call.page.cut(_versions(call))
    return OperationAnswer([{"subject": subject, "version": number} for subject, number in found])


def list_schemas(call: Call) -> OperationAnswer:
    """List versions with their schemas, by subject and number; MOST_SCHEMAS at once, as they are built in memory."""
    prefix = call.text("subjectPrefix") or EVERY_CONTEXT
    wanted = ListedSubjects(prefix, call.deleted, call.principal.prefixes)
    reader = call.factory.subjects()
    rule_type = call.text("ruleType")
    found = reader.listed(
        wanted,
        call.page_of(MOST_SCHEMAS),
        latest_only=call.flag("latestOnly"),
        keeps=lambda one: not rule_type or has_rule_type(one, rule_type),
    )
    return OperationAnswer([show_version(one, call, reader) for one in found])


def list_schema_types(_call: Call) -> OperationAnswer:
    """List the schema types."""
    return OperationAnswer(SCHEMA_TYPES)


def list_contexts(call: Call) -> OperationAnswer:
    """List the contexts, the default one first."""
    return OperationAnswer(call.page.cut(call.factory.subjects().contexts(call.principal.prefixes)))


def delete_context(call: Call) -> OperationAnswer:
    """Delete an empty context."""
    call.factory.deletion().delete_context(call.path["context"])
    return OperationAnswer(status=204)


def get_root(_call: Call | None) -> OperationAnswer:
    """Return an empty object: clients request `/` to check whether a schema registry runs here."""
    return OperationAnswer({})


def get_metadata_id(_call: Call) -> OperationAnswer:
    """Return the id of the cluster."""
    return OperationAnswer(
        {
            "scope": {"path": [], "clusters": {"kafka-cluster": "", "schema-registry-cluster": "tidegate"}},
            "id": "",
        }
    )


def get_metadata_version(_call: Call) -> OperationAnswer:
    """Return the version of this program."""
    return OperationAnswer({"version": f"tidegate-{version('tidegate')}", "commitId": ""})


def get_deployment(_call: Call) -> OperationAnswer:
    """Describe the deployment."""
    return OperationAnswer({"attributes": ["deploymentScope:tidegate"]})


def _schema(call: Call) -> StoredSchema:
    found = call.factory.subjects().schema(schema_id(call), call.text("subject") or None)
    _hide(call, found, found.id)
    return found


def schema_id(call: Call) -> int:
    """Parse the schema id in the path. Raises Refused (40403) unless it is an integer from 0 to 2^31 - 1."""
    text = call.path["id"]
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) >= 2**31:
        raise schema_not_found(text[:40])
    return int(text)


def _versions(call: Call) -> tuple[tuple[str, int], ...]:
    deleted = call.deleted
    _schema(call)
    found = call.factory.subjects().versions_of_schema(schema_id(call), call.text("subject") or None, deleted)
    return tuple(one for one in found if call.principal.sees(one[0]))


def _hide(call: Call, schema: StoredSchema, what: int | str) -> None:
    """Raise the error of an unknown schema unless the caller may see a subject that has it."""
    if not is_visible(call, schema):
        raise schema_not_found(what)


def is_visible(call: Call, schema: StoredSchema) -> bool:
    """Return whether the caller may see at least one subject that has the schema."""
    if call.principal.prefixes is None:
        return True
    return any(call.principal.sees(subject) for subject in call.factory.subjects().subjects_of(schema))


def _schemas_with_guid(call: Call) -> tuple[StoredSchema, ...]:
    guid = call.path["guid"].lower()
    found = tuple(one for one in call.factory.subjects().schemas_with_guid(guid) if is_visible(call, one))
    if not found:
        raise schema_not_found(guid)
    return found


def _etag(schema: StoredSchema, call: Call) -> str:
    wanted = call.text("format")
    variant = "-python" if call.is_python_client and differs_by_client(schema) else ""
    return f'"{schema.guid}{variant}{"-" + wanted if wanted else ""}"'
