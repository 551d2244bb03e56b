"""The command as a person runs it, and a contract to run it on."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

from tests.unit.checks.workplace import git, here, write
from tidegate.gateway.cli.main import main
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app

__all__ = ["git", "here", "write"]


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: bytes
    stderr: bytes


Run = Callable[..., Ran]

CONTRACT = """\
apiVersion: tidegate/v1
kind: DataContract
id: hospital.admissions
version: 1.2.0
topic: hospital.admissions
schema:
  type: json-schema
  definition:
    type: object
    required: [age]
    properties: {age: {type: integer}, ward: {type: string}, admitted: {type: string, format: date}}
rules:
  - {id: age-is-known, kind: forbidden, field: /age, values: [999]}
  - {id: ward-is-known, kind: one_of, field: /ward, values: [icu, er], severity: warning}
  - {id: not-the-epoch, kind: range, field: /admitted, after: 1900-01-01, on_violation: drop}
"""

WITH_COLUMN = """\
apiVersion: tidegate/v1
kind: DataContract
id: a.b
version: 1.1.0
topic: a.b
schema:
  type: json-schema
  definition: {type: object, properties: {x: {type: number}}}
columns:
  - {name: x, from: /x, type: int}
"""
"""A contract whose schema accepts numbers that its column cannot hold."""


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    """A contract whose rules cover every disposition but `failed`."""
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT)
    return path


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `tidegate login`: never that of the user who runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "tidegate"


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run `tidegate` with arguments and bytes on standard input, in this process."""

    def run(*arguments: str | Path, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, *capfdbinary.readouterr())

    return run


@pytest.fixture
def process(tmp_path: Path) -> Run:
    """Run `tidegate` in a process of its own, with no terminal; `env` is added to a plain environment."""
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb"}

    def run(*arguments: str | Path, env: dict[str, str] | None = None) -> Ran:
        command = [sys.executable, "-m", "tidegate.gateway.cli.main", *map(str, arguments)]
        ran = subprocess.run(command, capture_output=True, env=plain | (env or {}), check=False, timeout=60)
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    return run


@contextmanager
def listening(factory: Factory) -> Iterator[str]:
    """A registry that serves on a socket, in a thread; returns its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(create_app(factory), log_config=None, ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:  # it logs until then, to what the capture of output replaces meanwhile
            assert thread.is_alive()
            thread.join(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture
def registry(factory: Factory, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A registry that keeps CONTRACT; commands find it by their environment."""
    factory.registry().publish(CONTRACT.encode(), "contract.yaml")
    with listening(factory) as url:
        monkeypatch.setenv("TIDEGATE_REGISTRY_URL", url)
        yield url
