"""Traces from the job through the registry, as a receiver of OTLP on loopback gets them from both processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.enforce.conftest import publish_to
from tests.integration.enforce.job import RunningJob
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.registry import Registry
from tests.otlp_receiver import Receiver, receiving


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver of traces, known to the processes that a test starts."""
    with receiving() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


@pytest.fixture
def traced(receiver: Receiver, tmp_path: Path) -> Iterator[Registry]:  # noqa: ARG001 - it sets the variable
    """A registry that exports its spans."""
    found = Registry(tmp_path, 0)
    yield found
    found.stop()


@pytest.mark.full  # starts a job; tests/unit/spark_jobs/test_tracing.py has the spans of a batch without one
def test_the_report_of_a_batch_belongs_to_its_trace(
    line: Line, receiver: Receiver, traced: Registry, start: Callable[..., RunningJob]
) -> None:
    publish_to(traced, line.document())
    line.produce(row(0), row(1, 999))
    job = start(traced.url, [line])
    job.await_event("batch_published")
    assert job.stop(signal.SIGTERM) == 0
    traced.stop()
    report = "POST /api/v1/streams/{stream}/batches"
    control = "GET /api/v1/streams/{stream}/control"
    spans = receiver.await_spans("stream start", "batch", "judge", "decide", "publish", report, control)
    (batch,) = [each for each in spans if each.name == "batch"]
    below = [each for each in spans if each.trace_id == batch.trace_id and each is not batch]
    assert {each.parent_id for each in below} == {batch.span_id}
    assert {"contract", "judge", "decide", "quarantine", "publish", report, control} <= {
        each.name for each in below
    }
    assert {each.service for each in below} == {"tidegate-job", "tidegate-registry"}
    assert batch.attributes == {
        "tidegate.stream": line.contract_id,
        "tidegate.contract": f"{line.contract_id}@1.0.0",
        "tidegate.epoch": 1,
        "tidegate.batch": 1,
        "tidegate.records": 2,
        "tidegate.written": 1,
        "tidegate.quarantined": 1,
        "tidegate.dropped": 0,
    }
    assert "999" not in repr([(each.name, each.attributes) for each in spans])
