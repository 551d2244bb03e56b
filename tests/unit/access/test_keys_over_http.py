"""Keys are made, listed and revoked over HTTP by an admin of everything, and each change is in the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidegate.gateway.access.keys import read_token

from .conftest import Hire, Person

KEYS = "/api/v1/keys"

only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def test_a_key_that_was_made_opens_what_it_was_granted_until_it_is_revoked(admin: Person) -> None:
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    wanted = {"name": "admissions job", "grants": ["producer:hospital."], "expires_at": until}
    answer = admin.ask("POST", KEYS, wanted)
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    made = answer.json()
    credentials = read_token(made["token"])
    assert credentials is not None
    assert (credentials.key_id, credentials.secret) == (made["key_id"], made["secret"])
    person = Person(admin.client, credentials)
    assert person.ask("GET", "/subjects").status_code == 200
    assert person.ask("GET", KEYS).status_code == 403

    listed = admin.json(KEYS)["keys"]
    assert [one["name"] for one in listed] == ["test", "admissions job"]
    assert {name: value for name, value in made.items() if name not in {"secret", "token"}} == listed[1]
    assert made["secret"] not in admin.ask("GET", KEYS).text
    assert (listed[1]["created_by"], listed[1]["revoked_at"]) == (admin.name, None)

    revoked = admin.ask("DELETE", f"{KEYS}/{made['key_id']}")
    assert (revoked.status_code, revoked.json()["revoked_at"] is not None) == (200, True)
    assert person.ask("GET", "/subjects").status_code == 401
    assert admin.ask("DELETE", f"{KEYS}/{made['key_id']}").status_code == 409
    assert admin.ask("DELETE", f"{KEYS}/000000000000").status_code == 404
    entries = admin.json("/api/v1/audit")["entries"]
    changes = [(one["who"], one["action"]) for one in entries if one["subject"] == f"key:{made['key_id']}"]
    assert changes == [(admin.name, "key.created"), (admin.name, "key.revoked")]


@pytest.mark.parametrize("grant", ["approver", "admin:hospital."])
@only_sqlite
def test_only_an_admin_of_everything_may(hire: Hire, grant: str) -> None:
    person = hire(grant)
    for method, path, body in (
        ("GET", KEYS, None),
        ("POST", KEYS, {"name": "x", "grants": ["admin"]}),
        ("DELETE", f"{KEYS}/{person.credentials.key_id}", None),
    ):
        assert person.ask(method, path, body).status_code == 403
    assert person.ask("GET", "/subjects").status_code == 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": "x", "grants": []}, "the body is no key"),
        ({"name": "x", "grants": ["owner"]}, "owner is not a role"),
        ({"name": "x", "grants": ["viewer:a\nadmin"]}, "a prefix has no line ends"),
        ({"name": " ", "grants": ["viewer"]}, "a key needs a name"),
        ({"name": "x", "grants": ["viewer"], "expires_at": "2001-01-01T00:00:00Z"}, "has expired already"),
        ({"name": "x", "grants": ["viewer"], "expires_at": "2001-01-01T00:00:00"}, "the body is no key"),
        ({"name": "x", "grants": ["viewer"], "secret": "mine"}, "the body is no key"),
    ],
)
@only_sqlite
def test_a_key_without_a_use_is_refused(admin: Person, body: Any, words: str) -> None:
    answer = admin.ask("POST", KEYS, body)
    assert answer.status_code == 422
    assert words in answer.text
    assert len(admin.json(KEYS)["keys"]) == 1


def test_a_key_that_expires_at_the_end_of_the_calendar_is_listed(admin: Person) -> None:
    """In UTC, this instant is in the year 10000."""
    wanted = {"name": "for ever", "grants": ["viewer"], "expires_at": "9999-12-31T23:59:59-05:00"}
    made = admin.ask("POST", KEYS, wanted)
    assert (made.status_code, made.json()["expires_at"][:10]) == (201, "9999-12-31")
    assert made.json()["key_id"] in {one["key_id"] for one in admin.json(KEYS)["keys"]}
    assert admin.ask("GET", "/desk/keys").status_code == 200
    assert admin.ask("DELETE", f"{KEYS}/{made.json()['key_id']}").status_code == 200
