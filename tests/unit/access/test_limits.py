"""Limits of the rate and the size of requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute

from tidegate.gateway.access.limits import CheckTurns, RateLimit
from tidegate.gateway.access.principal import ANONYMOUS, Principal, TooManyRequests, read_grants
from tidegate.gateway.settings import GatewaySettings

from .conftest import Hire
from .test_hosts import BY_ID, REPORTS

CONTRACTS = "/api/v1/contracts"
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def allowed(limit: RateLimit, who: str, times: int) -> int:
    counted = 0
    with contextlib.suppress(TooManyRequests):
        for _ in range(times):
            limit.count(who)
            counted += 1
    return counted


def test_each_who_asks_is_counted_alone() -> None:
    limit = RateLimit("3/hour")
    assert [allowed(limit, who, 10) for who in ("key:a", "key:b", "key:a")] == [3, 3, 0]


def test_of_several_limits_each_holds() -> None:
    assert allowed(RateLimit("100/second; 5/hour"), "key:a", 10) == 5
    assert allowed(RateLimit("2/hour; 5/hour"), "key:a", 10) == 2


def test_a_refusal_says_when_to_ask_again() -> None:
    limit = RateLimit("1/hour")
    limit.count("key:a")
    with pytest.raises(
        TooManyRequests, match=r"^more than 1 requests in 3600 seconds; try again in \d+ s$"
    ) as raised:
        limit.count("key:a")
    assert 1 <= int(raised.value.headers["Retry-After"]) <= 7200


class TestTurns:
    """Two checks run at once and four wait: an attacker with a key sends slow ones without end."""

    ATTACKER = Principal("key:a", read_grants(["viewer:a."]))
    OTHER = Principal("key:b", read_grants(["producer:b."]))

    @staticmethod
    def run(*asked: Principal) -> tuple[list[str], list[str]]:
        """Ask for a turn for each, in this order; return who was refused, and who ended, in that order."""
        refused: list[str] = []
        ended: list[str] = []
        is_over = threading.Event()

        def work(by: Principal) -> None:
            if by is TestTurns.ATTACKER:
                assert is_over.wait(timeout=30)
            ended.append(by.name)

        async def ask(turns: CheckTurns, by: Principal) -> None:
            try:
                await turns.run(by, work, by)
            except TooManyRequests:
                refused.append(by.name)
            if by is not TestTurns.ATTACKER:
                is_over.set()

        async def all_of_them() -> None:
            turns = CheckTurns(2, 4)
            await asyncio.gather(*(ask(turns, each) for each in asked))
            assert await turns.run(TestTurns.OTHER, str, 7) == "7"  # everything was given back

        asyncio.run(all_of_them())
        return refused, ended

    def test_one_principal_keeps_no_other_from_its_turn(self) -> None:
        refused, ended = self.run(*[self.ATTACKER] * 10, self.OTHER)
        assert refused == ["key:a"] * 7
        assert ended == ["key:b", *["key:a"] * 3]

    def test_without_access_control_all_are_one_and_have_every_place(self) -> None:
        refused, ended = self.run(*[ANONYMOUS] * 10)
        assert (len(refused), len(ended)) == (4, 6)


@only_sqlite
class TestOverHttp:
    @pytest.fixture
    def settings(self, settings: GatewaySettings) -> GatewaySettings:
        return settings.model_copy(update={"rate_limit": "3/hour"})

    def test_the_fourth_request_is_refused_in_the_form_of_each_api(self, hire: Hire) -> None:
        forms = {
            CONTRACTS: "application/problem+json",
            "/subjects": "application/vnd.schemaregistry.v1+json",
            "/desk": "text/html; charset=utf-8",
        }
        for path, media_type in forms.items():
            person = hire("viewer")
            assert [person.ask("GET", path).status_code for _ in range(4)] == [200, 200, 200, 429]
            answer = person.ask("GET", path)
            assert answer.headers["content-type"] == media_type
            assert int(answer.headers["retry-after"]) >= 1
            if path == "/subjects":
                assert answer.json()["error_code"] == 429

    def test_a_principal_is_counted_over_both_apis_and_alone(self, hire: Hire) -> None:
        one, other = hire("viewer"), hire("viewer")
        statuses = [
            one.ask("GET", path).status_code for path in (CONTRACTS, "/subjects", "/desk", "/subjects")
        ]
        assert statuses == [200, 200, 200, 429]
        assert other.ask("GET", "/subjects").status_code == 200

    def test_schemas_by_id_and_reports_of_jobs_are_never_told_to_wait(self, hire: Hire) -> None:
        job = hire("reporter", "viewer")
        asked = [job.ask("GET", path).status_code for path in (*BY_ID, *BY_ID)]
        asked += [job.ask("POST", path, {}).status_code for path in REPORTS for _ in range(2)]
        assert 429 not in asked
        assert [job.ask("GET", "/subjects").status_code for _ in range(4)] == [200, 200, 200, 429]

    def test_who_sends_wrong_credentials_is_counted_by_address(self, client: Any, hire: Hire) -> None:
        statuses = [client.get(CONTRACTS, auth=("nobody", str(n))).status_code for n in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        assert hire("viewer").ask("GET", CONTRACTS).status_code == 200

    def test_health_checks_are_never_rate_limited(self, client: Any) -> None:
        assert {client.get("/health/live").status_code for _ in range(10)} == {200}
        assert [client.get("/docs").status_code for _ in range(4)] == [200, 200, 200, 429]


@only_sqlite
class TestSize:
    @pytest.fixture
    def settings(self, settings: GatewaySettings) -> GatewaySettings:
        return settings.model_copy(update={"max_document_bytes": 2000})

    def test_a_schema_above_the_limit_is_refused_with_the_number_that_clients_know(self, admin: Any) -> None:
        body = json.dumps({"schema": "x" * 2000})
        answer = admin.ask("POST", "/subjects/a-value/versions", body.encode())
        assert (answer.status_code, answer.json()["error_code"]) == (422, 42209)

    def test_a_flood_is_cut_off(self, admin: Any) -> None:
        answer = admin.ask("POST", "/subjects/a-value/versions", b"x" * 5000)
        assert (answer.status_code, answer.json()["error_code"]) == (413, 413)
        assert admin.ask("POST", CONTRACTS, b"x" * 2001).status_code == 413

    def test_every_body_is_read_up_to_a_limit(self, admin: Any, make_contract: Any) -> None:
        """The framework reads a body that is declared as a model without one, and before who asks is permitted."""
        routes = [each for each in admin.client.app.routes if isinstance(each, APIRoute)]
        assert [each.path for each in routes if each.body_field is not None] == []
        assert admin.ask("POST", CONTRACTS, make_contract()).status_code == 201
        pause = "/api/v1/streams/hospital.admissions/pause"
        assert admin.ask("POST", pause, b" " * 2001 + b"{}").status_code == 413
        assert admin.ask("POST", pause, b"{}", "text/plain").status_code == 415
        assert admin.ask("POST", pause, {"reason": ""}).status_code == 422
        assert admin.ask("POST", pause, {}).status_code == 200

    def test_somebody_unknown_is_turned_away_before_their_body_is_read(self, client: Any) -> None:
        answer = client.request("POST", CONTRACTS, content=_unread())
        assert answer.status_code == 401


async def _unread() -> Any:
    raise AssertionError("the body was read")
    yield b""


@pytest.fixture
def trap() -> Iterator[socket.socket]:
    """A socket that must not get a connection."""
    with socket.create_server(("127.0.0.1", 0), backlog=5) as listening:
        listening.setblocking(False)
        yield listening


def test_the_trap_would_notice(trap: socket.socket) -> None:
    with socket.create_connection(trap.getsockname()):
        trap.accept()[0].close()


@only_sqlite
class TestNoFetching:
    """A reference in a posted document makes no connection, neither from Python nor from a native library."""

    def url(self, trap: socket.socket) -> str:
        return f"http://127.0.0.1:{trap.getsockname()[1]}/schema.json"

    def assert_untouched(self, trap: socket.socket) -> None:
        with pytest.raises(BlockingIOError):
            trap.accept()

    @pytest.mark.parametrize("keyword", ["$ref", "$schema", "$id", "$dynamicRef"])
    def test_a_contract(self, admin: Any, make_contract: Any, trap: socket.socket, keyword: str) -> None:
        document = json.loads(make_contract())
        definition = document["schema"]["definition"]
        where = definition["properties"]["age"] if keyword in {"$ref", "$dynamicRef"} else definition
        where[keyword] = self.url(trap)
        answer = admin.ask("POST", CONTRACTS, document)
        assert answer.status_code in {201, 422}
        if answer.status_code == 201:
            judged = admin.ask(
                "POST", f"{CONTRACTS}/hospital.admissions/versions/latest/judge",
                b'{"admission_id": "A", "age": 1}', "application/x-ndjson",
            )  # fmt: skip
            assert judged.status_code == 200
        self.assert_untouched(trap)

    @pytest.mark.parametrize("keyword", ["$ref", "$schema", "$id"])
    @pytest.mark.parametrize("normalize", ["false", "true"])
    def test_a_schema_of_the_confluent_api(
        self, admin: Any, trap: socket.socket, keyword: str, normalize: str
    ) -> None:
        schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
        where = schema["properties"]["a"] if keyword == "$ref" else schema
        where[keyword] = self.url(trap)
        body = {"schema": json.dumps(schema), "schemaType": "JSON"}
        for path in (
            "/subjects/a-value/versions",
            "/compatibility/subjects/a-value/versions/latest",
            "/subjects/a-value",
        ):
            answer = admin.ask("POST", f"{path}?normalize={normalize}&verbose=true", body)
            assert answer.status_code < 500, answer.text
        self.assert_untouched(trap)
