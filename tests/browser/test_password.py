"""The desk behind a sign-in: without a key it shows nothing, and with one what its grants cover."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
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


def sign_in(browser: Browser, address: str, credentials: Credentials, path: str = "/desk") -> Page:
    """Open a page with a browser that fills in the form."""
    page = browser.new_context().new_page()
    page.goto(f"{address}{path}")
    page.get_by_label("Key id").fill(credentials.key_id)
    page.get_by_label("Secret").fill(credentials.secret)
    page.get_by_role("button", name="Sign in").click()
    return page


def test_without_a_session_the_page_is_a_form_and_shows_nothing(browser: Browser, address: str) -> None:
    page = browser.new_context().new_page()
    answer = page.goto(f"{address}/desk/streams/{STREAM}")
    assert answer is not None
    assert answer.status == 401
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert STREAM not in page.locator("main").inner_text()
    page.context.close()


def test_a_wrong_secret_opens_nothing(browser: Browser, factory: Factory, address: str) -> None:
    right = make_key(factory, "viewer")
    page = sign_in(browser, address, Credentials(right.key_id, "wrong"))
    expect(page.get_by_role("alert")).to_contain_text("The credentials are not accepted")
    assert page.context.cookies() == []
    page.context.close()


def test_a_session_shows_what_the_grants_cover_until_the_key_is_revoked(
    browser: Browser, factory: Factory, address: str
) -> None:
    key = make_key(factory, "viewer:hospital.")
    page = sign_in(browser, address, key, f"/desk?q={STREAM}")
    page.wait_for_url(f"**/desk?q={STREAM}")
    page.get_by_role("link", name=STREAM).first.click()
    page.wait_for_url(f"**/desk/streams/{STREAM}*")
    assert page.get_by_role("heading", name=STREAM).first.is_visible()
    expect(page.get_by_role("navigation", name="Desk")).not_to_contain_text("Audit")

    stranger = sign_in(browser, address, make_key(factory, "viewer:nyc."))
    stranger.wait_for_url("**/desk")
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


def test_signing_out_ends_the_session_of_a_copied_cookie_too(
    browser: Browser, factory: Factory, address: str
) -> None:
    page = sign_in(browser, address, make_key(factory, "admin"))
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/desk")
    page.goto(f"{address}/desk/me")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/desk/sign-in")
    assert page.context.cookies() == []
    copied = httpx.get(f"{address}/desk", cookies={cookie["name"]: cookie["value"]})
    assert copied.status_code == 401
    page.context.close()
