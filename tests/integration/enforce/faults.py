"""Faults, the same for every sink: the job is killed or stopped at a step of its own choosing, and goes on."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable

from tests.integration.enforce.checker import Account, account
from tests.integration.enforce.line import Line, row
from tidegate.gateway.exits import ExitCode
from tidegate.spark_jobs.steps import ReplayStep, Step

RECORDS = 40
"""Records of a story; every fifth is refused, so that each batch refuses some of both partitions."""

Publish = Callable[[dict[str, object]], None]
StartJob = Callable[..., "subprocess.Popen[bytes]"]
"""`job(line, step, times, how)`: starts the job in its own process, until a signal of its own after a step."""


def fill(line: Line, publish: Publish, records: int = RECORDS) -> None:
    """Publish the contract and produce records, every fifth of them refused."""
    if line.settings.write_mode == "upsert":
        line.contracts.plan = line.plan(primary_key=["id"])
        publish(line.document(primary_key=["id"]))
    else:
        publish(line.document())
    line.produce(*(row(n, 999 if n % 5 == 0 else 1) for n in range(records)))


def kill_after(job: StartJob, line: Line, step: Step | ReplayStep, times: int = 1, **settings: str) -> None:
    """Run the job until it kills itself (SIGKILL) when it has finished a step so many times."""
    assert job(line, step, times, "SIGKILL", **settings).wait() == -signal.SIGKILL


def stop_after(job: StartJob, line: Line, step: Step | ReplayStep, times: int = 1) -> subprocess.Popen[bytes]:
    """Run the job until it stops itself (SIGSTOP); it goes on as a zombie when `wake` is called."""
    zombie = job(line, step, times, "SIGSTOP")
    _, status = os.waitpid(zombie.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    return zombie


def wake(zombie: subprocess.Popen[bytes]) -> None:
    """Let a stopped job go on; it must find out that another instance has taken over, and end as overtaken."""
    os.kill(zombie.pid, signal.SIGCONT)
    assert zombie.wait() == ExitCode.FENCED


def require_nothing_twice(line: Line) -> None:
    """Require that what is half done has doubled nothing: records may still be missing behind the ledger's end."""
    found = account(line)
    assert found == Account(lost=found.lost)
    assert not line.reconcile().twice
