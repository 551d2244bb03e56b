"""Where the issuer's keys come from, and when they are read again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from joserfc.jwk import OctKey, RSAKey
from structlog.testing import capture_logs

from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.gateway.access.tokens import IssuerKeys, read_key_set, reader

FIRST, SECOND = (RSAKey.generate_key(2048, auto_kid=True) for _ in range(2))


def document(*keys: RSAKey) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


class Issuer:
    """Keys that can be read, or cannot, and a clock."""

    def __init__(self) -> None:
        self.content: bytes | None = document(FIRST)
        self.looks = 0
        self.seconds = 0.0
        self.keys = IssuerKeys(self._read, lambda: self.seconds)

    def _read(self) -> bytes:
        self.looks += 1
        if self.content is None:
            raise OSError("away")
        return self.content

    def kids(self) -> set[str | None]:
        return {key.kid for key in self.keys.current()}


def test_keys_are_read_once_an_hour() -> None:
    issuer = Issuer()
    assert issuer.keys.held is None
    assert issuer.kids() == issuer.kids() == {FIRST.kid}
    assert issuer.keys.held is not None
    issuer.content = document(SECOND)
    issuer.seconds = 3599
    assert issuer.kids() == {FIRST.kid}
    issuer.seconds = 3600
    assert issuer.keys.held is None
    assert issuer.kids() == {SECOND.kid}
    assert issuer.looks == 2


def test_a_missing_key_is_looked_for_but_not_more_often_than_every_thirty_seconds() -> None:
    issuer = Issuer()
    held = issuer.keys.current()
    issuer.content = document(FIRST, SECOND)
    for _ in range(100):
        assert issuer.keys.newer(held) is held
    issuer.seconds = 30
    newer = issuer.keys.newer(held)
    assert {key.kid for key in newer} == {FIRST.kid, SECOND.kid}
    assert issuer.keys.newer(held) is newer  # another thread has read the keys meanwhile
    assert issuer.looks == 2


def test_an_outage_keeps_the_known_keys_and_is_logged() -> None:
    issuer = Issuer()
    held = issuer.keys.current()
    issuer.content, issuer.seconds = None, 4000
    with capture_logs() as logs:
        assert issuer.keys.current() is held
    assert [(log["event"], log["serving_older"]) for log in logs] == [("issuer_keys_unread", True)]


def test_without_any_key_the_issuer_does_not_answer_and_is_asked_again_later() -> None:
    issuer = Issuer()
    issuer.content = None
    for _ in range(3):
        with pytest.raises(Unavailable, match="keys of the token issuer cannot be read"):
            issuer.keys.current()
    assert issuer.looks == 1
    issuer.content, issuer.seconds = document(FIRST), 30
    assert issuer.kids() == {FIRST.kid}


def test_secret_keys_are_left_out_of_a_key_set() -> None:
    secret = OctKey.generate_key(256, auto_kid=True)
    content = json.dumps(
        {"keys": [secret.as_dict(private=True), FIRST.as_dict(private=False), {"kty": "new"}]}
    )
    assert [key.kid for key in read_key_set(content.encode())] == [FIRST.kid]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": 1}',
        b'{"keys": []}',
        b'{"keys": [1]}',
        b"\xff",
        b'{"keys":[{"kty":"RSA"}]}',
    ],
)
def test_what_is_no_key_set_is_refused(content: bytes) -> None:
    with pytest.raises(SettingsError, match="not a JWKS document"):
        read_key_set(content)


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "k.json").write_bytes(document(FIRST))
    assert read_key_set(reader(str(tmp_path / "k.json"))())


@pytest.mark.parametrize(
    "address",
    ["http://login.example.org/keys", "ftp://x/y", "file:///etc/passwd", "http://127.0.0.1.example.org/"],
)
def test_keys_are_fetched_over_https_or_from_this_machine(address: str) -> None:
    with pytest.raises(SettingsError, match="fetched over https"):
        reader(address)


@pytest.fixture
def server() -> Iterator[str]:
    """Answers /keys, /moved, /large and nothing else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = {"/keys": document(FIRST), "/large": b" " * (1 << 21)}.get(self.path, b"")
            self.send_response({"/keys": 200, "/large": 200, "/moved": 302}.get(self.path, 404))
            if self.path == "/moved":
                self.send_header("Location", "/keys")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


def test_keys_are_fetched(server: str) -> None:
    assert [key.kid for key in read_key_set(reader(f"{server}/keys")())] == [FIRST.kid]


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/moved", "answers 302"), ("/large", "more than 1048576 bytes"), ("/none", "answers 404")],
)
def test_neither_a_redirection_nor_a_flood_is_followed(server: str, path: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        reader(f"{server}{path}")()


def test_an_issuer_that_does_not_answer_is_an_outage() -> None:
    keys = IssuerKeys(reader("http://127.0.0.1:1/keys"))
    with pytest.raises(Unavailable):
        keys.current()
    with pytest.raises(httpx.HTTPError):
        reader("http://127.0.0.1:1/keys")()
