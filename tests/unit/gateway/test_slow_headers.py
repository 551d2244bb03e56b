"""A client that sends its request headers slowly, without end, or not at all, does not keep its connection."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

HEADER_SECONDS = "1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Start `tidegate serve` with a header time-out of one second; its address."""
    tmp_path = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tidegate.gateway.cli.main", "serve", "--port", str(port)]
    command += ["--database-url", f"sqlite:///{tmp_path}/registry.db"]
    environment = {"PATH": "/usr/bin:/bin", "TIDEGATE_HEADER_SECONDS": HEADER_SECONDS}
    log = tmp_path / "log"
    with log.open("wb") as stderr, subprocess.Popen(command, stderr=stderr, env=environment) as process:
        try:
            while b"registry_listening" not in log.read_bytes():
                assert process.poll() is None, log.read_text()
            yield "127.0.0.1", port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
    assert b"Traceback" not in log.read_bytes()
    assert b"crashed" not in log.read_bytes()


def read_to_end(client: socket.socket) -> bytes:
    """Read until the server closes; the time-out of the socket fails the test if it does not."""
    with contextlib.suppress(ConnectionResetError):
        return b"".join(iter(lambda: client.recv(65536), b""))
    return b""


def send_slowly(client: socket.socket, data: bytes) -> int:
    """Send byte by byte; return how many were sent before the server closed."""
    client.settimeout(0.1)
    for count in range(len(data)):
        try:
            client.sendall(data[count : count + 1])
            if client.recv(1) == b"":
                return count
        except TimeoutError:
            continue
        except OSError:
            return count
    return len(data)


ENDLESS = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"a" * 50
ASK = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_a_client_that_sends_headers_byte_by_byte_is_cut_off(server: tuple[str, int]) -> None:
    with socket.create_connection(server, timeout=20) as client:
        assert send_slowly(client, ENDLESS) < len(ENDLESS)


def test_a_client_that_sends_nothing_is_cut_off(server: tuple[str, int]) -> None:
    with socket.create_connection(server, timeout=20) as client:
        assert read_to_end(client) == b""


@pytest.mark.full
@pytest.mark.full
def test_the_second_request_of_a_connection_is_cut_off_too(server: tuple[str, int]) -> None:
    with socket.create_connection(server, timeout=20) as client:
        client.sendall(ASK)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        assert send_slowly(client, ENDLESS) < len(ENDLESS)


def test_a_slow_body_is_not_cut_off(server: tuple[str, int]) -> None:
    with socket.create_connection(server, timeout=20) as client:
        client.sendall(b"POST /compatibility HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\n")
        assert send_slowly(client, b"a" * 29) == 29
        client.settimeout(20)
        client.sendall(b"aGET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b"HTTP/1.1 200" in read_to_end(client)


def test_a_client_that_closes_in_mid_body_is_no_crash(server: tuple[str, int]) -> None:
    for end in (socket.SHUT_WR, socket.SHUT_RDWR):
        with socket.create_connection(server, timeout=20) as client:
            client.sendall(
                b"POST /subjects/a-value/versions HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: 900\r\n\r\n{"
            )
            client.shutdown(end)
    with socket.create_connection(server, timeout=20) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = read_to_end(client)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'status="500"' not in answer


def send_without_end(client: socket.socket, piece: bytes) -> int:
    """Send a piece again and again, up to 8 MiB; return how many bytes were sent before the server closed."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < ENOUGH:
            client.sendall(piece)
            sent += len(piece)
    return sent


ENOUGH = 8 * 1024 * 1024
HEADER = b"X-More: " + b"a" * 4000 + b"\r\n"


@pytest.mark.parametrize("piece", [HEADER, b"a" * 4000], ids=["many headers", "one long header"])
def test_headers_without_end_are_refused(server: tuple[str, int], piece: bytes) -> None:
    with socket.create_connection(server, timeout=20) as client:
        client.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-First: ")
        assert send_without_end(client, piece) < ENOUGH


def test_headers_that_are_too_large_are_answered_with_431(server: tuple[str, int]) -> None:
    with socket.create_connection(server, timeout=20) as client:
        client.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n" + HEADER * 17)
        assert read_to_end(client).startswith(b"HTTP/1.1 431 ")


def test_large_headers_and_bodies_below_the_limits_are_taken(server: tuple[str, int]) -> None:
    with socket.create_connection(server, timeout=20) as client:
        client.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n" + HEADER * 14 + b"\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        client.sendall(
            b"POST /compatibility HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400000\r\nConnection: close\r\n\r\n"
            + b"a" * 400_000
        )
        assert not read_to_end(client).startswith(b"HTTP/1.1 431")


def test_trailers_without_end_are_refused(server: tuple[str, int]) -> None:
    with socket.create_connection(server, timeout=20) as client:
        client.sendall(
            b"POST /compatibility HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
        )
        assert send_without_end(client, HEADER) < ENOUGH
