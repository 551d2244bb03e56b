"""Adoption of lines with a real registry."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import httpx

from tests.integration.enforce.line import Line
from tests.integration.enforce.registry import Registry
from tidegate.contracts.stream.ledger import Ledger
from tidegate.spark_jobs.adopt.adopt import Adopter, Forgotten, Look, Skip
from tidegate.spark_jobs.settings import JobSettings


def run_command(line: Line, registry_url: str, verb: str, *options: str) -> tuple[int, str]:
    """Run a command of the stream in a process of its own, without a terminal; return its exit code and output."""
    url = line.settings.postgresql_url
    environment = {
        **os.environ,
        "TIDEGATE_BOOTSTRAP_SERVERS": line.settings.bootstrap_servers,
        "TIDEGATE_REGISTRY_URL": registry_url,
        "TIDEGATE_WAREHOUSE": str(line.settings.warehouse),
        "TIDEGATE_SINK": line.settings.sink,
        **({} if url is None else {"TIDEGATE_POSTGRESQL_URL": url.get_secret_value()}),
    }
    command = [sys.executable, "-m", "tidegate.gateway.cli.main", verb, line.contract_id, *options]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout + done.stderr


class Adopting:
    """Adopts lines with a real registry; keeps what was shown before the last confirmation."""

    def __init__(self, registry: Registry) -> None:
        self.url = registry.url
        self.shown: list[Look | Skip | Forgotten] = []

    def settings(self, line: Line) -> JobSettings:
        return line.settings.model_copy(update={"registry_url": self.url})

    def rebuild(self, line: Line, *, replace: bool = False) -> Ledger:
        with Adopter.opened(self.settings(line), line.contract_id) as found:
            return found.rebuild(None, self.shown.append, replace=replace)

    def skip(self, line: Line, partition: int, first: int) -> Ledger:
        with Adopter.opened(self.settings(line), line.contract_id) as found:
            return found.skip(partition, first, self.shown.append)

    def forget_deleted(self, line: Line) -> Ledger:
        with Adopter.opened(self.settings(line), line.contract_id) as found:
            return found.forget_deleted(self.shown.append)

    def kept(self, line: Line) -> list[dict[str, Any]]:
        """The registry's adoptions of a line, newest first."""
        answer = httpx.get(f"{self.url}/api/v1/streams/{line.contract_id}/adoptions")
        answer.raise_for_status()
        adoptions: list[dict[str, Any]] = answer.json()["adoptions"]
        return adoptions
