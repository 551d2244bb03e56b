"""Kill -9 of the job at each step of the protocol, then a restart: nothing lost, nothing twice, anywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.evidence import read_evidence
from gateway.embedded.jars import Jars
from spark_jobs.steps import Step
from tests.integration.enforce.line import KNOWN, Line, environment, row
from tests.integration.enforce.registry import Registry

CRASHING_JOB = Path(__file__).with_name("crashing_job.py")
RECORDS = 40

Crash = Callable[[Line, Step, int], None]


@pytest.fixture
def crash(jars: Jars, registry: Registry) -> Crash:
    """Give a function that runs the job in its own process until it kills itself after a step."""

    def run(line: Line, step: Step, times: int) -> None:
        process = subprocess.run(
            [sys.executable, CRASHING_JOB, step, str(times), line.contract_id],
            env={**os.environ, **environment(line, jars, registry.url), "TIDEGATE_MAX_OFFSETS": "10"},
            check=False,
            capture_output=True,
            timeout=120,
        )
        assert process.returncode == -signal.SIGKILL, process.stderr.decode()

    return run


def fill(line: Line, publish: Callable[[dict[str, object]], None]) -> None:
    publish(line.document())
    line.produce(*(row(n, 999 if n % 4 == 0 else 1) for n in range(RECORDS)))


def require_exactly_once(line: Line) -> None:
    assert line.reconcile().holds
    refused = Counter(str(e.source) for e in map(read_evidence, (r.headers for r in line.quarantined())) if e)
    assert set(refused.values()) == {1}
    assert len(refused) == RECORDS // 4
    assert line.ledger().totals.written == RECORDS - RECORDS // 4
    assert line.ledger().totals.quarantined == RECORDS // 4


def test_killed_between_the_quarantine_and_the_table(
    line: Line, crash: Crash, publish: Callable[[dict[str, object]], None]
) -> None:
    """The refused records are there for good; the restart must neither write them again nor judge them anew."""
    fill(line, publish)
    crash(line, Step.QUARANTINE, 2)
    assert line.ledger().n == 1
    assert len(line.rows()) + len(line.quarantined()) > line.ledger().totals.offsets
    assert not line.reconcile().twice
    # The new instance has a contract that would let the refused records pass: their first verdict stands.
    line.contracts.plan = line.plan(version="1.0.1", rules=[{**KNOWN, "values": [998]}])
    settled, published = len(line.quarantined()), line.ledger().totals.quarantined
    line.enforce()
    assert len(line.quarantined()) == settled
    assert line.reconcile().holds
    assert len(line.rows()) == RECORDS - settled
    assert sum(report.quarantined for report in line.reports) == settled - published


def test_killed_between_the_table_and_sparks_own_commit(
    line: Line, crash: Crash, publish: Callable[[dict[str, object]], None]
) -> None:
    fill(line, publish)
    crash(line, Step.COMMITTED, 2)
    assert line.ledger().n == 2
    assert line.reconcile().holds
    line.enforce()
    require_exactly_once(line)


def test_killed_before_and_after_the_one_transaction_of_the_kafka_sink(
    make_line: Callable[..., Line], crash: Crash, publish: Callable[[dict[str, object]], None]
) -> None:
    line = make_line(sink="kafka")
    fill(line, publish)
    crash(line, Step.DECIDE, 2)
    assert line.ledger().n == 1
    assert line.reconcile().holds
    crash(line, Step.PUBLISH, 2)
    assert line.ledger().n == 3
    assert line.reconcile().holds
    line.enforce()
    require_exactly_once(line)
    assert len(line.accepted()) == RECORDS - RECORDS // 4


@pytest.mark.full
def test_killed_after_every_step_in_turn(
    line: Line, crash: Crash, publish: Callable[[dict[str, object]], None]
) -> None:
    fill(line, publish)
    for step in (Step.CLAIM, Step.FENCE, Step.VERIFY, Step.SCAN, Step.JUDGE, Step.DECIDE, Step.QUARANTINE):
        crash(line, step, 1)
        assert not line.reconcile().twice
    for step in (Step.STAGE, Step.PUBLISH, Step.QUARANTINE):
        crash(line, step, 1)
        assert not line.reconcile().twice
    line.enforce()
    require_exactly_once(line)
