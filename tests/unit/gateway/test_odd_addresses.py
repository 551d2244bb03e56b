"""Addresses that name nothing that could be: the same answer on every database, and never a failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.http.models.examples import REPORT

NUL = (
    "/api/v1/contracts/%00",
    "/api/v1/contracts/a%00b/versions/1.0.0",
    "/api/v1/contracts/a/versions/%00",
    "/api/v1/contracts/%00/consumers",
    "/api/v1/contracts?topic=%00",
    "/api/v1/contracts?domain=%00",
    "/api/v1/streams/%00",
    "/api/v1/streams/%00/batches",
    "/api/v1/audit?subject=%00",
    "/subjects/%00/versions",
    "/subjects?subjectPrefix=%00",
    "/schemas?subjectPrefix=%00",
    "/schemas/guids/%00",
    "/config/%00",
    "/contexts/%00/subjects",
    "/associations/resources/%00",
    "/associations/resources/%00/%00",
)
NOWHERE = (
    "/api/v1/contracts/by-registry-id/2147483648",
    "/api/v1/contracts/by-registry-id/9223372036854775807",
    "/api/v1/contracts/%ff",
    "/api/v1/contracts/%ED%A0%80",
    "/api/v1/contracts/" + "x" * 5000,
    "/schemas/ids/2147483648",
    "/schemas/ids/99999999999999999999",
)


def test_an_address_with_a_nul_is_refused(client: Any) -> None:
    assert {path: client.get(path).status_code for path in NUL} == dict.fromkeys(NUL, 422)


def test_the_desk_says_so_on_a_page(client: Any) -> None:
    for path in ("/desk/contracts/%00", "/desk/streams/%00"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (422, "text/html; charset=utf-8")


def test_a_number_or_name_that_nothing_has_is_not_found(client: Any) -> None:
    assert {path: client.get(path).status_code for path in NOWHERE} == dict.fromkeys(NOWHERE, 404)


@pytest.mark.parametrize("method", ["OPTIONS", "GET", "POST"])
def test_a_request_for_no_path_is_not_found(factory: Factory, method: str) -> None:
    """httptools passes on `*` for every method."""
    status = 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    scope = {
        "type": "http",
        "method": method,
        "path": "*",
        "raw_path": b"*",
        "query_string": b"",
        "headers": [],
    }
    asyncio.run(create_app(factory)(scope, receive, send))
    assert status == 404


def test_a_document_with_a_nul_is_refused_and_not_kept(
    client: Any, factory: Factory, make_contract: Any
) -> None:
    answer = client.post("/api/v1/contracts", make_contract(domain="a\0b"))
    assert answer.status_code == 422
    assert factory.audit().page(0, 10).entries == ()


def test_a_text_of_a_contract_cannot_turn_its_page_around(
    client: Any, make_contract: Callable[..., bytes]
) -> None:
    client.post(
        "/api/v1/contracts", make_contract(description="paid \u202edetcejer\u3164")
    ).raise_for_status()
    page = client.get("/desk/contracts/hospital.admissions").text
    assert r"paid \u202edetcejer\u3164" in page
    assert "\u202e" not in page


@pytest.mark.parametrize("moment", [
    "0001-01-01", "0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59", "9999-12-31T23:59:59-14:00",
])  # fmt: skip
def test_a_page_of_a_moment_at_an_end_of_the_calendar_shows_its_usual_span(
    client: Any, make_contract: Callable[..., bytes], moment: str
) -> None:
    client.post("/api/v1/contracts", make_contract()).raise_for_status()
    client.post("/api/v1/streams/hospital.admissions/batches", json.dumps(REPORT)).raise_for_status()
    stream = "/desk/streams/hospital.admissions"
    paths = (stream, f"{stream}/problems", f"{stream}/quarantine", "/desk/problems")
    addresses = [f"{path}?{name}={moment}" for path in paths for name in ("from", "to")]
    assert {each: client.get(each).status_code for each in addresses} == dict.fromkeys(addresses, 200)
