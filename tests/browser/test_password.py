"""The desk behind a password: who has no key sees nothing, and who has one sees what its grants cover."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, HttpCredentials, Page
from playwright.sync_api import Error as PlaywrightError
from pydantic import SecretStr

from tests.browser.conftest import serve
from tests.unit.access.conftest import MAKER
from tidegate.gateway.access.keys import Credentials
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.models.examples import CONTRACT, REPORT
from tidegate.gateway.settings import GatewaySettings

STREAM = "hospital.admissions"


@pytest.fixture
def factory(tmp_path: Path) -> Factory:
    """A registry that wants to know who asks."""
    url = SecretStr(f"sqlite:///{tmp_path / 'tidegate.db'}")
    return Factory(GatewaySettings(database_url=url, access="on", key_cache_seconds=0.0))


@pytest.fixture
def address(factory: Factory) -> Iterator[str]:
    """Where it serves, with one stream that reported a batch."""
    for address in serve(factory):
        job = make_key(factory, "producer:hospital.")
        with httpx.Client(base_url=address, auth=(job.key_id, job.secret)) as http:
            for path, body in (("contracts", CONTRACT), (f"streams/{STREAM}/batches", REPORT)):
                http.post(f"/api/v1/{path}", json=body).raise_for_status()
        yield address


def make_key(factory: Factory, grant: str) -> Credentials:
    return factory.keys().create("test", read_grants([grant]), MAKER)


def visit(browser: Browser, credentials: Credentials | None) -> Page:
    """Open a page of a browser that answers the challenge with an id and a secret, or cannot."""
    if credentials is None:
        return browser.new_context().new_page()
    known = HttpCredentials(username=credentials.key_id, password=credentials.secret)
    return browser.new_context(http_credentials=known).new_page()


def test_without_a_password_the_browser_asks_for_one_and_shows_nothing(
    browser: Browser, address: str
) -> None:
    page = visit(browser, None)
    # Nobody sits before this browser to answer the question.
    with pytest.raises(PlaywrightError, match="ERR_INVALID_AUTH_CREDENTIALS"):
        page.goto(f"{address}/desk")
    page.context.close()
    challenged = httpx.get(f"{address}/desk")
    assert challenged.headers["www-authenticate"].startswith('Basic realm="tidegate"')
    assert "Who are you?" in challenged.text


def test_a_wrong_password_opens_nothing(browser: Browser, factory: Factory, address: str) -> None:
    right = make_key(factory, "viewer")
    page = visit(browser, Credentials(right.key_id, "wrong"))
    answer = page.goto(f"{address}/desk")
    assert answer is not None
    assert answer.status == 401
    assert STREAM not in page.content()
    page.context.close()


def test_with_a_password_the_desk_shows_what_the_grants_cover_until_the_key_is_revoked(
    browser: Browser, factory: Factory, address: str
) -> None:
    key = make_key(factory, "viewer:hospital.")
    page = visit(browser, key)
    page.goto(f"{address}/desk")
    page.get_by_role("link", name=STREAM).first.click()
    page.wait_for_url(f"**/desk/streams/{STREAM}*")
    assert page.get_by_role("heading", name=STREAM).first.is_visible()

    stranger = visit(browser, make_key(factory, "viewer:nyc."))
    stranger.goto(f"{address}/desk")
    assert STREAM not in stranger.content()
    hidden = stranger.goto(f"{address}/desk/streams/{STREAM}")
    assert hidden is not None
    assert hidden.status == 404
    stranger.context.close()

    factory.keys().revoke(key.key_id, MAKER)
    revoked = page.goto(f"{address}/desk")
    assert revoked is not None
    assert revoked.status == 401
    page.context.close()
