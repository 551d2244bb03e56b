"""The desk's pages. `router` is included by the app as it is; it finds its services in `app.state.factory`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from contracts.errors import NotFoundError, TidegateError, Unavailable
from contracts.evidence import EventPointer
from contracts.model import DataContract
from gateway.access.errors import AccessError
from gateway.access.gate import PrincipalDep
from gateway.access.principal import Principal, subject_of
from gateway.api.dependencies import FactoryDep
from gateway.desk import contract_views, record_views, stream_views
from gateway.desk.rendering import ASSETS, asset, asset_response, page
from gateway.factory import Factory
from gateway.problems import status_of
from gateway.storage.sql import VersionFilter

LATEST_RECORDS = 20
MOST_CONTRACTS = 200


class _DeskRoute(APIRoute):
    """A route whose errors are pages too, not JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_for_people(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError:
                return page("problem.html", status_code=404, title="Nothing here", detail=_NO_SUCH_PAGE)
            except NotFoundError as error:
                return page("problem.html", status_code=404, title="Not found", detail=str(error))
            except AccessError as error:
                return page(
                    "problem.html", status_code=status_of(error), title="Not allowed", detail=str(error)
                )
            except Unavailable as error:
                return page("problem.html", status_code=503, title="No answer", detail=str(error))
            except TidegateError as error:
                return page(
                    "problem.html", status_code=status_of(error), title="This did not work", detail=str(error)
                )

        return handle_for_people


_NO_SUCH_PAGE = "This address names no page of the desk."
router = APIRouter(route_class=_DeskRoute, include_in_schema=False)

RuleFilter = Annotated[str | None, Query(max_length=200)]
RangeFilter = Annotated[str | None, Query(alias="range", max_length=8)]


@router.get("/")
def home() -> Response:
    """Lead to the desk."""
    return RedirectResponse("/desk")


@router.get("/desk")
def streams(factory: FactoryDep, principal: PrincipalDep) -> Response:
    """Show every stream."""
    rows = stream_views.stream_rows(factory.streams(principal), datetime.now(UTC))
    return page("streams.html", rows=rows)


@router.get("/desk/streams/{stream}")
def stream(
    stream: str, factory: FactoryDep, range_name: RangeFilter = None, rule: RuleFilter = None
) -> Response:
    """Show what a stream refused."""
    view = stream_views.stream_view(
        factory.streams(), stream, range_name=range_name, rule=rule or None, now=datetime.now(UTC)
    )
    return page("stream.html", view=view)


@router.get("/desk/streams/{stream}/latest")
def latest_records(stream: str, factory: FactoryDep, rule: RuleFilter = None) -> Response:
    """Show the latest refused records; the stream's page fetches this beside itself, for a broker may be slow."""
    summary = factory.streams().summary(stream)
    quarantine = factory.quarantine()
    if quarantine is None:
        return page("latest.html", state="unset", summary=summary, rule=rule, rows=(), latest=None)
    try:
        latest = quarantine.latest(summary.quarantine_topic, limit=LATEST_RECORDS, rule=rule or None)
    except Unavailable as error:
        return page(
            "latest.html", state="away", summary=summary, rule=rule, rows=(), latest=None, detail=str(error)
        )
    rows = record_views.record_rows(latest, rule)
    return page("latest.html", state="read", summary=summary, rule=rule, rows=rows, latest=latest)


@router.get("/desk/records/{topic}/{partition}/{offset}")
def record(
    topic: str,
    partition: int,
    offset: int,
    factory: FactoryDep,
    principal: PrincipalDep,
    view: record_views.View = record_views.View.FORMATTED,
) -> Response:
    """Show one refused record. Only topics that a stream quarantines to are read."""
    if topic not in {summary.quarantine_topic for summary in factory.streams(principal).summaries()}:
        raise NotFoundError(f"no stream quarantines to a topic {topic}")
    quarantine = factory.quarantine()
    if quarantine is None:
        raise Unavailable("the gateway knows no broker: start it with TIDEGATE_BOOTSTRAP_SERVERS set")
    found = quarantine.record(EventPointer(topic, partition, offset))
    contract = _contract(factory, principal, found.evidence.contract) if found.evidence is not None else None
    return page("record.html", view=record_views.record_view(found, contract, view))


@router.get("/desk/contracts")
def contracts(factory: FactoryDep, principal: PrincipalDep) -> Response:
    """List the contracts."""
    found = factory.registry().contracts(
        VersionFilter(prefixes=principal.prefixes), offset=0, limit=MOST_CONTRACTS
    )
    return page("contracts.html", found=found)


@router.get("/desk/contracts/{contract_id}")
def contract(contract_id: str, factory: FactoryDep, version: str | None = None) -> Response:
    """Show a contract: one version of it, the current one unless another is named."""
    registry = factory.registry()
    return page("contract.html", view=contract_views.contract_view(registry, contract_id, version))


@router.get("/desk/static/{digest}/{name}")
def static(digest: str, name: str) -> Response:
    """Give a static file; the digest is part of the address only so that a changed file has another one."""
    if name not in ASSETS or f"/desk/static/{digest}/{name}" != asset(name).address:
        raise NotFoundError(_NO_SUCH_PAGE)
    return asset_response(asset(name))


def _contract(factory: Factory, principal: Principal, named: str) -> DataContract | None:
    """Find the contract version (`id@version`) of a record; None for one that the registry does not show."""
    contract_id, _, version = named.rpartition("@")
    try:
        found = factory.registry().version(contract_id, version)
    except NotFoundError:
        return None
    if not principal.sees(subject_of(found.topic)):
        return None
    return DataContract.model_validate_json(found.document)
