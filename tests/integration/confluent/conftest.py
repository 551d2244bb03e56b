"""The registry that clients talk to here, and a client."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
)
from pydantic import SecretStr

from tests.integration.confluent.registry import Recorder, Registry
from tests.postgresql import Postgresql
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.settings import GatewaySettings


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty database that the tests of this module share."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('registry')}/registry.db"
    else:
        server: Postgresql = request.getfixturevalue("postgresql")
        with server.database(template="template0") as url:
            yield url


@pytest.fixture(scope="module")
def registry(database: str) -> Iterator[Registry]:
    factory = Factory(GatewaySettings(database_url=SecretStr(database)))
    factory.database.migrate()
    recorder = Recorder(create_app(factory))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(recorder, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Registry(f"http://127.0.0.1:{listening.getsockname()[1]}", recorder)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
        factory.close()


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistryClient]:
    """A client with nothing in its caches."""
    with SchemaRegistryClient({"url": registry.url}) as made:
        registry.recorder.exchanges.clear()
        yield made
