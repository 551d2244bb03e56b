"""Access rules: the required role of each operation of the native API and of the desk.

The rules of the Confluent API are in the table of its router (`tidegate.gateway.http.confluent.operations`). A test
checks that both tables cover every route of the application.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tidegate.gateway.access.principal import Role


class Reach(Enum):
    """The subjects that the role of a rule must cover."""

    NOBODY_ASKED = "anybody may, without credentials"
    SOMEWHERE = "some prefix: the handler shows or takes only what the principal's prefixes cover"
    EVERYWHERE = "every subject: it concerns the whole registry"
    SUBJECT = "the subject in the path"
    NEW_SUBJECT = "the subject in the path, which may not exist yet: refused in the same words if it does"
    CONTRACT = "the subject of the contract in the path"
    STREAM = "the subject of the stream in the path"


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The role that an operation requires, and the subjects that the role must cover."""

    role: Role
    reach: Reach


PUBLIC = AccessRule(Role.VIEWER, Reach.NOBODY_ASKED)
_VIEW = AccessRule(Role.VIEWER, Reach.SOMEWHERE)
_VIEW_CONTRACT, _VIEW_STREAM = AccessRule(Role.VIEWER, Reach.CONTRACT), AccessRule(Role.VIEWER, Reach.STREAM)
_REPORT = AccessRule(Role.REPORTER, Reach.SOMEWHERE)
_REPORT_CONTRACT = AccessRule(Role.REPORTER, Reach.CONTRACT)
_PRODUCE = AccessRule(Role.PRODUCER, Reach.SOMEWHERE)
_PRODUCE_CONTRACT = AccessRule(Role.PRODUCER, Reach.CONTRACT)
_APPROVE = AccessRule(Role.APPROVER, Reach.SOMEWHERE)
_APPROVE_CONTRACT, _ADMIN_CONTRACT = (
    AccessRule(Role.APPROVER, Reach.CONTRACT),
    AccessRule(Role.ADMIN, Reach.CONTRACT),
)
_PRODUCE_STREAM, _APPROVE_STREAM = (
    AccessRule(Role.PRODUCER, Reach.STREAM),
    AccessRule(Role.APPROVER, Reach.STREAM),
)
_ADMIN_STREAM = AccessRule(Role.ADMIN, Reach.STREAM)
_ADMIN_ALL = AccessRule(Role.ADMIN, Reach.EVERYWHERE)

_CONTRACT = "/api/v1/contracts/{contract_id}"
_STREAM = "/api/v1/streams/{stream}"

NATIVE: Mapping[tuple[str, str], AccessRule] = {
    ("GET", "/api/v1/contracts"): _VIEW,
    ("POST", "/api/v1/contracts"): _PRODUCE,  # the subject is in the document
    ("GET", "/api/v1/contracts/by-registry-id/{registry_id}"): _VIEW,
    ("GET", _CONTRACT): _VIEW_CONTRACT,
    ("GET", f"{_CONTRACT}/versions/{{version}}"): _VIEW_CONTRACT,
    ("GET", f"{_CONTRACT}/groups"): _VIEW_CONTRACT,
    ("POST", f"{_CONTRACT}/versions/{{version}}/status"): _APPROVE_CONTRACT,
    ("DELETE", f"{_CONTRACT}/versions/{{version}}"): _ADMIN_CONTRACT,
    ("POST", f"{_CONTRACT}/versions/{{version}}/undelete"): _ADMIN_CONTRACT,
    ("POST", f"{_CONTRACT}/versions/{{version}}/judge"): _VIEW_CONTRACT,  # stores nothing
    ("POST", "/api/v1/contracts/check"): _PRODUCE,  # for principals that may publish it
    ("GET", f"{_CONTRACT}/consumers"): _VIEW_CONTRACT,
    ("PUT", f"{_CONTRACT}/consumers/{{consumer_id}}"): _PRODUCE_CONTRACT,  # to change one: approver
    ("DELETE", f"{_CONTRACT}/consumers/{{consumer_id}}"): _APPROVE_CONTRACT,
    ("GET", f"{_CONTRACT}/acknowledgements"): _VIEW_CONTRACT,
    ("POST", f"{_CONTRACT}/acknowledgements"): _APPROVE_CONTRACT,
    ("GET", f"{_CONTRACT}/approvals"): _VIEW_CONTRACT,
    ("POST", f"{_CONTRACT}/approvals"): _APPROVE_CONTRACT,
    ("DELETE", f"{_CONTRACT}/approvals/{{candidate}}"): _APPROVE_CONTRACT,
    ("GET", f"{_CONTRACT}/table-audits"): _VIEW_CONTRACT,
    ("POST", f"{_CONTRACT}/table-audits"): _REPORT_CONTRACT,
    ("GET", f"{_CONTRACT}/table-audits/{{audit}}"): _VIEW_CONTRACT,
    ("GET", "/api/v1/streams"): _VIEW,
    ("GET", _STREAM): _VIEW_STREAM,
    ("GET", f"{_STREAM}/batches"): _VIEW_STREAM,
    ("POST", f"{_STREAM}/batches"): _REPORT,  # the stream may be new: the body names the contract
    ("GET", f"{_STREAM}/refusals"): _VIEW_STREAM,
    ("GET", f"{_STREAM}/expectations"): _VIEW_STREAM,
    ("GET", f"{_STREAM}/control"): _VIEW_STREAM,
    ("POST", f"{_STREAM}/pause"): _APPROVE_STREAM,
    ("POST", f"{_STREAM}/resume"): _APPROVE_STREAM,
    ("POST", f"{_STREAM}/quarantine-record"): _APPROVE_STREAM,
    ("GET", f"{_STREAM}/shadow"): _VIEW_STREAM,
    ("POST", f"{_STREAM}/shadow"): _APPROVE_STREAM,
    ("GET", f"{_CONTRACT}/versions/{{version}}/promotion"): _VIEW_CONTRACT,
    ("POST", f"{_STREAM}/trips"): _REPORT,  # like batch reports
    ("POST", f"{_STREAM}/events"): _REPORT,
    ("POST", f"{_STREAM}/heartbeat"): _REPORT,
    ("GET", f"{_STREAM}/reconciliations"): _VIEW_STREAM,
    (
        "POST",
        f"{_STREAM}/reconciliations",
    ): _APPROVE_STREAM,  # reads the whole stream, so it needs the role of a pause
    ("POST", f"{_STREAM}/reconciliations/{{reconciliation}}/result"): _REPORT,
    ("GET", f"{_STREAM}/replays"): _VIEW_STREAM,
    ("GET", f"{_STREAM}/replays/{{replay}}"): _VIEW_STREAM,
    ("POST", f"{_STREAM}/replays"): _APPROVE_STREAM,
    ("POST", f"{_STREAM}/replays/{{replay}}/approval"): _APPROVE_STREAM,  # by a second person
    ("DELETE", f"{_STREAM}/replays/{{replay}}"): _APPROVE_STREAM,
    ("GET", f"{_STREAM}/replays/{{replay}}/request"): _REPORT,  # has hidden values: not for producers
    ("POST", f"{_STREAM}/replays/{{replay}}/progress"): _REPORT,
    ("GET", f"{_STREAM}/adoptions"): _VIEW_STREAM,
    ("POST", f"{_STREAM}/adoptions"): _APPROVE_STREAM,  # may give up records
    ("GET", "/api/v1/problems"): _VIEW,
    ("GET", f"{_STREAM}/problems"): _VIEW_STREAM,
    ("GET", f"{_STREAM}/problems/{{problem}}"): _VIEW_STREAM,
    ("POST", f"{_STREAM}/problems/{{problem}}/state"): _PRODUCE_STREAM,  # to mute one: approver
    ("POST", f"{_STREAM}/problems/{{problem}}/assignee"): _PRODUCE_STREAM,
    ("POST", f"{_STREAM}/problems/{{problem}}/comments"): _PRODUCE_STREAM,
    ("GET", f"{_STREAM}/quarantine"): _VIEW_STREAM,
    ("POST", f"{_STREAM}/quarantine/rebuild"): _ADMIN_STREAM,
    ("GET", f"{_STREAM}/quarantine/breakdown"): _VIEW_STREAM,
    ("GET", f"{_STREAM}/quarantine/trend"): _VIEW_STREAM,
    ("GET", f"{_STREAM}/quarantine/positions"): _VIEW_STREAM,
    ("GET", f"{_STREAM}/quarantine/records"): _VIEW_STREAM,  # masked
    ("GET", f"{_STREAM}/quarantine/records/{{at_partition}}/{{at_offset}}"): _VIEW_STREAM,
    ("GET", f"{_STREAM}/quarantine/export"): _VIEW_STREAM,  # masked, and in the audit log
    ("POST", f"{_STREAM}/quarantine/searches"): _APPROVE_STREAM,  # reveals whether a hidden value occurs
    ("GET", f"{_STREAM}/quarantine/searches"): _APPROVE_STREAM,
    ("GET", f"{_STREAM}/quarantine/searches/{{search}}"): _APPROVE_STREAM,
    ("DELETE", f"{_STREAM}/quarantine/searches/{{search}}"): _APPROVE_STREAM,
    ("POST", f"{_STREAM}/quarantine/find"): _VIEW_STREAM,  # by a key that is hidden: approver
    ("GET", "/metrics"): _VIEW,
    ("GET", "/api/v1/whoami"): _VIEW,
    ("GET", "/api/v1/audit"): _ADMIN_ALL,
    ("GET", "/api/v1/keys"): _ADMIN_ALL,
    ("POST", "/api/v1/keys"): _ADMIN_ALL,
    ("DELETE", "/api/v1/keys/{key_id}"): _ADMIN_ALL,
    ("GET", "/health/live"): PUBLIC,
    ("GET", "/health/ready"): PUBLIC,
    # The API description is public: it contains no data of the registry.
    ("GET", "/openapi.json"): PUBLIC,
    ("GET", "/docs"): PUBLIC,
    ("GET", "/docs/reference.css"): PUBLIC,
}

DESK: Mapping[tuple[str, str], AccessRule] = {
    ("GET", "/"): PUBLIC,
    ("GET", "/desk/static/{digest}/{name}"): PUBLIC,
    ("GET", "/desk"): _VIEW,
    ("GET", "/desk/streams/{stream}"): _VIEW_STREAM,
    ("GET", "/desk/streams/{stream}/latest"): _VIEW_STREAM,
    ("GET", "/desk/streams/{stream}/actions/{action}"): _VIEW_STREAM,  # only shows what the action would do
    ("POST", "/desk/streams/{stream}/actions/{action}"): _APPROVE_STREAM,
    ("GET", "/desk/records/{topic}/{partition}/{offset}"): _VIEW,  # the topic belongs to a stream
    ("GET", "/desk/records/{topic}/{partition}/{offset}/reveal"): _VIEW,  # redirects to the record
    ("POST", "/desk/records/{topic}/{partition}/{offset}/reveal"): _APPROVE,  # of the subject of that stream
    ("GET", "/desk/contracts"): _VIEW,
    ("GET", "/desk/contracts/{contract_id}"): _VIEW_CONTRACT,
    ("GET", "/desk/contracts/{contract_id}/diff"): _VIEW_CONTRACT,
    ("GET", "/desk/contracts/{contract_id}/versions/{version}/contract.yaml"): _VIEW_CONTRACT,
    ("GET", "/desk/contracts/{contract_id}/table-audits/{audit}"): _VIEW_CONTRACT,
    ("GET", "/desk/problems"): _VIEW,
    ("GET", "/desk/streams/{stream}/problems"): _VIEW_STREAM,
    ("GET", "/desk/streams/{stream}/problems/{problem}"): _VIEW_STREAM,
    ("POST", "/desk/streams/{stream}/problems/{problem}/state"): _PRODUCE_STREAM,  # to mute one: approver
    ("POST", "/desk/streams/{stream}/problems/{problem}/assignee"): _PRODUCE_STREAM,
    ("POST", "/desk/streams/{stream}/problems/{problem}/comments"): _PRODUCE_STREAM,
    ("GET", "/desk/streams/{stream}/problems/{problem}/replay"): _VIEW_STREAM,  # only shows the form
    ("POST", "/desk/streams/{stream}/problems/{problem}/replay"): _APPROVE_STREAM,  # previews a fix
    ("POST", "/desk/streams/{stream}/problems/{problem}/replays"): _APPROVE_STREAM,
    ("POST", "/desk/streams/{stream}/problems/{problem}/replays/{replay}"): _APPROVE_STREAM,
    ("POST", "/desk/streams/{stream}/problems/{problem}/discards"): _APPROVE_STREAM,
    ("GET", "/desk/streams/{stream}/quarantine"): _VIEW_STREAM,  # masked
    ("POST", "/desk/streams/{stream}/quarantine/find"): _VIEW_STREAM,  # by a key that is hidden: approver
    ("GET", "/desk/streams/{stream}/quarantine/searches"): _APPROVE_STREAM,
    ("POST", "/desk/streams/{stream}/quarantine/searches"): _APPROVE_STREAM,  # reveals whether a value occurs
    ("GET", "/desk/streams/{stream}/quarantine/searches/{search}"): _APPROVE_STREAM,
    ("POST", "/desk/streams/{stream}/quarantine/searches/{search}/cancel"): _APPROVE_STREAM,
    ("POST", "/desk/streams/{stream}/quarantine/download"): _VIEW_STREAM,  # masked, and in the audit log
    ("GET", "/desk/sign-in"): PUBLIC,
    ("POST", "/desk/sign-in"): PUBLIC,
    ("POST", "/desk/sign-out"): PUBLIC,  # ends only the session of the cookie
    ("GET", "/desk/me"): _VIEW,
    ("GET", "/desk/keys"): _ADMIN_ALL,
    ("POST", "/desk/keys"): _ADMIN_ALL,
    ("POST", "/desk/keys/{key_id}/revoke"): _ADMIN_ALL,
    ("GET", "/desk/audit"): _ADMIN_ALL,
}

RULES: Mapping[tuple[str, str], AccessRule] = {**NATIVE, **DESK}


def rule_of(method: str, template: str) -> AccessRule | None:
    """Return the rule of an operation, by method and path template; None without one. HEAD has the rule of GET."""
    return RULES.get(("GET" if method == "HEAD" else method, template))
