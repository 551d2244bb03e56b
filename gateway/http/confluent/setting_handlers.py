"""Operations on compatibility settings and modes."""

from __future__ import annotations

from pydantic import ValidationError

from tidegate.gateway.http.confluent.calls import Answer, Call
from tidegate.gateway.registry.schemas.entities import ModeRequest
from tidegate.gateway.registry.schemas.errors import Refused, invalid_rule_set
from tidegate.gateway.registry.schemas.names import GLOBAL


def get_config(call: Call) -> Answer:
    """Show the settings of a subject or for all; with `defaultToGlobal` what holds in the end."""
    scope = call.path.get("subject", GLOBAL)
    found = call.factory.subject_settings().config(scope, inherited=call.flag("defaultToGlobal"))
    return Answer(found.shown())


def put_config(call: Call) -> Answer:
    """Change the settings that are given; null forgets one."""
    scope = call.path.get("subject", GLOBAL)
    given = call.json()
    try:
        return Answer(call.factory.subject_settings().put_config(scope, given, call.principal.name))
    except ValidationError as error:
        message = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise (invalid_rule_set(message) if "RuleSet" in message else Refused(422, 422, message)) from error


def delete_config(call: Call) -> Answer:
    """Forget the settings of a subject or for all; shows them."""
    scope = call.path.get("subject", GLOBAL)
    return Answer(call.factory.subject_settings().delete_config(scope, call.principal.name).shown())


def get_mode(call: Call) -> Answer:
    """Show the mode of a subject or for all; with `defaultToGlobal` the one that holds in the end."""
    scope = call.path.get("subject", GLOBAL)
    found = call.factory.subject_settings().mode(scope, inherited=call.flag("defaultToGlobal"))
    return Answer({"mode": found})


def put_mode(call: Call) -> Answer:
    """Set the mode of a subject or for all; IMPORT where there are schemas needs `force`."""
    scope = call.path.get("subject", GLOBAL)
    mode = call.entity(ModeRequest).mode
    found = call.factory.subject_settings().put_mode(
        scope, mode, force=call.flag("force"), who=call.principal.name
    )
    return Answer({"mode": found})


def delete_mode(call: Call) -> Answer:
    """Forget the mode of a subject or for all; shows it."""
    scope = call.path.get("subject", GLOBAL)
    return Answer({"mode": call.factory.subject_settings().delete_mode(scope, call.principal.name)})
