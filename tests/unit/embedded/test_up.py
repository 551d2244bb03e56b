"""What `tidegate up` prints."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tidegate.gateway.embedded import ports
from tidegate.gateway.embedded.runtime import OwnKafka, Runtime, RuntimeOptions
from tidegate.gateway.embedded.up import Contracts


@pytest.mark.parametrize("config", [None, "client.properties", "a folder/client.properties"])
def test_the_command_that_sends_connects_as_the_job_does(
    config: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kafka = OwnKafka("kafka:9093", None if config is None else Path(config))
    shown: list[tuple[str, str]] = []
    runtime = Runtime(RuntimeOptions(tmp_path / "state", kafka=kafka), lambda *line: shown.append(line))
    runtime._claim = ports.claim(ports.GATEWAY_PORT)
    try:
        Contracts(runtime, lambda *line: shown.append(line))._show_send({"a.b": "a.b"})
    finally:
        runtime._claim.release()
    ((label, command),) = shown
    login = [] if config is None else ["--kafka-config", str(tmp_path / config)]
    expected = ["tidegate", "send", "a.b", "FILE", "--bootstrap-servers", "kafka:9093", *login]
    assert label == "send"
    assert shlex.split(command) == [*expected, "--registry", runtime.registry_url]
