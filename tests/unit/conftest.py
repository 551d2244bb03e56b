"""A registry over a database of its own, and ways to speak to it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.http.models.examples import CONTRACT, REPORT
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.storage.sql import Stores

MakeContract = Callable[..., bytes]
MakeReport = Callable[..., BatchReport]


@pytest.fixture
def settings(database_url: str) -> GatewaySettings:
    """Settings over a database of its own: every test that has them runs on SQLite and on PostgreSQL."""
    return GatewaySettings(database_url=SecretStr(database_url))


@pytest.fixture
def factory(settings: GatewaySettings) -> Iterator[Factory]:
    made = Factory(settings)
    made.database.migrate()
    yield made
    made.close()


class Client:
    """Calls the application in this process; an error inside it comes back as its answer."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self._transport = httpx.ASGITransport(app, raise_app_exceptions=False)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, content: Any, media_type: str | None = "application/json") -> httpx.Response:
        headers = {"Content-Type": media_type} if media_type else {}
        return self.request("POST", path, content=content, headers=headers)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://localhost") as client:
                return await client.request(method, path, **options)

        return asyncio.run(ask())


@pytest.fixture
def client(factory: Factory) -> Client:
    return Client(create_app(factory))


@pytest.fixture
def make_contract() -> MakeContract:
    """Return the example contract as JSON; keyword arguments replace top-level fields."""

    def make(**changes: Any) -> bytes:
        return orjson.dumps({**copy.deepcopy(CONTRACT), **changes})

    return make


def know(factory: Factory, *streams: str) -> None:
    """Add the contracts of streams, each of the topic of its name: a report without one is refused."""

    def work(stores: Stores) -> None:
        for stream in streams:
            stores.contracts.add_contract(stream, stream, datetime(2026, 7, 1, tzinfo=UTC))

    factory.database.write(work)


@pytest.fixture
def known_streams(factory: Factory) -> None:
    """Make the contracts of the streams that tests report about."""
    know(factory, "hospital.admissions", "old", "new", "a", "b")


@pytest.fixture
def make_report() -> MakeReport:
    """Return a report of `records` records; `quarantined` and `dropped` of them are refused."""

    def make(
        n: int = 1,
        *,
        epoch: int = 1,
        committed_at: datetime = datetime(2026, 7, 1, 12, tzinfo=UTC),
        records: int = 100,
        quarantined: int = 0,
        **changes: Any,
    ) -> BatchReport:
        stream = changes.get("stream", REPORT["stream"])
        values = {
            **REPORT,
            "topic": stream,
            "quarantine_topic": f"{stream}.quarantine",
            "contract": f"{stream}@1.2.0",
            "epoch": epoch,
            "n": n,
            "started_at": committed_at - timedelta(seconds=10),
            "committed_at": committed_at,
            "records": records,
            "written": records - quarantined,
            "warned": 0,
            "quarantined": quarantined,
            "dropped": 0,
            "rules": [],
            "start": {0: n * 1000},
            "end": {0: n * 1000 + records},
        }
        return BatchReport.model_validate({**values, **changes})

    return make
