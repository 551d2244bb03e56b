"""The job reconciles when it is asked: in a real process, for the real gateway over a line that can be cut."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from tests.unit.spark_jobs.test_control import CuttableLine, control_over
from tidegate.contracts.stream.control import Heartbeat
from tidegate.contracts.stream.reconciliation import ReconciliationResult
from tidegate.gateway.factory import Factory
from tidegate.spark_jobs.job.reconciler import COMMAND, Reconciler, child_environment, read_result
from tidegate.spark_jobs.reconcile.process import plan_line, read_plan
from tidegate.spark_jobs.settings import JobSettings, SinkSettings

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

MakeContract = Callable[..., bytes]
STREAM = "hospital.admissions"
SECRET = "pg-SECRET"  # noqa: S105 - of a test
DEADLINE_SECONDS = 120


@pytest.fixture
def job_settings(tmp_path: Path) -> JobSettings:
    """Settings under which there is nothing to look at."""
    return JobSettings(
        bootstrap_servers="127.0.0.1:9",
        warehouse=tmp_path,
        checkpoints=tmp_path,
        registry_url="http://none",
        registry_token=SecretStr("token-SECRET"),
        mask_key=SecretStr("m" * 32),
        postgresql_url=SecretStr(f"postgresql://me:{SECRET}@127.0.0.1:9/none"),
    )


@pytest.fixture
def line(client: Any, factory: Factory, make_contract: MakeContract) -> CuttableLine:
    factory.registry().publish(make_contract(), "contract.json")
    return CuttableLine(client)


@pytest.fixture
def reconciler(job_settings: JobSettings, line: CuttableLine) -> Iterator[Reconciler]:
    with closing(Reconciler(job_settings, httpx.Client(transport=line, base_url="http://registry"))) as made:
        yield made


def eventually(holds: Callable[[], bool]) -> None:
    deadline = monotonic() + DEADLINE_SECONDS
    while not holds():
        assert monotonic() < deadline
        Event().wait(0.05)


def answers(factory: Factory) -> list[ReconciliationResult | None]:
    return [each.result for each in factory.reconciliations().all(STREAM)]


@on_sqlite
def test_it_is_asked_by_a_heartbeat_and_answers_also_when_it_fails(
    reconciler: Reconciler, line: CuttableLine, factory: Factory
) -> None:
    control = control_over(line)
    reconciler.take(control.beat(Heartbeat()))
    assert answers(factory) == []
    factory.reconciliations().ask(STREAM)
    for _ in range(2):  # the second one finds it at work
        reconciler.take(control.beat(Heartbeat()))
    eventually(lambda: answers(factory) != [None])
    (result,) = answers(factory)
    assert result is not None
    assert result.failure is not None
    assert "lake.hospital.admissions does not exist in" in result.failure
    assert result.failure.endswith("enforce the contract first")
    assert control.beat(Heartbeat()) is None


@on_sqlite
def test_an_unsent_result_is_sent_again_without_a_second_comparison(
    reconciler: Reconciler, line: CuttableLine, factory: Factory
) -> None:
    factory.reconciliations().ask(STREAM)
    control = control_over(line)
    request = control.beat(Heartbeat())
    line.is_cut = True
    assert control.beat(Heartbeat()) is None
    reconciler.take(request)
    eventually(lambda: bool(reconciler._untold))
    untold = list(reconciler._untold.values())
    line.is_cut = False
    eventually(lambda: reconciler.take(control.beat(Heartbeat())) or answers(factory) != [None])
    assert answers(factory) == untold


@on_sqlite
def test_a_job_that_ends_leaves_the_request_open_and_its_process_ended(
    job_settings: JobSettings, line: CuttableLine, factory: Factory
) -> None:
    factory.reconciliations().ask(STREAM)
    client = httpx.Client(transport=line, base_url="http://registry")
    request = control_over(line).beat(Heartbeat())
    with closing(Reconciler(job_settings, client)) as first:
        first.take(request)
        eventually(lambda: first._process is not None)
        process = first._process
        assert process is not None
        assert os.getpgid(process.pid) != os.getpgrp()  # Ctrl-C does not reach it
    assert process.poll() == -signal.SIGKILL
    first.take(request)  # a heartbeat that comes late
    assert answers(factory) == [None]
    with closing(Reconciler(job_settings, client)) as following:
        following.take(control_over(line).beat(Heartbeat()))
        eventually(lambda: answers(factory) != [None])


@on_sqlite
def test_a_killed_process_is_reported_as_killed(
    reconciler: Reconciler, line: CuttableLine, factory: Factory
) -> None:
    factory.reconciliations().ask(STREAM)
    reconciler.take(control_over(line).beat(Heartbeat()))
    eventually(lambda: reconciler._process is not None)
    assert reconciler._process is not None
    reconciler._process.kill()
    eventually(lambda: answers(factory) != [None])
    (result,) = answers(factory)
    assert result is not None
    assert result.failure == (
        "the process that reconciled the stream was killed by signal 9; too little memory, most likely"
    )


def test_a_process_whose_job_is_gone_ends(job_settings: JobSettings) -> None:
    environment = child_environment(job_settings, os.environ)
    with subprocess.Popen(
        [*COMMAND, STREAM], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as orphan:
        assert orphan.wait(DEADLINE_SECONDS) in {0, 1}  # 0 if it had found its failure first


def test_the_process_has_the_settings_of_the_sink_and_no_secret_that_it_does_not_need(
    job_settings: JobSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = job_settings.model_copy(
        update={
            "sink": "delta",
            "spark_master": "spark://master:7077",
            "spark_driver_port": 7078,
            "spark_jars": Path("/jars"),
            "catalog_properties": {"type": "rest", "uri": "http://catalog"},
            "spark_ui": True,
        }
    )
    environment = child_environment(
        told, {"PATH": "/bin", "TIDEGATE_REGISTRY_TOKEN": "token-SECRET", "TIDEGATE_MASK_KEY": "m" * 32}
    )
    assert environment["PATH"] == "/bin"
    assert "token-SECRET" not in environment.values()
    assert "m" * 32 not in environment.values()
    for name in [name for name in os.environ if name.startswith("TIDEGATE_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    expected = {name: getattr(told, name) for name in SinkSettings.model_fields}
    # Only Delta needs Spark, and the executors are the stream's.
    expected |= {"spark_master": "local[2]", "spark_driver_port": None}
    found = SinkSettings()
    assert {name: getattr(found, name) for name in SinkSettings.model_fields} == expected
    assert SECRET not in " ".join(COMMAND)


@pytest.mark.parametrize(
    ("told", "status", "failure"),
    [
        (b"", 1, "ended with status 1; the log of the job says more"),
        (b"Killed\n", -9, "was killed by signal 9; too little memory, most likely"),
        (b'{"at": "2026-07-01T12:00:00Z"}\n', 0, "ended with status 0; the log of the job says more"),
    ],
)
def test_what_is_no_result_is_a_failure(told: bytes, status: int, failure: str) -> None:
    assert read_result(told, status).failure == f"the process that reconciled the stream {failure}"


def test_what_a_library_writes_before_the_result_is_passed_over() -> None:
    line = ReconciliationResult.model_validate({"at": "2026-07-01T12:00:00Z", "failure": "x"})
    assert read_result(f"warning: ...\n{line.model_dump_json()}\n".encode(), 0) == line


def test_the_contract_of_a_stream_goes_to_the_process_by_a_pipe(
    reconciler: Reconciler, factory: Factory, make_contract: MakeContract, line: CuttableLine
) -> None:
    """Only a contract with a primary key needs the registry; a registry that does not answer is no failure."""
    assert reconciler._plan(STREAM) is None
    assert read_plan(plan_line(None)) is None
    factory.registry().publish(make_contract(version="9.0.0", primary_key=["admission_id"]), "contract.json")
    plan = reconciler._plan(STREAM)
    assert plan is not None
    told = read_plan(plan_line(plan))
    assert told is not None
    assert (told.fingerprint, told.contract.primary_key) == (plan.fingerprint, ("admission_id",))
    line.is_cut = True
    assert reconciler._plan(STREAM) is None
