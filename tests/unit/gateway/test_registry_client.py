"""What the client makes of answers; the registry itself answers in the integration tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tidegate.contracts.document.load import LoadedContract, parse_contract
from tidegate.contracts.errors import CredentialsError, SettingsError, Unavailable
from tidegate.gateway.client.credentials import RegistryCredentials
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.http.models.examples import CONTRACT_YAML


@pytest.fixture
def loaded() -> LoadedContract:
    return parse_contract(CONTRACT_YAML, name="contract.yaml", read_schema=None)


@pytest.fixture
def answer(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that answers everything alike; its address."""
    status, body = request.param

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (
            (503, b'{"detail": "the database is busy"}'),
            Unavailable,
            r"^the registry at \S+ failed \(503\): the database is busy$",
        ),
        ((502, b"<html>"), Unavailable, r"^the registry at \S+ failed \(502\): Bad Gateway$"),
        ((404, b"no JSON"), SettingsError, r"^\S+ answers 404 \(Not Found\); is it a Tidegate registry\?$"),
        ((422, b"[]"), SettingsError, r"^the registry at \S+ refuses the request: Unprocessable Entity$"),
        (
            (401, b"{}"),
            CredentialsError,
            r"^the registry at \S+ requires authentication\. Store a key or token with `tidegate login",
        ),
        ((403, b'{"detail": "not you"}'), CredentialsError, r"^the registry at \S+ refuses: not you$"),
        ((429, b'{"detail": "later"}'), Unavailable, r"refuses further requests for now: later$"),
    ],
    indirect=["answer"],
)
def test_answers_become_errors_that_say_what_to_do(
    answer: str, kind: type[Exception], message: str, loaded: LoadedContract
) -> None:
    with RegistryClient(answer) as client, pytest.raises(kind, match=message):
        client.publish(loaded)


@pytest.mark.parametrize("url", ["registry", "ftp://registry", "http://x:port"])
def test_an_address_that_is_none_is_a_wrong_setting(url: str, loaded: LoadedContract) -> None:
    with pytest.raises(SettingsError, match="is not the URL of a registry"), RegistryClient(url) as client:
        client.publish(loaded)


@pytest.mark.parametrize(
    ("environment", "header"),
    [
        ({}, None),
        ({"USER": "id", "PASSWORD": "secret"}, "Basic aWQ6c2VjcmV0"),
        ({"TOKEN": "tgk_x"}, "Bearer tgk_x"),
        ({"USER": "", "PASSWORD": "", "TOKEN": ""}, None),
    ],
)
def test_the_credentials_of_the_environment_are_sent(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], header: str | None
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"TIDEGATE_REGISTRY_{name}", value)
    auth = RegistryCredentials.of_environment().auth()
    request = httpx.Request("GET", "http://registry")
    sent = auth(request) if auth else request
    assert sent.headers.get("Authorization") == header
    assert "secret" not in repr(RegistryCredentials.of_environment())


@pytest.mark.parametrize(
    "environment", [{"USER": "id"}, {"PASSWORD": "s"}, {"USER": "id", "PASSWORD": "s", "TOKEN": "t"}]
)
def test_credentials_that_do_not_fit_are_a_wrong_setting(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"TIDEGATE_REGISTRY_{name}", value)
    with pytest.raises(SettingsError, match="TIDEGATE_REGISTRY_USER, _PASSWORD and _TOKEN do not fit"):
        RegistryClient("http://registry")
