"""What `tidegate replay` and `tidegate discard` show of refused records, and what they do without a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.faults import Publish
from tests.integration.enforce.line import Line, environment, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.replaying import MENDED, fill, line_of, previewed, refusals, sent_back
from tests.marks import full
from tidegate.contracts.stream.replay import ReplayAction
from tidegate.gateway.embedded.jars import Jars
from tidegate.spark_jobs.adopt import replay_preview


@pytest.fixture
def line(make_line: Callable[..., Line], request: pytest.FixtureRequest) -> Line:
    """A line into the sink of the parameter, or into an Iceberg table."""
    return line_of(make_line, request)


@pytest.mark.parametrize(
    "sink",
    ["iceberg", *full("delta", "postgresql", "iceberg-upsert", "delta-upsert", "postgresql-upsert")],
)
def test_a_preview_counts_records_whose_primary_key_is_in_the_table(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    registry: Registry,
    publish: Publish,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of those keys has two records; of another key the table has one of both columns."""
    publish(line.document(primary_key=["id", "amount"]))
    line.contracts.plan = line.plan(primary_key=["id", "amount"])
    line.produce(row(0), row(1), row(2, 2), row(3, id="r|'\\"), row(0, 7))
    line.produce(*(row(n, 999) for n in (0, 1, 2, 4, 0)), row(5, 999, id="r|'\\"), row(6, 999, day="no day"))
    line.enforce()
    monkeypatch.setattr(replay_preview, "_AT_A_TIME", 2)
    for together in (2, 200_000):
        monkeypatch.setattr(replay_preview, "_KEYS_AT_A_TIME", together)
        shown = previewed(line, registry.url)
        assert (shown.passing, shown.failing, shown.present) == (6, 1, 4)
    assert previewed(line, registry.url, action=ReplayAction.TO_SOURCE).present is None


@pytest.mark.full
def test_the_command_shows_and_runs_requests_of_a_stopped_stream(
    line: Line, jars: Jars, publish: Publish, registry: Registry, tmp_path: Path
) -> None:
    publish(line.document())
    refused = fill(line)
    line.produce(row(100))  # it must not be judged
    fix = tmp_path / "fix.json"
    fix.write_text(json.dumps(MENDED))

    def run(verb: str, *options: str) -> str:
        command = [sys.executable, "-m", "tidegate.gateway.cli.main", verb, line.contract_id, *options]
        env = {**os.environ, **environment(line, jars, registry.url)}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    def asked() -> list[dict[str, Any]]:
        answer = httpx.get(f"{registry.url}/api/v1/streams/{line.contract_id}/replays").json()
        found: list[dict[str, Any]] = answer["replays"]
        return found

    replay = partial(run, "replay")
    chosen = ("--where", "rule=amount-is-known", "--fix", str(fix))
    before, rows = line.ledger(), line.rows()
    shown = replay(*chosen, "--dry-run")
    assert (
        shown
        == f"{len(refused)} of {len(refused)} records would be written; the fix changes {len(refused)}\n"
    )
    assert (line.ledger(), line.rows()) == (before, rows)
    assert asked() == []
    ended = replay(*chosen, "--run", "--yes")
    assert f"is done: {len(refused)} written, 0 refused again, 0 left" in ended
    assert (line.ledger().end, line.ledger().epoch) == (before.end, before.epoch + 1)  # the command claims it
    assert "would be left: they were replayed before" in replay(*chosen, "--dry-run")
    line.enforce()
    require_exactly_once(line, refused)

    line.produce(row(200, 999), row(202, 999))
    line.enforce()
    (gone,) = [place for place, source in refusals(line).items() if source not in refused][:1]
    places = tmp_path / "places.txt"
    places.write_text("{}/{}\n".format(*gone))
    closed = f"2 of {len(refused) + 2} records would be discarded\n{len(refused)} would be left: they were replayed before\n"
    assert run("discard", *chosen[:2], "--reason", "tests of the ward", "--dry-run") == closed
    reason = ("--positions", str(places), "--reason", "tests of the ward")
    assert run("discard", *reason, "--dry-run") == "1 of 1 record would be discarded\n"
    waiting = run("discard", *reason, "--yes")
    assert waiting.endswith("waits for the job\n")
    known = ("--request", waiting.split("discard ")[-1].split()[0])
    assert replay(*known) == waiting.splitlines(keepends=True)[-1]
    assert "is done: 1 discarded, 0 left" in replay(*known, "--run")
    assert "is done: 1 discarded, 0 left" in replay(*known, "--run")  # and nothing is left to do

    terms = ("--append-late", "--accept-batches", "--allowed", "0.5", "--rate", "500")
    sent = replay(*chosen, "--to-source", *terms, "--run", "--yes")
    assert f"1 of {len(refused) + 2} records would be sent to the source topic" in sent
    assert f"is done: 1 sent to the source topic, 0 refused again, {len(refused) + 1} left" in sent
    assert len(sent_back(line)) == 1
    (to_source,) = [each for each in asked() if each["action"] == "to-source"]
    assert tuple(to_source[name] for name in ("append_late", "accept_batches", "allowed", "rate")) == (
        True,
        True,
        0.5,
        500,
    )
    line.enforce()
    assert line.reconcile().holds
