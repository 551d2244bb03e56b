"""Mutated requests by people of one team to a registry that two teams share, without a network."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final, TextIO
from urllib.parse import quote, unquote_to_bytes, urlencode

import structlog

from tests.fuzz.mutation import mutated
from tests.property.two_teams import (
    BODIES,
    CONFLUENT,
    MARK,
    OPERATIONS_OF_ALL_APIS,
    OURS,
    QUERIES,
    ROLES,
    THEIRS,
    Registry,
)

ANSWER_SECONDS: Final = 5.0
"""The limit of CPU time for one answer; it is not wall time, which depends on other programs."""
_REQUESTS_OF_A_REGISTRY: Final = 5_000
_REQUESTS_OF_AN_INDEX: Final = 100
"""The requests between two runs of the quarantine index, because a request may have started a rebuild."""
_SEEDS: Final = [
    *(json.dumps(body).encode() for body in BODIES),
    *(urlencode(body).encode() for body in BODIES if isinstance(body, dict)),  # forms of the desk
]
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")
_MEDIA_TYPES: Final = (
    b"application/json", CONFLUENT.encode(), b"application/x-ndjson", b"application/yaml", b"application/octet-stream",
    b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x", b"application/json; charset=x", b"\xff",
)  # fmt: skip
_ODD: Final = (
    "", ".", "..", "%00", "%2F", "%2e%2e%2f", "-1", "0", "latest", "9" * 30, "1e9", "%ff", "%F0%9F%98%80", "%E2%80%AE", ":.:", ":*:",
    ":.:%00", "'", '"', "%25", "+", "*", "a" * 5000, "null", "%0d%0aX: y", "{id}", "\u0130",
)  # fmt: skip
_HEADERS: Final = (
    (b"host", b"attacker.example"), (b"host", b""), (b"host", b"\xff"), (b"origin", b"null"), (b"origin", b"http://["),
    (b"sec-fetch-site", b"cross-site"), (b"sec-fetch-site", b"same-origin"), (b"if-none-match", b"*"), (b"if-none-match", b'"\xff'),
    (b"accept", b"text/html"), (b"accept", b"\xff/;q=x"), (b"accept-encoding", b"gzip;q=nan"), (b"content-length", b"-1"),
    (b"content-length", b"9" * 30), (b"content-encoding", b"gzip"), (b"authorization", b"Basic \xff"), (b"authorization", b"Bearer a.b.c"),
    (b"authorization", b"Basic Og=="), (b"x-forwarded-for", b"1.2.3.4"), (b"transfer-encoding", b"chunked"), (b"range", b"bytes=0-"),
)  # fmt: skip


_LEFT_OUT_OF_ADDRESSES: Final = dict.fromkeys(map(ord, "\t\r\n"))
"""Characters that `urlsplit` removes. Source: URL Standard, clause 4.4."""


@dataclass(frozen=True)
class HostileRequest:
    """One request, as a server passes it to the application."""

    role: str | None
    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    content: bytes
    breaks_off: bool

    def text(self) -> str:
        """Return all text of the request, which the answer may repeat."""
        target = unquote_to_bytes(self.target).decode("utf-8", "replace")
        return self.target + target + self.content.decode("utf-8", "replace") + str(self.headers)


def fuzz_requests(chance: Random, rounds: Iterator[int], keep: Path, bootstrap_servers: str) -> int:
    """Send requests until the rounds end; return their number. Raise AssertionError for a wrong answer.

    The status is below 500. An answer takes at most ANSWER_SECONDS of CPU time.
    It contains no data of the other team, and the requests change no rows of that team.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    answers = _Answers()
    with keep.open("w", encoding="utf-8") as kept:
        # The last registry may get no requests, because the rounds have ended.
        while answers.done % _REQUESTS_OF_A_REGISTRY == 0:
            before, registry = answers.done, Registry(bootstrap_servers)
            try:
                # All requests of a registry run in one task, with which the threads of its handlers end.
                asyncio.run(
                    _ask_all(registry, chance, islice(rounds, _REQUESTS_OF_A_REGISTRY), kept, answers)
                )
                registry.assert_the_other_team_is_as_it_was()
            finally:
                registry.close()
            if answers.done == before:
                break
    seconds, request = answers.slowest
    slowest = f"slowest answer: {seconds:.2f} s of the processor, {request}"
    sys.stdout.write(f"{slowest}; statuses: {sorted(answers.statuses.items())}\n")
    return answers.done


@dataclass
class _Answers:
    """The number of requests, the slowest request, and the count of each status."""

    done: int = 0
    slowest: tuple[float, str] = (0.0, "")
    statuses: Counter[int] = field(default_factory=Counter)

    def add(self, request: HostileRequest, status: int, seconds: float) -> None:
        self.done += 1
        self.slowest = max(self.slowest, (seconds, f"{request.method} {request.target[:200]}"))
        self.statuses[status] += 1


async def _ask_all(
    registry: Registry, chance: Random, rounds: Iterator[int], kept: TextIO, answers: _Answers
) -> None:
    stored = ""
    for number in rounds:
        if number % _REQUESTS_OF_AN_INDEX == 0:
            registry.index(OURS, "ours")
        request = _request(chance, registry)
        _keep(kept, request)
        begin = time.process_time()
        status, answer = await _ask(registry, request)
        seconds = time.process_time() - begin
        answers.add(request, status, seconds)
        _check(request, status, answer, seconds, stored)
        assert status < 500, (request, answer)
        if request.method != "GET" and status < 400 and THEIRS in request.text():
            stored = THEIRS


def _keep(kept: TextIO, request: HostileRequest) -> None:
    """Write the current request over the previous one."""
    kept.seek(0)
    kept.write(repr(request))
    kept.truncate()
    kept.flush()


def _check(request: HostileRequest, status: int, answer: bytes, seconds: float, stored: str) -> None:
    """Raise AssertionError for a slow answer, or one with data of the other team that is in neither the request nor `stored`."""
    assert seconds < ANSWER_SECONDS, (request, seconds)
    sent = request.text() + stored
    if 300 <= status < 400:  # `urlsplit` has parsed the address of a redirect
        sent += sent.translate(_LEFT_OUT_OF_ADDRESSES)
    for secret in (MARK, THEIRS):
        assert secret in sent or secret.encode() not in answer, (request, answer)


def _request(chance: Random, registry: Registry) -> HostileRequest:
    method, path = chance.choice(OPERATIONS_OF_ALL_APIS)
    target = chance.choice([*registry.addresses(path, chance.choice((OURS, OURS, THEIRS)))])
    if chance.random() < 0.2:
        parts = target.split("/")
        parts[chance.randrange(len(parts))] = chance.choice(_ODD)
        target = "/" + "/".join(parts).lstrip("/")
    if chance.random() < 0.1:
        target = "/" + quote(mutated(chance, [target.encode()])[:8000], safe="/:%")
    if chance.random() < 0.01:
        target = "*"
    queries = chance.choices(QUERIES, k=chance.choice((0, 0, 1, 2)))
    if chance.random() < 0.2:
        queries += [
            f"{query.partition('=')[0]}={chance.choice(_ODD)}" for query in chance.choices(QUERIES, k=2)
        ]
    if chance.random() < 0.1:
        method = chance.choice(_METHODS)
    content = b"" if method in ("GET", "HEAD", "DELETE") and chance.random() < 0.9 else chance.choice(_SEEDS)
    if content and chance.random() < 0.6:
        content = mutated(chance, _SEEDS)
    own = b"application/json" if path.startswith(("/api/", "/desk")) else CONFLUENT.encode()
    headers = [(b"host", b"localhost")]
    if content:
        headers.append((b"content-type", chance.choice(_MEDIA_TYPES) if chance.random() < 0.1 else own))
    if chance.random() < 0.2:
        headers += chance.choices(_HEADERS, k=2)
    role = None if chance.random() < 0.05 else chance.choice(ROLES)
    query = "&".join(queries)
    return HostileRequest(
        role,
        method,
        f"{target}?{query}" if query else target,
        tuple(headers),
        content,
        breaks_off=bool(content) and chance.random() < 0.02,
    )


async def _ask(registry: Registry, request: HostileRequest) -> tuple[int, bytes]:
    """Call the application as a server does; return status, and headers with body. The status is 0 if the client disconnected."""
    path, _, query = request.target.partition("?")
    headers = list(request.headers)
    if request.role is not None:
        headers.append((b"authorization", registry.people[request.role].encode()))
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote_to_bytes(path).decode("utf-8", "replace"),
        "raw_path": path.encode("utf-8", "replace"),
        "query_string": query.encode("utf-8", "replace"),
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 4711),
        "server": ("127.0.0.1", 8081),
    }
    messages = [{"type": "http.request", "body": request.content, "more_body": request.breaks_off}]
    status, parts = 0, bytearray()

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = int(message["status"])
            parts.extend(repr(message["headers"]).encode())
        elif message["type"] == "http.response.body":
            parts.extend(message.get("body", b""))

    await registry.application(scope, receive, send)
    return status, bytes(parts)
