"""The metrics of the streams, in the formats of Prometheus and OpenMetrics."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.exposition import choose_encoder

from tidegate.gateway.access.principal import Role
from tidegate.gateway.http.dependencies import FactoryDep
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.problems import responses

router = APIRouter(tags=["streams"])

_EXAMPLE = """\
# HELP tidegate_records_total Records by what became of them.
# TYPE tidegate_records_total counter
tidegate_records_total{disposition="written",stream="hospital.admissions"} 970.0
"""
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The metrics, as text.",
        "content": {"text/plain": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    }
}


@router.get(
    "/metrics",
    operation_id="get_metrics",
    summary="Metrics of the streams",
    response_class=Response,
    responses={**_ANSWER, **responses(503)},
)
def get_metrics(
    factory: FactoryDep,
    principal: PrincipalDep,
    accept: Annotated[str, Header(description="OpenMetrics or Prometheus' text format.")] = "",
) -> Response:
    """Return counts, lag, positions, times and states of every stream that may be seen, from the stored reports."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(factory.stream_metrics(principal))
    if principal.may_everywhere(Role.VIEWER):
        refused = Counter(
            "tidegate_refused_requests",
            "Requests that were answered 401, 403, 421 or 429.",
            ["status"],
            registry=registry,
        )
        for status, requests in factory.denials.totals.items():
            refused.labels(str(status)).inc(requests)
    encode, media_type = choose_encoder(accept)
    return Response(encode(registry), headers={"Content-Type": media_type, "Cache-Control": "no-store"})
