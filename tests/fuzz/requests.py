"""Changed requests by people of one team to a registry that two teams share, without a network in between."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import structlog

from tests.fuzz.mutation import mutated
from tests.property.two_teams import (
    BODIES,
    CONFLUENT,
    MARK,
    NO_BROKER,
    OPERATIONS_OF_ALL_APIS,
    OURS,
    QUERIES,
    ROLES,
    THEIRS,
    Registry,
    addresses,
)

ANSWER_SECONDS: Final = 5.0
"""Longest that one answer may take, in time of the processor: other programs must not fail a run."""
_REQUESTS_OF_A_REGISTRY: Final = 2_000
_SEEDS: Final = [json.dumps(body).encode() for body in BODIES]
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
"""Characters that `urlsplit` leaves out. Source: URL Standard, clause 4.4."""


@dataclass(frozen=True)
class HostileRequest:
    """One request, as a server passes it on."""

    role: str | None
    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    content: bytes
    breaks_off: bool

    def text(self) -> str:
        """Return everything that an answer may repeat."""
        target = unquote_to_bytes(self.target).decode("utf-8", "replace")
        sent = self.target + target + self.content.decode("utf-8", "replace") + str(self.headers)
        return sent + sent.translate(_LEFT_OUT_OF_ADDRESSES)


def fuzz_requests(chance: Random, rounds: Iterator[int], keep: Path) -> int:
    """Ask until the rounds end; return how many requests. Raises AssertionError for an answer that must not be.

    Each answer is below 500, takes at most ANSWER_SECONDS, and has nothing of the other team, whose rows stay as they are.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    done, worst = 0, (0.0, "")
    statuses: Counter[int] = Counter()
    registry, stored = Registry(), ""
    try:
        for number in rounds:
            if number and number % _REQUESTS_OF_A_REGISTRY == 0:
                registry.assert_the_other_team_is_as_it_was()
                registry.close()
                registry, stored = Registry(), ""
            request = _request(chance)
            keep.write_text(repr(request), encoding="utf-8")
            begin = time.process_time()
            status, answer = asyncio.run(_ask(registry, request))
            seconds = time.process_time() - begin
            worst = max(worst, (seconds, f"{request.method} {request.target[:200]}"))
            statuses[status] += 1
            _check(request, status, answer, seconds, stored)
            if request.method != "GET" and status < 400 and THEIRS in request.text():
                stored = THEIRS
            done = number + 1
        registry.assert_the_other_team_is_as_it_was()
    finally:
        registry.close()
    slowest = f"slowest answer: {worst[0]:.2f} s of the processor, {worst[1]}"
    sys.stdout.write(f"{slowest}; statuses: {sorted(statuses.items())}\n")
    return done


def _check(request: HostileRequest, status: int, answer: bytes, seconds: float, stored: str) -> None:
    """Raise AssertionError for a wrong answer; `stored` is a text that an earlier request stored as its own."""
    # Without a broker, a record of a topic is not to be had.
    is_outage = status == 503 and (
        request.target.startswith("/desk/records/") or NO_BROKER.encode() in answer
    )
    assert status < 500 or is_outage, (request, answer)
    assert seconds < ANSWER_SECONDS, (request, seconds)
    sent = request.text() + stored
    for secret in (MARK, THEIRS):
        assert secret in sent or secret.encode() not in answer, (request, answer)


def _request(chance: Random) -> HostileRequest:
    method, path = chance.choice(OPERATIONS_OF_ALL_APIS)
    target = chance.choice([*addresses(path, chance.choice((OURS, OURS, THEIRS)))])
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
    if method != "GET":  # a write may store what it says, and a later answer shows it
        target, content = target.replace(MARK, "ours"), content.replace(MARK.encode(), b"ours")
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
    """Ask as a server would; return status and body, or 0 without an answer to a client that has gone."""
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
