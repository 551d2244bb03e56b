"""Who asks: what is let in, what is not, and that a refusal does not say why."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from tidegate.gateway.access.keys import Credentials
from tidegate.gateway.factory import Factory

# Authentication does not depend on the database; the other modules test keys and lists on both.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

CONTRACTS = "/api/v1/contracts"


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_a_key_opens_as_basic_authentication_and_as_a_bearer_token(admin: Any) -> None:
    key = admin.credentials
    for headers in (
        basic(key.key_id, key.secret),
        {"Authorization": f"Bearer {key.token}"},
        {"Authorization": f"bearer   {key.token} "},
    ):
        assert admin.client.get(CONTRACTS, headers=headers).status_code == 200


def test_a_request_without_credentials_is_answered_with_how_to_send_them(client: Any) -> None:
    answer = client.get(CONTRACTS)
    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
    assert answer.headers["www-authenticate"].startswith('Basic realm="tidegate"')
    assert "send an API key" in answer.json()["detail"]
    response = client.get("/subjects")
    assert (response.status_code, response.json()["error_code"]) == (401, 401)
    assert response.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
    page = client.get("/desk")
    assert (page.status_code, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
    # Basic would make the browser ask in a dialogue of its own; the page has a form.
    assert page.headers["www-authenticate"] == 'Bearer realm="tidegate"'
    assert 'action="/desk/sign-in"' in page.text


def wrong_headers(key: Credentials) -> list[str]:
    return [
        basic(key.key_id, "x")["Authorization"],
        basic("0" * 12, key.secret)["Authorization"],
        basic("\0", "\0")["Authorization"],
        basic("é" * 6, key.secret)["Authorization"],
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
        f"Bearer tgk_{key.key_id}_wrong",
        "Bearer eyJhbGciOiJub25lIn0.e30.",
        "Bearer",
        "Digest username=x",
        "Negotiate x",
    ]


def test_wrong_credentials_of_every_kind_get_the_same_answer(admin: Any) -> None:
    answers = [
        admin.client.get(CONTRACTS, headers={"Authorization": header})
        for header in wrong_headers(admin.credentials)
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({(answer.content, tuple(answer.headers.items())) for answer in answers}) == 1


def test_an_unknown_key_costs_the_database_what_a_known_one_costs(admin: Any, factory: Factory) -> None:
    statements: list[str] = []
    event.listen(
        factory.database._engine, "before_cursor_execute", lambda *found: statements.append(found[2])
    )
    seen = []
    for user in (admin.credentials.key_id, "0" * 12, "nobody"):
        statements.clear()
        assert admin.client.get(CONTRACTS, headers=basic(user, "wrong")).status_code == 401
        seen.append(tuple(statements))
    assert len(set(seen)) == 1
    assert len(seen[0]) >= 1


def test_a_revoked_key_opens_nothing_any_more(admin: Any, factory: Factory) -> None:
    assert admin.ask("GET", CONTRACTS).status_code == 200
    factory.keys().revoke(admin.credentials.key_id, "cli:test")
    assert admin.ask("GET", CONTRACTS).status_code == 401


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/docs", "/openapi.json", "/"])
def test_public_paths_need_no_credentials(client: Any, path: str) -> None:
    assert client.get(path).status_code in {200, 307}


@pytest.mark.parametrize(
    "path", ["/desk", "/desk/contracts", "/subjects", "/schemas/types", "/config", "/v1/metadata/id", "/nothing",
             "/api/v1/audit", "/docsx", "/desk/statics", "/health", "/docs/", "/openapi.jsonx", "/%2e%2e/subjects", "/DESK"],
)  # fmt: skip
def test_everything_else_does(client: Any, path: str) -> None:
    assert client.get(path).status_code == 401


@pytest.mark.parametrize("host", ["x/health/?", "x/docs?", "registry/health/live#", "[::1]/health/x?"])
@pytest.mark.parametrize("path", ["/subjects", CONTRACTS, "/desk"])
@pytest.mark.parametrize("every_host", [False, True])
def test_a_host_header_does_not_turn_an_address_into_a_public_one(
    client: Any, factory: Factory, host: str, path: str, every_host: bool
) -> None:
    if every_host:  # then the check of host names hides no mistake of the others
        factory.allowed_hosts = ("*",)
    answer = client.get(path, headers={"Host": host})
    is_address = host.startswith("[")
    assert answer.status_code == (401 if every_host or is_address else 421)


def test_preflights_and_other_origins_get_no_permission(admin: Any) -> None:
    headers = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
    for path in (CONTRACTS, "/subjects", "/health/live"):
        for answer in (
            admin.client.request("OPTIONS", path, headers=headers),
            admin.client.get(
                path, headers=headers | basic(admin.credentials.key_id, admin.credentials.secret)
            ),
        ):
            assert [name for name in answer.headers if name.startswith("access-control-")] == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", [CONTRACTS, "/subjects/a-value/versions", "/config"])
def test_a_page_of_another_site_changes_nothing(admin: Any, site: str, path: str) -> None:
    key = basic(admin.credentials.key_id, admin.credentials.secret)
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = admin.client.request(method, path, headers=key | {"Sec-Fetch-Site": site}, content=b"{}")
        assert answer.status_code == 403
        assert "page of another site" in answer.text


def test_the_gateways_own_pages_and_links_to_it_work(admin: Any) -> None:
    key = basic(admin.credentials.key_id, admin.credentials.secret)
    assert admin.client.get("/desk", headers=key | {"Sec-Fetch-Site": "cross-site"}).status_code == 200
    own = key | {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    answer = admin.client.request("PUT", "/config", headers=own, content=b'{"compatibility": "FULL"}')
    assert answer.status_code == 200


def test_the_audit_log_names_the_key(admin: Any, make_contract: Any) -> None:
    assert admin.ask("POST", CONTRACTS, make_contract()).status_code == 201
    published = admin.json("/api/v1/audit")["entries"][-1]
    assert (published["who"], published["action"]) == (admin.name, "contract.published")
    assert published["subject"] == "hospital.admissions-value"


def test_the_audit_log_is_for_admins_of_everything_and_comes_in_pages(hire: Any, admin: Any) -> None:
    for grant in ("admin:hospital.", "approver"):
        assert hire(grant).ask("GET", "/api/v1/audit").status_code == 403
    first = admin.json("/api/v1/audit?limit=2")
    rest = admin.json(f"/api/v1/audit?after={first['entries'][-1]['number']}")
    numbers = [entry["number"] for entry in first["entries"] + rest["entries"]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert first["head"] == rest["head"] == rest["entries"][-1]["hash"]
    subject = f"key:{admin.credentials.key_id}"
    (only,) = admin.json(f"/api/v1/audit?subject={subject}")["entries"]
    assert only["subject"] == subject


def test_with_access_control_off_every_caller_is_anonymous(factory: Factory, make_contract: Any) -> None:
    factory.registry().publish(make_contract(), "c.json")
    (entry,) = factory.audit().page(0, 10).entries
    assert entry.who == "anonymous"


def test_a_refusal_holds_no_secret(admin: Any) -> None:
    answer: httpx.Response = admin.client.get(CONTRACTS, headers=basic(admin.credentials.key_id, "hunter2"))
    assert "hunter2" not in answer.text + json.dumps(dict(answer.headers))
