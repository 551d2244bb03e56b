"""Reconciliations that are requested from the gateway: the job that enforces the stream runs them, and the stream's page shows the result."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import httpx
import pytest
from psycopg import sql

from tests.integration.enforce.job import Publish, RunningJob
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.running import eventually
from tidegate.contracts.stream.reconciliation import Findings, StreamReconciliation

_AT_ONCE = 40
_KEYS = 97


class Asking:
    """Asks the gateway for reconciliations, and waits for what the job finds."""

    def __init__(self, registry_url: str) -> None:
        self._url = registry_url

    def ask(self, line: Line) -> StreamReconciliation:
        answer = httpx.post(self._path(line)).raise_for_status()
        return StreamReconciliation.model_validate_json(answer.content)

    def findings(self, line: Line) -> Findings:
        eventually(lambda: not self._last(line).is_open)
        result = self._last(line).result
        assert result is not None
        assert result.findings is not None, result.failure
        return result.findings

    def _last(self, line: Line) -> StreamReconciliation:
        answer = httpx.get(self._path(line)).raise_for_status()
        return StreamReconciliation.model_validate(answer.json()["reconciliations"][0])

    def _path(self, line: Line) -> str:
        return f"{self._url}/api/v1/streams/{line.contract_id}/reconciliations"


@pytest.fixture
def asking(registry: Registry) -> Asking:
    return Asking(registry.url)


@contextmanager
def records_coming(line: Line) -> Iterator[None]:
    """Produce all the time, some records that break the contract among them."""
    ended = Event()

    def produce() -> None:
        number = 0
        while not ended.is_set():
            batch = range(number, number + _AT_ONCE)
            line.produce(*(row(n % _KEYS, 999 if n % 5 == 0 else 1) for n in batch))
            number += _AT_ONCE

    producing = Thread(target=produce)
    producing.start()
    try:
        yield
    finally:
        ended.set()
        producing.join()


@pytest.mark.full
@pytest.mark.parametrize(
    "settings",
    [
        {"sink": "iceberg"},
        {"sink": "kafka"},
        {"sink": "iceberg", "write_mode": "upsert"},
        {"sink": "delta"},
        {"sink": "delta", "write_mode": "upsert"},
        {"sink": "postgresql"},
        {"sink": "postgresql", "write_mode": "upsert"},
    ],
    ids=lambda settings: "-".join(settings.values()),
)
def test_a_stream_holds_while_records_keep_coming(
    make_line: Callable[..., Line],
    registry: Registry,
    publish: Publish,
    start: Callable[..., RunningJob],
    asking: Asking,
    settings: dict[str, str],
) -> None:
    line = make_line(**settings, heartbeat_seconds=0.5)  # the second request goes with a heartbeat in between
    publish(line.document(primary_key=["id"]))
    line.contracts.plan = line.plan(primary_key=["id"])
    job = start(registry.url, [line], "--max-offsets", str(_AT_ONCE), "--trigger-seconds", "0")
    with records_coming(line):
        job.await_event("batch_published")
        found = []
        for _ in range(2):
            asking.ask(line)
            found.append(asking.findings(line))
        # It did not stand still: batches were published after what was looked at.
        job.await_event("batch_published", n=found[-1].n + 1)
    assert job.stop(signal.SIGTERM) == 0
    job.await_event("stream_ended")
    for each in found:
        assert each.holds, each
        assert (each.lost, each.twice, each.unverifiable) == (0, 0, 0)
        offsets = sum(each.end.values())
        assert offsets > 0
        assert each.written + each.quarantined + each.dropped_superseded_or_deleted + each.absent == offsets
    assert found[0].n < found[1].n
    assert line.reconcile().holds


@pytest.mark.full
def test_the_page_names_what_somebody_has_taken_away_or_added_also_of_a_paused_stream(
    make_line: Callable[..., Line],
    registry: Registry,
    publish: Publish,
    start: Callable[..., RunningJob],
    asking: Asking,
) -> None:
    line = make_line(sink="postgresql")
    publish(line.document())
    line.produce(*(row(n, 999 if n == 3 else 1) for n in range(8)))
    line.enforce()
    stream = f"{registry.url}/api/v1/streams/{line.contract_id}"
    for report in line.reports:  # as a job reports them
        body = report.model_dump_json()
        headers = {"Content-Type": "application/json"}
        httpx.post(f"{stream}/batches", content=body, headers=headers).raise_for_status()
    ledger = line.ledger()
    with line.database() as connection:
        table = sql.Identifier(*line.contract_id.split("."))
        taken = sql.SQL("DELETE FROM {} WHERE _source_partition = 0 AND _source_offset = 2").format(table)
        again = "INSERT INTO {0} SELECT * FROM {0} WHERE _source_partition = 1 AND _source_offset = 0"
        connection.execute(taken)
        connection.execute(sql.SQL(again).format(table))
    httpx.post(f"{stream}/pause", json={}).raise_for_status()
    asked = asking.ask(line)  # no job runs: the next one takes it
    assert asking.ask(line) == asked
    job = start(registry.url, [line])
    job.await_event("stream_paused")
    found = asking.findings(line)
    assert (found.holds, found.lost, found.twice) == (False, 1, 1)
    # The start of the job has claimed the ledger once, to count the pause.
    assert (found.epoch, found.n, found.end) == (ledger.epoch + 1, ledger.n, ledger.end)
    assert found.records.model_dump(exclude_none=True) == {
        "in_no_output": {"count": 1, "first": ("0/2",)},
        "written_twice": {"count": 1, "first": ("1/0",)},
    }
    page = httpx.get(f"{registry.url}/desk/streams/{line.contract_id}").text
    assert "1 record is lost and 1 record is there twice" in page
    assert "0/2" in page
    assert "1/0" in page
    secrets = [line.settings.postgresql_url.get_secret_value()] if line.settings.postgresql_url else []
    told = "".join([*job.lines, page])
    assert not [secret for secret in secrets if secret in told]
    assert job.stop(signal.SIGTERM) == 0
