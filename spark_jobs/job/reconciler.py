"""Reconciliation of this job's streams at the gateway's request: one at a time, each in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final
from uuid import UUID

import httpx
import structlog
from pydantic import SecretStr, ValidationError

from tidegate.contracts.errors import TidegateError
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import send
from tidegate.contracts.stream.reconciliation import ReconciliationRequest, ReconciliationResult
from tidegate.spark_jobs.contract_source import RegistryContract, mask_key_of
from tidegate.spark_jobs.reconcile.process import plan_line
from tidegate.spark_jobs.settings import RegistrySettings, SinkSettings

log = structlog.get_logger()

COMMAND: Final = (sys.executable, "-m", "tidegate.spark_jobs.reconcile.process")
_PREFIX: Final = "TIDEGATE_"
_OF_EXECUTORS: Final = frozenset({"spark_driver_host", "spark_driver_port", "spark_block_manager_port"})


class Reconciler:
    """Handler of the reconciliation requests that heartbeats return.

    The gateway repeats a request with each heartbeat until it has an answer. So a request that arrives while another
    one runs is ignored, and only undelivered answers are kept. If the job ends, its request stays open for the next
    job.
    """

    def __init__(self, settings: RegistrySettings, client: httpx.Client) -> None:
        self._settings = settings
        self._environment = child_environment(settings, os.environ)
        self._client = client
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: Thread | None = None
        self._is_closed = False
        self._untold: dict[UUID, ReconciliationResult] = {}

    def take(self, request: ReconciliationRequest | None) -> None:
        """Start a reconciliation without waiting for it; do nothing if `request` is None or another one runs."""
        with self._lock:
            is_busy = self._thread is not None and self._thread.is_alive()
            if request is None or is_busy or self._is_closed:
                return
            self._thread = Thread(target=self._work, args=(request,), name="reconcile", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop the running process; its request stays open."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self, request: ReconciliationRequest) -> None:
        result = self._untold.pop(request.id, None) or self._reconciled(request)
        if result is None:
            return
        if not self._is_told(request, result):
            self._untold = {request.id: result}

    def _reconciled(self, request: ReconciliationRequest) -> ReconciliationResult | None:
        """Run the process to its end and return its result; None if `close` has stopped it."""
        log.info("reconciliation_started", stream=request.stream)
        try:
            process = self._started(request.stream)
        except OSError as error:
            result = _failed(f"no process could be started: {error.strerror}")
        else:
            if process is None:
                return None
            with process:
                assert process.stdin is not None  # noqa: S101 - a pipe
                assert process.stdout is not None  # noqa: S101 - a pipe
                with suppress(OSError):  # the process has ended already
                    process.stdin.write(plan_line(self._plan(request.stream)))
                    process.stdin.flush()
                output = process.stdout.read()
            with self._lock:
                self._process = None
                if self._is_closed:
                    return None
            result = read_result(output, process.returncode)
        log.info(
            "reconciliation_ended",
            stream=request.stream,
            answer=result.findings.answer.value if result.findings else None,
            failure=result.failure,
        )
        return result

    def _started(self, stream: str) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._is_closed:
                return None
            self._process = subprocess.Popen(
                [*COMMAND, stream],
                env=self._environment,
                bufsize=0,  # so that closing the pipe of an ended process has nothing to flush
                stdin=subprocess.PIPE,  # its end of file tells the process that this one has ended
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C at the terminal must reach only the job, which keeps the request open
            )
            return self._process

    def _plan(self, stream: str) -> EnforcementPlan | None:
        """Return the contract for reading record keys; None if it has no primary key or cannot be fetched.

        It is sent through a pipe, because it contains the mask key. Without the mask key, a masked column of the
        primary key would have different values.
        """
        contract = RegistryContract(self._client, stream, 0, Event(), mask_key_of(self._settings))
        try:
            plan = contract.current()
        except TidegateError as error:
            log.warning("reconciliation_without_contract", stream=stream, error=str(error))
            return None
        return plan if plan.contract.primary_key else None

    def _is_told(self, request: ReconciliationRequest, result: ReconciliationResult) -> bool:
        """Send a result; return False if it must be sent again while the gateway still requests it."""
        try:
            answer = send(self._client, requests.reconciled(request.stream, request.id, result))
        except httpx.HTTPError as error:
            log.warning("reconciliation_not_told", stream=request.stream, error=str(error))
            return False
        if not answer.is_success:
            log.warning("reconciliation_not_told", stream=request.stream, error=f"{answer.status}")
        return answer.is_success


def read_result(output: bytes, status: int) -> ReconciliationResult:
    """Parse the last line that the process has written; return a failure if it has written no result.

    `status` is the return code of the process, negative for a signal.
    """
    try:
        return ReconciliationResult.model_validate_json(output.strip().rpartition(b"\n")[2])
    except ValidationError:
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        hint = "; too little memory, most likely" if status == -9 else "; the log of the job says more"
        return _failed(f"the process that reconciled the stream {how}{hint}")


def child_environment(settings: SinkSettings, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment from which `SinkSettings()` reads the same settings, without other Tidegate variables.

    So the process has neither the registry key nor the mask key. Spark, which only Delta needs, runs within the
    process, not on the executors of the stream.
    """
    found = {name: value for name, value in environment.items() if not name.startswith(_PREFIX)}
    found["PYTHONSAFEPATH"] = (
        "1"  # import installed packages only, never a file in the folder where the job was started
    )
    for name in SinkSettings.model_fields:
        value = getattr(settings, name)
        if value is not None and name not in _OF_EXECUTORS:
            found[f"{_PREFIX}{name.upper()}"] = _written(value)
    if not settings.spark_master.startswith("local"):
        found[f"{_PREFIX}SPARK_MASTER"] = "local[2]"
    return found


def _failed(reason: str) -> ReconciliationResult:
    return ReconciliationResult(at=datetime.now(UTC), failure=reason)


def _written(value: object) -> str:
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return str(value.absolute())
        case dict():
            return json.dumps(value)
        case _:
            return str(value)
