"""Set up the client's own serializer tests: each gets a registry of its own instead of the client's mock.

`test_other_clients` copies this file beside them as their `conftest.py`. Encryption is left aside: this registry keeps
no keys, and the libraries of the cloud providers that the tests import are not there.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest
import uvicorn
from pydantic import SecretStr

from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.settings import GatewaySettings

_KEY_LIBRARIES = (
    "boto3",
    "botocore",
    "azure",
    "google.cloud",
    "google.oauth2",
    "google.auth",
    "hvac",
    "hkdf",
    "tink",
)


class _KeyLibraries(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for libraries of key management, which the tests import and only those of encryption use."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        is_meant = any(name == library or name.startswith(f"{library}.") for library in _KEY_LIBRARIES)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_meant else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return MagicMock(name=spec.name, __path__=[], __spec__=spec)

    def exec_module(self, _module: ModuleType) -> None:
        pass


sys.meta_path.append(_KeyLibraries())


def pytest_collection_modifyitems(items: list[Any]) -> None:
    items[:] = [item for item in items if "ENCRYPT" not in inspect.getsource(item.function)]


@pytest.fixture(autouse=True)
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Serve an empty registry under the address that the tests of the module take."""
    factory = Factory(GatewaySettings(database_url=SecretStr(f"sqlite:///{tmp_path}/registry.db")))
    factory.database.migrate()
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(factory), log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    request.module._BASE_URL = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
        factory.close()
