"""Operations on associations between a resource, such as a topic, and the subjects of its keys and values."""

from __future__ import annotations

from typing import Any, Final

from pydantic.alias_generators import to_camel

from tidegate.contracts.errors import TidegateError, Unavailable
from tidegate.gateway.access.principal import Forbidden, Role, forbidden
from tidegate.gateway.http.confluent.calls import Call, OperationAnswer, in_context, read_entity
from tidegate.gateway.http.confluent.shown import shown_error
from tidegate.gateway.http.confluent.subject_handlers import check_references
from tidegate.gateway.http.gate import authorise
from tidegate.gateway.registry.associations import AssociationFilter
from tidegate.gateway.registry.schemas.entities import AssociationRequest
from tidegate.gateway.registry.schemas.errors import (
    invalid_association,
    no_association,
    resource_associated,
)
from tidegate.gateway.registry.schemas.names import canonical, context_of, qualified
from tidegate.gateway.storage.subject_settings import StoredAssociation

_RESOURCE: Final = ("resource_name", "resource_namespace", "resource_id", "resource_type")
_MOST_REQUESTS: Final = 1_000
"""Maximum number of requests in one batch; each is its own transaction."""


def list_by_name(call: Call) -> OperationAnswer:
    """List the associations of a resource by its namespace, `-` for any, and its name."""
    return _listed(call, namespace=call.path["namespace"], name=call.path["name"])


def list_by_resource(call: Call) -> OperationAnswer:
    """List the associations of a resource by its id."""
    return _listed(call, resource_id=call.path["resource"])


def list_by_subject(call: Call) -> OperationAnswer:
    """List the resources that use a subject."""
    return _listed(call, subject=call.subject)


def create(call: Call) -> OperationAnswer:
    """Associate subjects with a resource; one that it has already must be the same."""
    return OperationAnswer(_put(call, call.json(), replaces=False))


def create_or_update(call: Call) -> OperationAnswer:
    """Replace the associations of a resource."""
    return OperationAnswer(_put(call, call.json(), replaces=True))


def update(call: Call) -> OperationAnswer:
    """Replace the associations of the resource in the path."""
    body, resource = call.json(), call.path["resource"]
    if body.setdefault("resourceId", resource) != resource:
        raise invalid_association("resourceId", "the path names another resource")
    return OperationAnswer(_put(call, body, replaces=True))


def delete(call: Call) -> OperationAnswer:
    """Remove associations of a resource; with `cascadeLifecycle` the subjects that belong to it go softly too."""
    wanted = _filter(call, resource_id=call.path["resource"])
    cascade = call.flag("cascadeLifecycle")
    found = call.factory.associations().find(wanted)
    if not all(call.principal.sees(one.subject) for one in found):
        call.request.state.is_denied = True  # the guard audits it
        raise no_association(call.path["resource"])
    for one in found:
        authorise(call.request, Role.ADMIN if cascade else Role.APPROVER, one.subject)
    call.factory.associations().delete(wanted, cascade=cascade, by=call.principal, is_dry=call.flag("dryRun"))
    return OperationAnswer(status=204)


def batch_get(call: Call) -> OperationAnswer:
    """List the associations of several resources at once."""
    results = []
    for index, one in enumerate(_requests(call)):
        wanted = AssociationFilter(
            name=one.get("resourceName"),
            namespace=one.get("resourceNamespace"),
            resource_id=one.get("resourceId"),
            resource_type=one.get("resourceType"),
            types=tuple(one.get("associationTypes") or ()),
            context=_context(call),
        )
        if not (wanted.name or wanted.resource_id):
            advice = f"request {index} names no resource: give its id, or resourceName"
            raise invalid_association("resourceId", advice)
        results.append({"result": [_shown(found) for found in _visible(call, wanted)]})
    return OperationAnswer({"results": results})


def batch_mutate(call: Call) -> OperationAnswer:
    """Create several associations; each has its own answer, in the order of the requests.

    Each is a transaction of its own, so a refused one stops no other. An outage ends the batch, which may be sent again.
    """
    incompatible = call.factory.settings.incompatible_error_code
    results: list[dict[str, Any]] = []
    for one in _requests(call):
        try:
            results.append({"result": _put(call, one, replaces=True)})
        except Unavailable:
            raise
        except TidegateError as error:
            if isinstance(error, Forbidden):
                call.request.state.is_denied = True  # the guard audits it, whatever the status of the batch
            results.append({"error": shown_error(error, incompatible).members()})
    return OperationAnswer({"results": results})


def _requests(call: Call) -> list[dict[str, Any]]:
    found = call.json().get("requests")
    if not isinstance(found, list):
        raise invalid_association("requests", "it is a list of objects")
    if len(found) > _MOST_REQUESTS:
        raise invalid_association(
            "requests", f"it has {len(found):,} members; send at most {_MOST_REQUESTS:,} at once"
        )
    for index, one in enumerate(found):
        if not isinstance(one, dict):
            raise invalid_association("requests", f"request {index} is not an object")
        texts = [
            one.get(name) for name in ("resourceName", "resourceNamespace", "resourceId", "resourceType")
        ]
        types = one.get("associationTypes") or []
        if not all(text is None or isinstance(text, str) for text in texts) or not isinstance(types, list):
            advice = f"request {index} does not name a resource by strings, and its types by a list"
            raise invalid_association("requests", advice)
    return found


def _put(call: Call, body: dict[str, Any], *, replaces: bool) -> dict[str, Any]:
    request = _in_context(call, read_entity(AssociationRequest, body))
    service = call.factory.associations()
    for info in request.associations:
        subject = service.subject_of(request, info)
        if info.schema_ is not None:
            check_references(call, subject, info.schema_)
        authorise(call.request, Role.PRODUCER, subject)
        # Serializers find the subject of a topic by its name, and without a context in any context.
        names = request.resource_name, qualified(context_of(subject), request.resource_name)
        if not all(call.principal.may(Role.PRODUCER, name) for name in names):
            raise forbidden(call.principal, Role.PRODUCER, f"of the resource {request.resource_name}")
    _check_held(call, request)
    kept = service.put(request, replaces=replaces, by=call.principal, is_dry=call.flag("dryRun"))
    associations = [_members(one, "subject", "association_type", "lifecycle", "frozen") for one in kept]
    return {**_members(request, *_RESOURCE), "associations": associations}


def _in_context(call: Call, request: AssociationRequest) -> AssociationRequest:
    """Qualify the subjects of a request, default ones included, with the context of the query."""
    context = _context(call)
    if context is None:
        return request
    infos = tuple(
        info.model_copy(
            update={
                "subject": in_context(
                    context, info.subject or f"{request.resource_name}-{info.association_type}"
                )
            }
        )
        for info in request.associations
    )
    return request.model_copy(update={"associations": infos})


def _context(call: Call) -> str | None:
    """Return the context in the query, such as `.staging`; None if there is none. `:.staging:` is accepted too."""
    name = call.text("context").strip(":")
    return None if not name else name if name.startswith(".") else f".{name}"


def _check_held(call: Call, request: AssociationRequest) -> None:
    """Raise Refused if the resource has an association with a subject that the caller may not change.

    One of another kind counts too: a client with the first could not remove the resource that has the second. The error does
    not name the subject.
    """
    for held in call.factory.associations().find(AssociationFilter(resource_id=request.resource_id)):
        is_meant = held.resource_type == request.resource_type
        if is_meant and not call.principal.may(Role.PRODUCER, held.subject):
            raise resource_associated(held.association_type, held.resource_id)


def _listed(call: Call, **wanted: str) -> OperationAnswer:
    found = _visible(call, _filter(call, **wanted))
    return OperationAnswer([_shown(one) for one in call.page.cut(found)])


def _filter(call: Call, **wanted: str) -> AssociationFilter:
    if "subject" in wanted:
        wanted["subject"] = canonical(wanted["subject"])
    return AssociationFilter(
        **wanted,
        resource_type=call.text("resourceType") or None,
        types=call.query.get("associationType", ()),
        lifecycle=call.text("lifecycle") or None,
        context=_context(call),
    )


def _visible(call: Call, wanted: AssociationFilter) -> tuple[StoredAssociation, ...]:
    found = call.factory.associations().find(wanted)
    return tuple(one for one in found if call.principal.sees(one.subject))


def _shown(found: StoredAssociation) -> dict[str, Any]:
    return _members(found, "subject", "guid", *_RESOURCE, "association_type", "lifecycle", "frozen")


def _members(source: object, *names: str) -> dict[str, Any]:
    """Return attributes of an object as JSON members in camel case: `resource_id` becomes `resourceId`."""
    return {to_camel(name): getattr(source, name) for name in names}
