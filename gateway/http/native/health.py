"""Liveness and readiness probes of the process."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from tidegate.gateway.health import BrokerState
from tidegate.gateway.http.dependencies import FactoryDep
from tidegate.gateway.http.models.examples import example
from tidegate.gateway.http.problems import responses

router = APIRouter(prefix="/health", tags=["health"])


class LiveInfo(BaseModel):
    """The process answers."""

    model_config = example({"status": "live"})

    status: Literal["live"] = "live"


class ReadyInfo(BaseModel):
    """The process can serve. An unreachable broker is shown, and does not make it unready."""

    model_config = example(
        {
            "status": "ready",
            "database": "reachable",
            "migrations": "current",
            "broker": "not configured",
        }
    )

    status: Literal["ready"] = "ready"
    database: Literal["reachable"]
    migrations: Literal["current"]
    broker: BrokerState


@router.get("/live", operation_id="get_liveness", summary="Check liveness")
async def get_liveness() -> LiveInfo:
    """Return 200 while the process runs, without checking anything else."""
    return LiveInfo()


@router.get("/ready", operation_id="get_readiness", summary="Check readiness", responses=responses(503))
def get_readiness(factory: FactoryDep) -> ReadyInfo:
    """Check the database and its tables, and the broker if one is configured."""
    return ReadyInfo.model_validate(factory.health().readiness())
