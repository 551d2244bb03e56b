"""Adoption of lines with a real registry."""

from __future__ import annotations

from typing import Any

import httpx

from tests.integration.enforce.line import Line
from tests.integration.enforce.registry import Registry
from tidegate.contracts.stream.ledger import Ledger
from tidegate.spark_jobs.adopt.adopt import Adopter, Forgotten, Look, Skip
from tidegate.spark_jobs.settings import JobSettings


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
