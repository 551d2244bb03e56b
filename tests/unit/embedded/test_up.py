"""What `tidegate up` prints."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import cast

import pytest

from tidegate.contracts.errors import Unavailable
from tidegate.gateway.client.registry import Enforced
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
    runtime._claim = ports.claim(ports.REGISTRY_PORT)
    try:
        Contracts(runtime, lambda *line: shown.append(line))._show_send({"a.b": "a.b"})
    finally:
        runtime._claim.release()
    ((label, command),) = shown
    login = [] if config is None else ["--kafka-config", str(tmp_path / config)]
    expected = ["tidegate", "send", "a.b", "FILE", "--bootstrap-servers", "kafka:9093", *login]
    assert label == "send"
    assert shlex.split(command) == [*expected, "--registry", runtime.registry_url]


class _SlowJob:
    """A runtime whose job is not ready the first time that somebody waits for it."""

    bootstrap, registry_url, kafka_config = "kafka:9092", "http://127.0.0.1:8081", None

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.started = 0
        self._awaited = 0

    def create_topics(self, topics: list[str]) -> None:
        """Do nothing: the topics are there."""

    def start_job(self, arguments: list[str]) -> None:
        """Count the starts."""
        assert arguments == ["--all"]
        self.started += 1

    def await_job(self) -> None:
        """Raise Unavailable the first time."""
        self._awaited += 1
        if self._awaited == 1:
            raise Unavailable("the job does not answer")


def test_a_job_that_starts_slowly_is_started_once_and_awaited_again(tmp_path: Path) -> None:
    runtime, shown = _SlowJob(tmp_path), list[str]()
    contracts = Contracts(cast("Runtime", runtime), lambda label, _: shown.append(label))
    enforced = [Enforced("a.b", "a.b")]
    with pytest.raises(Unavailable):
        contracts.follow(enforced)
    for _ in range(2):
        contracts.follow(enforced)
    assert (runtime.started, shown) == (1, ["stream", "send"])
