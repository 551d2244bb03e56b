"""A real gateway with a real database and broker, looked at with a real browser."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright
from pydantic import SecretStr

from tests.browser.traffic import Traffic
from tidegate.gateway.embedded.broker import Broker
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.settings import GatewaySettings

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_START_DEADLINE_SECONDS = 30


class _Server(uvicorn.Server):
    """A server in a thread; signals stay with pytest."""

    def install_signal_handlers(self) -> None:
        """Leave the handlers alone."""


@dataclass
class Visit:
    """A page, and what the browser complained about while it was open."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def note(self, message: ConsoleMessage) -> None:
        """Remember errors and warnings of the console; the browser reports a broken policy there too."""
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)


def serve(factory: Factory) -> Iterator[str]:
    """Serve a gateway on a free port of loopback; yields its address."""
    factory.database.migrate()
    config = uvicorn.Config(create_app(factory), host="127.0.0.1", port=0, log_level="warning", ws="none")
    server = _Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + _START_DEADLINE_SECONDS
    while not server.started:
        assert thread.is_alive()
        assert time.monotonic() < deadline, "the gateway did not start"
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(_START_DEADLINE_SECONDS)


@pytest.fixture(scope="session")
def gateway(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    """A gateway with a broker, and the means to feed both."""
    url = f"sqlite:///{tmp_path_factory.mktemp('desk') / 'tidegate.db'}"
    factory = Factory(GatewaySettings(database_url=SecretStr(url), bootstrap_servers=broker.bootstrap))
    for address in serve(factory):
        yield Traffic(address, broker.bootstrap)


@pytest.fixture
def gateway_with(tmp_path: Path) -> Iterator[Callable[[str | None], Traffic]]:
    """Yield a function that starts another gateway, with the broker address that it is given."""
    running: list[Iterator[str]] = []

    def start(bootstrap: str | None) -> Traffic:
        url = f"sqlite:///{tmp_path / 'other.db'}"
        serving = serve(Factory(GatewaySettings(database_url=SecretStr(url), bootstrap_servers=bootstrap)))
        running.append(serving)
        return Traffic(next(serving), bootstrap)

    yield start
    for serving in running:
        next(serving, None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium. Without it the tests are left out, but not in CI.

    For a module only: while Playwright runs, no test of this process can run an event loop of its own.
    """
    if not CHROMIUM.exists():
        missing = "chromium is not installed; as root: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """A page that must not make the browser complain."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    seen = Visit(context.new_page())
    seen.page.set_default_timeout(15_000)
    seen.page.on("console", seen.note)
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    yield seen
    context.close()
    assert seen.complaints == []


@pytest.fixture
def page(visit: Visit) -> Page:
    """The page alone."""
    return visit.page
