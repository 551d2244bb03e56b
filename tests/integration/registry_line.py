"""A registry that serves over HTTP, and a job's line to it, which a test can cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import httpx
import pyarrow as pa
import uvicorn
from pydantic import SecretStr

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.settings import GatewaySettings
from tidegate.spark_jobs.contract_source import RegistryContract


@contextmanager
def serve_registry(folder: Path) -> Iterator[str]:
    """Serve a registry with a database in `folder`; yield its address."""
    factory = Factory(GatewaySettings(database_url=SecretStr(f"sqlite:///{folder}/registry.db")))
    factory.database.migrate()
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(factory), log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


class Registry:
    """The way of a job to the registry, which a test can cut."""

    def __init__(self, url: str, topic: str) -> None:
        self._transport = httpx.HTTPTransport()
        self.asked: list[str] = []
        self.is_away = False
        self.cut: str | None = None
        """The end of the paths that are not answered."""
        self.stopping = threading.Event()
        self._http = httpx.Client(base_url=url, transport=httpx.MockTransport(self._pass_on))
        self.contract = RegistryContract(self._http, topic, grace_seconds=60, stopping=self.stopping)

    def _pass_on(self, request: httpx.Request) -> httpx.Response:
        if self.is_away or (self.cut is not None and request.url.path.endswith(self.cut)):
            raise httpx.ConnectError("cut", request=request)
        self.asked.append(request.url.path)
        answer = self._transport.handle_request(request)
        answer.read()
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._transport.close()


def codes(
    plan: EnforcementPlan, values: list[bytes | None], headers: list[bytes | None] | None = None
) -> list[str]:
    """The first code of each record, as `judge` and `explain` agree on it; empty for one that is accepted."""
    given = None if headers is None else pa.array(headers, pa.binary())
    dispositions = plan.judge(pa.array(values, pa.binary()), headers=given).field("disposition").to_pylist()
    verdicts = [
        plan.explain(value, headers[index] if headers else None) for index, value in enumerate(values)
    ]
    assert dispositions == [verdict.disposition for verdict in verdicts]
    return [verdict.violations[0].code if verdict.violations else "" for verdict in verdicts]
