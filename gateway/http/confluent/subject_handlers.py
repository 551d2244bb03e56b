"""Operations on subjects, their versions, compatibility settings and modes, and compatibility checks."""

from __future__ import annotations

import hashlib
import json
from urllib.parse import unquote

import structlog
from pydantic import ValidationError

from tidegate.gateway.http.confluent.calls import Call, OperationAnswer
from tidegate.gateway.http.confluent.shown import show_version
from tidegate.gateway.registry.registration import Registration, RegistrationOptions
from tidegate.gateway.registry.schema_content import whole_name
from tidegate.gateway.registry.schemas.entities import ModeRequest, SchemaRequest, TagRequest
from tidegate.gateway.registry.schemas.errors import Refused, invalid_rule_set, no_such_reference, too_large
from tidegate.gateway.registry.schemas.json_schema import NAMES
from tidegate.gateway.registry.schemas.names import EVERY_CONTEXT, context_of
from tidegate.gateway.registry.subject_reading import ListedSubjects, version_number
from tidegate.gateway.registry.unjudged_rules import count_of

_log = structlog.get_logger()
_MAX_HEADER = 1_000
"""Maximum characters of reasons in a header: clients and proxies limit headers. The contract's note has them all."""


def list_subjects(call: Call) -> OperationAnswer:
    """List subjects by name."""
    prefix = call.text("subjectPrefix", "subject") or EVERY_CONTEXT
    wanted = ListedSubjects(prefix, call.deleted, call.principal.prefixes)
    return OperationAnswer(call.factory.subjects().subjects(wanted, call.page))


def list_versions(call: Call) -> OperationAnswer:
    """List the versions of a subject."""
    return OperationAnswer(call.page.cut(call.factory.subjects().numbers(call.subject, call.deleted)))


def get_version(call: Call) -> OperationAnswer:
    """Fetch a version of a subject: its number, `latest`, or -1 for the latest."""
    reader = call.factory.subjects()
    number = version_number(call.path["version"])
    found = reader.version(call.subject, number, deleted=call.flag("deleted"))
    shown = show_version(found, call, reader)
    # Of the whole answer: a deletion changes it, and some clients get other names of references.
    tag = hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:32]
    return OperationAnswer(shown, headers={"ETag": f'"{tag}"', "Cache-Control": "no-cache"})


def get_version_text(call: Call) -> OperationAnswer:
    """Fetch the schema of a version, alone."""
    reader = call.factory.subjects()
    number = version_number(call.path["version"])
    found = reader.version(call.subject, number, deleted=call.flag("deleted"))
    return OperationAnswer(content=show_version(found, call, reader)["schema"].encode())


def get_with_metadata(call: Call) -> OperationAnswer:
    """Fetch the highest version whose metadata has the properties in `key` and `value`.

    The Python client encodes both twice.
    """
    keys, values = call.query.get("key", ()), call.query.get("value", ())
    if len(keys) != len(values):
        raise Refused(422, 422, "key and value are given in pairs")
    properties = {unquote(key): unquote(value) for key, value in zip(keys, values, strict=True)}
    reader = call.factory.subjects()
    found = reader.with_metadata(call.subject, properties, deleted=call.flag("deleted"))
    return OperationAnswer(show_version(found, call, reader))


def list_referencing(call: Call) -> OperationAnswer:
    """List the ids of the schemas that refer to a version."""
    number = version_number(call.path["version"])
    return OperationAnswer(
        call.page.cut(call.factory.subjects().referenced_by(call.subject, number, call.principal.prefixes))
    )


def register_schema(call: Call) -> OperationAnswer:
    """Register a schema under a subject; one that is registered already is found again.

    With `force` it is compared with nothing; a contract takes it as a new major version.
    """
    options = RegistrationOptions(call.principal, normalize=call.flag("normalize"), force=call.flag("force"))
    return _register(call, posted_schema(call), options)


def tag_version(call: Call) -> OperationAnswer:
    """Register a version of a subject again, with other tags."""
    request = call.entity(TagRequest)
    number = version_number(call.path["version"])
    found = call.factory.subjects().version(call.subject, number, deleted=False)
    changed = SchemaRequest(
        schema_text=found.schema.text,
        schema_type=found.schema.schema_type,
        references=call.factory.subjects().references(found.schema),
        metadata=request.metadata,
        rule_set=request.rule_set,
        version=request.new_version,
        tags_to_add=request.tags_to_add,
        tags_to_remove=request.tags_to_remove,
    )
    return _register(call, changed, RegistrationOptions(call.principal))


def _register(call: Call, request: SchemaRequest, options: RegistrationOptions) -> OperationAnswer:
    done = call.factory.registration().register(call.subject, request, options)
    if done.is_new:
        _log.info("schema_registered", subject=done.version.subject, version=done.version.number)
    shown = show_version(done.version, call, call.factory.subjects())
    unfollowed = _listed("Tidegate-Columns-Not-Followed", done.unfollowed, len(done.unfollowed))
    return OperationAnswer(shown, headers={**_reading(done), **_unjudged(done), **unfollowed})


def _reading(done: Registration) -> dict[str, str]:
    """Return a header with the dialect that applies to a schema without `$schema`; empty for other schemas.

    It is a header because clients of the Confluent API know the members of the body.
    """
    dialect = done.version.dialect
    if dialect is None:
        return {}
    named = ", ".join(dict.fromkeys(one.keyword for one in done.differences))
    more = f"; read differently by clients: {named}" if named else ""
    return {"Tidegate-Read-As": f"{NAMES[dialect]}{more}"}


def _unjudged(done: Registration) -> dict[str, str]:
    """Return a header with the number of rules that are not judged, and the reasons; empty if all are judged."""
    return _listed("Tidegate-Rules-Not-Judged", done.unjudged, count_of(done.unjudged))


def _listed(name: str, sentences: tuple[str, ...], count: int) -> dict[str, str]:
    if not sentences:
        return {}
    shown = "; ".join(sentences).encode("ascii", "backslashreplace").decode()
    cut = f"{shown[:_MAX_HEADER]}..." if len(shown) > _MAX_HEADER else shown
    return {name: f"{count}; {cut}"}


def look_up_schema(call: Call) -> OperationAnswer:
    """Find the version of a subject that has a schema."""
    found = call.factory.registration().look_up(
        call.subject, posted_schema(call), normalize=call.flag("normalize"), deleted=call.flag("deleted")
    )
    return OperationAnswer(show_version(found, call, call.factory.subjects()))


def delete_subject(call: Call) -> OperationAnswer:
    """Soft-delete a subject, or delete a soft-deleted one permanently with `permanent`."""
    found = call.factory.deletion().delete_subject(
        call.subject, permanent=call.flag("permanent"), by=call.principal
    )
    return OperationAnswer(found)


def delete_version(call: Call) -> OperationAnswer:
    """Soft-delete a version, or delete a soft-deleted one permanently with `permanent`."""
    number = version_number(call.path["version"])
    found = call.factory.deletion().delete_version(
        call.subject, number, permanent=call.flag("permanent"), by=call.principal
    )
    return OperationAnswer(found)


def check_version(call: Call) -> OperationAnswer:
    """Check whether a schema is compatible with one version of a subject."""
    return _checked(call, version_number(call.path["version"]))


def check_all(call: Call) -> OperationAnswer:
    """Check whether a schema is compatible with a subject's versions at its level."""
    return _checked(call, None)


def _checked(call: Call, version: int | None) -> OperationAnswer:
    verbose = call.flag("verbose")
    try:
        found = call.factory.registration().compatibility(
            call.subject, posted_schema(call), version, normalize=call.flag("normalize")
        )
    except Refused as error:
        if not verbose or error.error_code != 42201:
            raise
        return OperationAnswer({"is_compatible": False, "messages": [error.message]})
    shown: dict[str, object] = {"is_compatible": found.is_compatible}
    if verbose:
        shown["messages"] = [*found.messages, *found.warnings]
    return OperationAnswer(shown)


def posted_schema(call: Call) -> SchemaRequest:
    """Parse the schema in the body. Raises Refused (400, 422, 42201, 42209, 42210)."""
    limit = call.factory.settings.max_document_bytes
    if len(call.content) > limit:
        raise too_large(f"the body is larger than {limit} bytes, the limit of this registry")
    request = call.entity(SchemaRequest)
    check_references(call, call.subject, request)
    return request


def check_references(call: Call, subject: str, request: SchemaRequest) -> None:
    """Raise Refused (42201) for a reference to a subject that the caller may not see, as if it did not exist."""
    context = context_of(subject)
    for reference in request.references:
        if not call.principal.sees(whole_name(context, reference.subject)):
            raise no_such_reference(reference.name, reference.subject, reference.version)


def get_config(call: Call) -> OperationAnswer:
    """Show the settings of a subject, or the global settings; with `defaultToGlobal` what holds in the end."""
    found = call.factory.subject_settings().config(call.scope, inherited=call.flag("defaultToGlobal"))
    return OperationAnswer(found.shown())


def put_config(call: Call) -> OperationAnswer:
    """Change settings; null forgets one."""
    given = call.json()
    try:
        return OperationAnswer(call.factory.subject_settings().put_config(call.scope, given, call.principal))
    except ValidationError as error:
        message = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise (invalid_rule_set(message) if "RuleSet" in message else Refused(422, 422, message)) from error


def delete_config(call: Call) -> OperationAnswer:
    """Delete the settings of a subject or the global ones; return them."""
    return OperationAnswer(call.factory.subject_settings().delete_config(call.scope, call.principal).shown())


def get_mode(call: Call) -> OperationAnswer:
    """Show the mode of a subject, or the global mode; with `defaultToGlobal` the one that holds in the end."""
    found = call.factory.subject_settings().mode(call.scope, inherited=call.flag("defaultToGlobal"))
    return OperationAnswer({"mode": found})


def put_mode(call: Call) -> OperationAnswer:
    """Set the mode of a subject, or the global mode; IMPORT where there are schemas needs `force`."""
    mode = call.entity(ModeRequest).mode
    found = call.factory.subject_settings().put_mode(
        call.scope, mode, force=call.flag("force"), who=call.principal.name
    )
    return OperationAnswer({"mode": found})


def delete_mode(call: Call) -> OperationAnswer:
    """Delete the mode of a subject or the global one; return it."""
    return OperationAnswer(
        {"mode": call.factory.subject_settings().delete_mode(call.scope, call.principal.name)}
    )
