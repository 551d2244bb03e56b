"""The history of expectations over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from tidegate.contracts.stream.report import ExpectationResult
from tidegate.gateway.http.dependencies import FactoryDep
from tidegate.gateway.http.models.examples import EXPECTATION_RESULT, REPORT
from tidegate.gateway.http.native.streams import StreamName, TimeRangeDep
from tidegate.gateway.http.problems import responses
from tidegate.gateway.storage.reports import PastResult

router = APIRouter(prefix="/api/v1/streams", tags=["streams"])


class ExpectationEntry(BaseModel):
    """What became of one expectation in one batch."""

    epoch: int
    n: int
    committed_at: datetime
    result: ExpectationResult

    @classmethod
    def of(cls, past: PastResult) -> Self:
        """Show a result."""
        return cls(epoch=past.epoch, n=past.n, committed_at=past.committed_at, result=past.result)


class ExpectationList(BaseModel):
    """Results of expectations, newest first."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "results": [
                    {"epoch": 1, "n": 1, "committed_at": REPORT["committed_at"], "result": EXPECTATION_RESULT}
                ]
            }
        }
    )

    results: tuple[ExpectationEntry, ...]


@router.get(
    "/{stream}/expectations",
    operation_id="list_expectation_results",
    summary="List what became of a stream's expectations",
    responses=responses(404, 422, 503),
)
def list_expectation_results(
    stream: StreamName,
    factory: FactoryDep,
    time: TimeRangeDep,
    expectation: Annotated[str | None, Query(description="Id of one expectation; left out, all.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many results to give at most.")] = 1000,
) -> ExpectationList:
    """List the results in the batches committed in a range of time, newest first: figures, never a value."""
    found = factory.expectations().results(stream, time.since, time.until, limit, expectation)
    return ExpectationList(results=tuple(ExpectationEntry.of(each) for each in found))
