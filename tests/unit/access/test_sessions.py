"""Sessions of people who sign in at the desk with an API key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tidegate.gateway.access.keys import Credentials
from tidegate.gateway.access.sessions import COOKIE, LASTS, DeskSessions
from tidegate.gateway.clock import now
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.desk_route import own_page

from .conftest import MAKER, Person

FORM = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://localhost"}


def sign_in(client: Any, key_id: str, secret: str, **more: str) -> httpx.Response:
    form = urlencode({"key_id": key_id, "secret": secret, "next": "/desk/contracts?q=x"})
    answer: httpx.Response = client.request(
        "POST", "/desk/sign-in", content=form.encode(), headers={**FORM, **more}
    )
    return answer


def token_of(answer: httpx.Response) -> str:
    assert answer.status_code == 303, answer.text
    return answer.cookies[COOKIE]


def ask(client: Any, token: str, path: str, method: str = "GET") -> httpx.Response:
    answer: httpx.Response = client.request(method, path, headers={"Cookie": f"{COOKIE}={token}"})
    return answer


@pytest.fixture
def key(admin: Person) -> Credentials:
    return admin.credentials


def test_a_key_opens_a_session_that_leads_to_the_page_that_was_asked_for(
    client: Any, key: Credentials
) -> None:
    for answer in (sign_in(client, key.key_id, key.secret), sign_in(client, "", key.token)):
        assert answer.headers["location"] == "/desk/contracts?q=x"
        cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "Path=/desk", "SameSite=lax", f"Max-Age={12 * 3600}"} <= set(cookie.split("; "))
        assert "Secure" not in cookie
        assert ask(client, token_of(answer), "/desk/me").status_code == 200


def test_over_tls_the_cookie_is_sent_over_tls_only(client: Any, key: Credentials) -> None:
    site = {"Origin": "https://localhost", "Sec-Fetch-Site": "same-origin"}
    assert "; Secure" in sign_in(client, key.key_id, key.secret, **site).headers["set-cookie"]


def test_a_wrong_key_opens_none_and_the_form_says_so(client: Any, key: Credentials) -> None:
    for key_id, secret in ((key.key_id, "wrong"), ("0" * 12, key.secret), ("", ""), ("", "tgk_x")):
        answer = sign_in(client, key_id, secret)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert "The credentials are not accepted" in answer.text
        assert 'value="/desk/contracts?q=x"' in answer.text


def test_a_page_of_another_site_can_neither_sign_in_nor_out(client: Any, key: Credentials) -> None:
    token = token_of(sign_in(client, key.key_id, key.secret))
    foreign = {"Origin": "https://evil.example", "Cookie": f"{COOKIE}={token}"}
    assert sign_in(client, key.key_id, key.secret, **foreign).status_code == 403
    assert client.request("POST", "/desk/sign-out", headers=foreign).status_code == 403
    assert ask(client, token, "/desk").status_code == 200


def test_a_session_opens_pages_and_no_api(client: Any, key: Credentials) -> None:
    token = token_of(sign_in(client, key.key_id, key.secret))
    assert ask(client, token, "/desk/audit").status_code == 200
    for path in ("/api/v1/contracts", "/subjects", "/metrics", "/deskx"):
        assert ask(client, token, path).status_code == 401, path


def test_a_session_ends_when_the_person_signs_out(client: Any, key: Credentials) -> None:
    token = token_of(sign_in(client, key.key_id, key.secret))
    other = token_of(sign_in(client, key.key_id, key.secret))
    answer = ask(client, token, "/desk/sign-out", "POST")
    assert (answer.status_code, answer.headers["location"]) == (303, "/desk/sign-in")
    assert ask(client, token, "/desk").status_code == 401
    assert ask(client, other, "/desk").status_code == 200


def test_a_session_ends_with_its_key(client: Any, key: Credentials, factory: Factory) -> None:
    token = token_of(sign_in(client, key.key_id, key.secret))
    factory.keys().revoke(key.key_id, MAKER)
    assert ask(client, token, "/desk").status_code == 401


def test_a_session_ends_after_its_time(key: Credentials, factory: Factory) -> None:
    at = now()
    times = [at]
    assert factory.authenticator is not None
    sessions = DeskSessions(factory.database, lambda: times[-1], factory.authenticator)
    token = sessions.open(key.key_id, key.secret).token
    times.append(at + LASTS - timedelta(seconds=1))
    assert sessions.principal(token) is not None
    times.append(at + LASTS)
    assert sessions.principal(token) is None


def test_old_sessions_are_deleted_and_a_key_has_at_most_fifty(key: Credentials, factory: Factory) -> None:
    at = now()
    times = [at]
    assert factory.authenticator is not None
    sessions = DeskSessions(factory.database, lambda: times[-1], factory.authenticator)
    tokens = []
    for second in range(52):
        times.append(at + timedelta(seconds=second))
        tokens.append(sessions.open(key.key_id, key.secret).token)
    assert [sessions.principal(token) is not None for token in tokens] == [False] * 2 + [True] * 50
    times.append(at + LASTS + timedelta(minutes=2))
    last = sessions.open(key.key_id, key.secret).token
    assert [sessions.find(token) is not None for token in (*tokens, last)] == [False] * 52 + [True]


def test_the_database_holds_no_token(client: Any, key: Credentials, factory: Factory) -> None:
    token = token_of(sign_in(client, key.key_id, key.secret))
    assert factory.database.read(lambda stores: stores.sessions.find(token)) is None
    assert factory.sessions is not None
    assert factory.sessions.find(token) is not None


@pytest.mark.parametrize(
    "path",
    ["", "//evil.example", "https://evil.example/desk", "/deskevil", "/desk\\evil", "/api/v1/keys", "/desk/\r\nX: y",
     "/desk/sign-out", "/desk/sign-in?next=/desk/sign-in", "/desk/" + "x" * 3000, "/desk/é"],
)  # fmt: skip
def test_a_form_leads_to_pages_of_the_desk_only(path: str) -> None:
    assert own_page(path) == "/desk"


def test_a_page_of_the_desk_is_led_to() -> None:
    for path in ("/desk", "/desk?q=a", "/desk/streams/a.b?range=1h&rule=x"):
        assert own_page(path) == path
