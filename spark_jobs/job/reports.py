"""Delivery of batch reports to the registry: best effort, in the background, idempotent by (stream, epoch, n)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from threading import Condition, Thread
from typing import Protocol

import httpx
import structlog

from tidegate.contracts.crash import described
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import send
from tidegate.contracts.stream.report import BatchReport
from tidegate.spark_jobs.tracing import NoTracer, Tracer

log = structlog.get_logger()

_CAPACITY = 1_000
_RETRY_SECONDS = 2.0
_CLOSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A report to post, and the trace parent of its batch."""

    batch: BatchReport
    traceparent: str | None


class Reporter(Protocol):
    """Receiver of the report of each published batch; never blocks, never raises."""

    def report(self, batch: BatchReport) -> None:
        """Accept the report of a batch that was just published."""
        ...


class RegistryReporter:
    """Reporter with its own thread. It keeps the newest `_CAPACITY` reports while the registry is unreachable."""

    def __init__(self, client: httpx.Client, tracer: Tracer | None = None) -> None:
        self._client = client
        self._tracer = tracer or NoTracer()
        self._waiting: deque[_Waiting] = deque(maxlen=_CAPACITY)
        self._changed = Condition()
        self._closing = False
        self._thread = Thread(target=self._post_all, name="reports", daemon=True)
        self._thread.start()

    def report(self, batch: BatchReport) -> None:
        """Queue a report; if the queue is full, drop the oldest."""
        with self._changed:
            self._waiting.append(_Waiting(batch, self._tracer.traceparent()))
            self._changed.notify()

    def close(self) -> None:
        """Post the queued reports, for a few seconds at most."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_CLOSE_SECONDS)

    def _post_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                first = self._waiting[0]
            delivered = self._post(first)
            with self._changed:
                if delivered and self._waiting and self._waiting[0] is first:
                    self._waiting.popleft()
                elif not delivered and self._closing:
                    return
                elif not delivered:
                    self._changed.wait_for(lambda: self._closing, _RETRY_SECONDS)

    def _post(self, waiting: _Waiting) -> bool:
        """Post one report; return whether the registry has taken it, or would refuse it again."""
        try:
            request = replace(requests.report(waiting.batch), traceparent=waiting.traceparent)
            answer = send(self._client, request)
        except httpx.HTTPError:
            return False
        except Exception as error:  # noqa: BLE001 - one report that cannot be posted must not block the next
            log.warning(
                "report_failed", stream=waiting.batch.stream, n=waiting.batch.n, error=described(error)
            )
            return True
        if answer.is_final and not answer.is_success:
            log.warning(
                "report_refused", stream=waiting.batch.stream, n=waiting.batch.n, status=answer.status
            )
        return answer.is_final
