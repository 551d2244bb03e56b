"""Whether this process can serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from tidegate.contracts.errors import Unavailable
from tidegate.gateway.storage.database import Database

BrokerState = Literal["reachable", "unreachable", "not configured"]


class Broker(Protocol):
    """Something that knows whether the broker answers."""

    def answers(self) -> bool:
        """Return whether the broker answers."""
        ...


@dataclass(frozen=True, slots=True)
class Readiness:
    """What the process needs to serve. The broker is shown and never decides: contracts are served without it."""

    database: Literal["reachable"]
    migrations: Literal["current"]
    broker: BrokerState


class HealthCheck:
    """Looks at what the process depends on."""

    def __init__(self, database: Database, broker: Broker | None) -> None:
        self._database = database
        self._broker = broker

    def readiness(self) -> Readiness:
        """Say that the process can serve. Raises Unavailable with the reason why it cannot."""
        if not self._database.is_current():
            raise Unavailable(
                "the tables of the registry's database are not those of this version of tidegate; "
                "restart it, and the migrations run"
            )
        return Readiness("reachable", "current", self._broker_state())

    def _broker_state(self) -> BrokerState:
        if self._broker is None:
            return "not configured"
        return "reachable" if self._broker.answers() else "unreachable"
