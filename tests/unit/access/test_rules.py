"""Every operation has a rule: a new one without fails here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from fastapi import APIRouter
from starlette.routing import BaseRoute, Route

from tidegate.gateway.access.principal import Grant, Principal, Role
from tidegate.gateway.access.rules import DESK, NATIVE, PUBLIC, RULES, AccessRule, Reach, rule_of
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.http.confluent.operations import OPERATIONS
from tidegate.gateway.http.gate import permit_rule

only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def operations(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str]]:
    """Yield method and path of every route; fail for an unknown kind of route."""
    for route in routes:
        router = getattr(route, "original_router", None)
        if isinstance(router, APIRouter):
            yield from operations(router.routes)
        else:
            assert isinstance(route, Route), route
            yield from ((method, route.path) for method in sorted((route.methods or set()) - {"HEAD"}))


@only_sqlite
def test_every_route_of_the_application_has_a_rule_and_every_rule_a_route(factory: Factory) -> None:
    found = set(operations(create_app(factory).routes))
    assert len(found) > 20
    assert found == set(RULES)


@only_sqlite
def test_a_route_without_a_rule_is_found(factory: Factory) -> None:
    app = create_app(factory)
    app.add_api_route("/api/v1/new", lambda: None, methods=["PUT"])
    assert set(operations(app.routes)) - set(RULES) == {("PUT", "/api/v1/new")}


@only_sqlite
def test_a_route_without_a_rule_is_closed_to_every_caller(admin: Any) -> None:
    admin.client.app.add_api_route("/api/v1/new", lambda: "open")
    answer = admin.ask("GET", "/api/v1/new")
    assert answer.status_code == 403
    assert answer.json()["detail"] == "no access rule covers GET /api/v1/new, so it is refused"


def test_a_reach_that_the_gate_does_not_know_permits_nothing() -> None:
    admin = Principal("key:1", (Grant(Role.ADMIN, ""),))
    unknown: Any = object()  # as a member added to Reach, and nowhere else
    nothing: Any = None
    with pytest.raises(AssertionError):
        asyncio.run(permit_rule(nothing, admin, AccessRule(Role.VIEWER, unknown), {}))


def test_no_operation_of_the_confluent_api_that_changes_something_is_for_viewers() -> None:
    reading = {"/subjects/{subject}", "/associations:batchGet"}
    for operation in OPERATIONS:
        is_check = operation.path.startswith("/compatibility/")
        changes = operation.method != "GET" and not is_check
        if operation.method == "POST" and operation.path in reading:
            changes = False
        assert (operation.rule.role > Role.VIEWER) == changes, operation.id
        if operation.method == "DELETE" and operation.path.startswith(("/subjects", "/contexts", "/mode")):
            assert operation.rule.role is Role.ADMIN, operation.id
        if "{subject}" in operation.path:
            assert operation.rule.reach in {Reach.SUBJECT, Reach.NEW_SUBJECT}, operation.id


def test_no_operation_of_the_native_api_that_changes_something_is_for_viewers() -> None:
    for (method, path), rule in NATIVE.items():
        assert (rule.role > Role.VIEWER) == (
            (method != "GET" and not path.endswith(("/judge", "/find")))
            or path.endswith(("/audit", "/keys", "/searches", "/{search}", "/{replay}/request"))
        )


def test_public_paths_hold_no_data() -> None:
    public = {path for (_, path), rule in RULES.items() if rule == PUBLIC}
    assert public == {
        "/",
        "/health/live",
        "/health/ready",
        "/docs",
        "/docs/reference.css",
        "/openapi.json",
        "/desk/static/{digest}/{name}",
        "/desk/sign-in",
        "/desk/sign-out",
    }
    changing = {path: rule for (method, path), rule in DESK.items() if method != "GET"}
    reveal = AccessRule(Role.APPROVER, Reach.SOMEWHERE)
    assert changing == {
        "/desk/records/{topic}/{partition}/{offset}/reveal": reveal,
        "/desk/streams/{stream}/actions/{action}": AccessRule(Role.APPROVER, Reach.STREAM),
        "/desk/streams/{stream}/problems/{problem}/state": AccessRule(Role.PRODUCER, Reach.STREAM),
        "/desk/streams/{stream}/problems/{problem}/assignee": AccessRule(Role.PRODUCER, Reach.STREAM),
        "/desk/streams/{stream}/problems/{problem}/comments": AccessRule(Role.PRODUCER, Reach.STREAM),
        "/desk/streams/{stream}/problems/{problem}/replay": AccessRule(Role.APPROVER, Reach.STREAM),
        "/desk/streams/{stream}/problems/{problem}/replays": AccessRule(Role.APPROVER, Reach.STREAM),
        "/desk/streams/{stream}/problems/{problem}/replays/{replay}": AccessRule(Role.APPROVER, Reach.STREAM),
        "/desk/streams/{stream}/problems/{problem}/discards": AccessRule(Role.APPROVER, Reach.STREAM),
        "/desk/streams/{stream}/quarantine/find": AccessRule(Role.VIEWER, Reach.STREAM),
        "/desk/streams/{stream}/quarantine/download": AccessRule(Role.VIEWER, Reach.STREAM),
        "/desk/streams/{stream}/quarantine/searches": AccessRule(Role.APPROVER, Reach.STREAM),
        "/desk/streams/{stream}/quarantine/searches/{search}/cancel": AccessRule(Role.APPROVER, Reach.STREAM),
        "/desk/keys": AccessRule(Role.ADMIN, Reach.EVERYWHERE),
        "/desk/keys/{key_id}/revoke": AccessRule(Role.ADMIN, Reach.EVERYWHERE),
        "/desk/sign-in": PUBLIC,
        "/desk/sign-out": PUBLIC,
    }


def test_head_asks_for_what_get_asks_for() -> None:
    assert rule_of("HEAD", "/api/v1/contracts") == rule_of("GET", "/api/v1/contracts")
    assert rule_of("PUT", "/api/v1/contracts") is None
