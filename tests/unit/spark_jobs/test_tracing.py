"""Spans of a job: one trace for each batch, which the requests of its threads name."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from structlog.testing import capture_logs

from tests.otlp_receiver import Receiver, receiving
from tidegate.spark_jobs.steps import Step, Stopwatch, ignore_steps
from tidegate.spark_jobs.tracing import NO_TRACE, NoTracer, open_tracer

STREAM = {"tidegate.stream": "hospital.admissions"}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


def test_a_batch_is_a_span_with_its_steps_over_two_threads(receiver: Receiver) -> None:
    tracer = open_tracer()
    sent: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("traceparent"))
        return httpx.Response(200)

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://registry") as client:
        tracer.follow(client)
        before = time.time_ns()
        trace = tracer.begin("batch", STREAM)
        watch = Stopwatch("hospital.admissions", ignore_steps, trace)
        with trace.current(), watch(Step.CONTRACT):
            client.get("/control")

        def write() -> str | None:
            with watch(Step.PUBLISH):
                pass
            with trace.current():
                return tracer.traceparent()

        with ThreadPoolExecutor(1) as writer:
            told = writer.submit(write).result()
        trace.end({"tidegate.records": 7})
        trace.fail(RuntimeError("too late to count"))
        client.get("/heartbeat")
        client.get("/report", headers={"traceparent": told or ""})
    tracer.close()

    spans = {each.name: each for each in receiver.await_spans("batch", "contract", "publish")}
    batch = spans["batch"]
    context = f"00-{batch.trace_id}-{batch.span_id}-"  # the flags that follow are the library's
    assert [each and each.startswith(context) for each in sent] == [True, None, True]
    assert {spans[name].parent_id for name in ("contract", "publish")} == {batch.span_id}
    assert batch.parent_id == ""
    assert (batch.service, batch.is_error) == ("tidegate-job", False)
    assert batch.attributes == {**STREAM, "tidegate.records": 7}
    assert (
        before <= batch.began <= spans["contract"].began <= spans["contract"].ended <= spans["publish"].began
    )
    assert spans["publish"].ended <= batch.ended


def test_a_failed_batch_names_the_class_of_its_error_alone(receiver: Receiver) -> None:
    tracer = open_tracer()
    trace = tracer.begin("batch", STREAM)
    trace.fail(ValueError("the value 4711"))
    tracer.close()
    (span,) = receiver.await_spans("batch")
    assert (span.is_error, span.attributes) == (True, {**STREAM, "error.type": "ValueError"})


def test_a_receiver_that_does_not_answer_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    tracer = open_tracer()
    tracer.begin("batch", STREAM).end({})
    tracer.close()


def test_without_the_variables_nothing_of_opentelemetry_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    tracer = open_tracer()
    assert isinstance(tracer, NoTracer)
    assert tracer.begin("batch", STREAM) is NO_TRACE
    with NO_TRACE.current():
        assert tracer.traceparent() is None
    assert [name for name in sys.modules if name.startswith("opentelemetry")] == []


def test_without_the_extra_the_job_runs_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with capture_logs() as logs:
        assert isinstance(open_tracer(), NoTracer)
    assert "pip install 'tidegate[otel]'" in logs[0]["reason"]
