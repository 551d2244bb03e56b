"""Spans of requests, as a receiver of OTLP on loopback gets them; and none without the variables."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from structlog.testing import capture_logs

from tests.otlp_receiver import Receiver, receiving
from tests.unit.cli.conftest import CONTRACT, listening
from tidegate.contracts.tracing import are_traces_wanted
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.http.tracing import RequestSpans, open_provider

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        monkeypatch.setenv(ENDPOINT, found.url)
        yield found


@ON_SQLITE
def test_each_request_is_a_span_below_that_of_its_client(receiver: Receiver, factory: Factory) -> None:
    factory.registry().publish(CONTRACT.encode(), "contract.yaml")
    with listening(factory) as url:
        with httpx.Client(base_url=url, headers={"traceparent": PARENT}) as client:
            assert client.get("/api/v1/contracts/hospital.admissions?secret=1").status_code == 200
            assert client.get("/api/v1/contracts/unknown").status_code == 404
            assert client.get("/subjects/hospital.admissions-value/versions").status_code == 200
            assert client.get("/no/such/page").status_code == 404
        httpx.post(f"{url}/api/v1/streams/hospital.admissions/pause", json={})
    spans = receiver.await_spans("POST /api/v1/streams/{stream}/pause")  # all: its end exports what is left
    assert [(each.name, each.attributes["http.response.status_code"]) for each in spans] == [
        ("GET /api/v1/contracts/{contract_id}", 200),
        ("GET /api/v1/contracts/{contract_id}", 404),
        ("GET /subjects/{subject}/versions", 200),
        ("GET", 404),
        ("POST /api/v1/streams/{stream}/pause", 200),
    ]
    assert {each.service for each in spans} == {"tidegate-registry"}
    assert {each.trace_id for each in spans[:4]} == {PARENT.split("-")[1]}
    assert {each.parent_id for each in spans[:4]} == {PARENT.split("-")[2]}
    assert spans[4].parent_id == ""
    assert all(
        each.attributes.keys()
        <= {"http.request.method", "http.route", "http.response.status_code", "url.scheme"}
        for each in spans
    )


def test_a_handler_that_fails_is_an_error_without_its_message(receiver: Receiver) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("the value 4711")

    provider = open_provider()
    assert provider is not None
    scope = {"type": "http", "method": "BREW", "path": "/4711", "headers": [], "query_string": b"4711"}
    with pytest.raises(RuntimeError, match="4711"):
        asyncio.run(RequestSpans(fail, provider)(scope, fail, fail))
    provider.shutdown()
    (span,) = receiver.await_spans("_OTHER")
    assert (span.is_error, span.attributes["error.type"]) == (True, "RuntimeError")
    assert "4711" not in repr(span)


@ON_SQLITE
def test_without_the_variables_no_request_passes_through_it(factory: Factory) -> None:
    assert RequestSpans not in [each.cls for each in create_app(factory).user_middleware]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({ENDPOINT: ""}, False),
        ({ENDPOINT: "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({ENDPOINT: "http://c", "OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({ENDPOINT: "http://c", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({ENDPOINT: "http://c", "OTEL_SDK_DISABLED": "true"}, False),
        ({ENDPOINT: "http://c", "OTEL_SDK_DISABLED": "false"}, True),
        ({"OTEL_SERVICE_NAME": "x"}, False),
    ],
)
def test_the_standard_variables_decide(environment: dict[str, str], *, expected: bool) -> None:
    assert are_traces_wanted(environment) is expected


def test_another_protocol_is_refused_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, "http://collector:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with capture_logs() as logs:
        assert open_provider() is None
    assert logs[0]["event"] == "traces_off"
    assert "http/protobuf" in logs[0]["reason"]
