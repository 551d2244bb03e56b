"""The desk's pages. `router` is included by the app as it is; it finds its services in `app.state.factory`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ContractError, NotFoundError, Problem, TidegateError, Unavailable
from tidegate.contracts.stream.evidence import EventPointer, Evidence
from tidegate.contracts.stream.output_topics import source_of_quarantine
from tidegate.gateway.access.principal import AccessError, Principal, Role, require
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.dependencies import FactoryDep, read_body
from tidegate.gateway.http.desk import record_views, stream_views
from tidegate.gateway.http.desk.layout import lay_out
from tidegate.gateway.http.desk.rendering import ASSETS, asset, asset_response, page
from tidegate.gateway.http.desk.stream_sections import ReconciliationView, ShadowView, expectation_rows
from tidegate.gateway.http.desk.stream_views import ranges_within
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.problems import InvalidBody, status_of
from tidegate.gateway.registry.judging import with_writers
from tidegate.gateway.registry.publication import LATEST, Registry
from tidegate.gateway.registry.unjudged_rules import count_of, unjudged_rules
from tidegate.gateway.storage.sql import ContractVersion, VersionFilter
from tidegate.gateway.streams.quarantine import MOST_PARTS, ROLE, Origin, QuarantinedRecord

LATEST_RECORDS = 20
MOST_FORM_BYTES = 64 * 1024
MOST_CONTRACTS = 200
MOST_ADOPTIONS = 20
MOST_DOCUMENT_LINES = 2000


class _DeskRoute(APIRoute):
    """A route whose errors are pages too, not JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_for_people(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError:
                return page("problem.html", status_code=404, title="Nothing here", detail=_NO_SUCH_PAGE)
            except TidegateError as error:
                title = next((name for kind, name in _TITLES if isinstance(error, kind)), "This did not work")
                return page("problem.html", status_code=status_of(error), title=title, detail=str(error))

        return handle_for_people


_TITLES: tuple[tuple[type[TidegateError], str], ...] = (
    (NotFoundError, "Not found"),
    (AccessError, "Not allowed"),
    (Unavailable, "No answer"),
)
_NO_SUCH_PAGE = "This address names no page of the desk."
router = APIRouter(route_class=_DeskRoute, include_in_schema=False)

RuleFilter = Annotated[str | None, Query(max_length=200)]
RangeFilter = Annotated[str | None, Query(alias="range", max_length=8)]


def record_place(topic: str, partition: int, offset: int) -> EventPointer:
    """Return the place in a quarantine topic that the path names."""
    return EventPointer(topic, partition, offset)


async def chosen_parts(request: Request) -> tuple[str, ...]:
    """Read which parts of a record are asked for."""
    return read_parts(await read_body(request, MOST_FORM_BYTES))


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
    stream: str,
    factory: FactoryDep,
    principal: PrincipalDep,
    range_name: RangeFilter = None,
    rule: RuleFilter = None,
) -> Response:
    """Show what a stream refused."""
    now = datetime.now(UTC)
    view = stream_views.stream_view(
        factory.streams(),
        stream,
        range_name=range_name,
        rule=rule or None,
        now=now,
        ranges=ranges_within(factory.report_retention),
    )
    history = factory.expectations().history(stream, view.range.since(now), view.range.until(now))
    declared, findings = factory.shadows().seen(stream)
    return page(
        "stream.html",
        view=view,
        expectations=expectation_rows(history),
        shadow=ShadowView.of(declared, findings),
        reconciliation=ReconciliationView.of(
            factory.reconciliations().seen(stream),
            may_ask=principal.may(Role.APPROVER, subject_of(view.row.summary.topic)),
        ),
        adoptions=factory.adoptions().seen(stream)[:MOST_ADOPTIONS],
    )


@router.get("/desk/streams/{stream}/reconcile")
def asked_before(stream: str) -> Response:
    """Lead back to the stream: a page that is opened again asks for nothing."""
    return RedirectResponse(f"/desk/streams/{stream}#reconciliation", HTTPStatus.SEE_OTHER)


@router.post("/desk/streams/{stream}/reconcile")
def reconcile(stream: str, factory: FactoryDep, principal: PrincipalDep) -> Response:
    """Request a reconciliation, and redirect to the stream's page."""
    factory.reconciliations().ask(stream, principal)
    return asked_before(stream)


@router.get("/desk/streams/{stream}/latest")
def latest_records(
    stream: str, factory: FactoryDep, principal: PrincipalDep, rule: RuleFilter = None
) -> Response:
    """Show the latest refused records; the stream's page fetches this beside itself, for a broker may be slow."""
    summary = factory.streams().summary(stream)
    quarantine = factory.quarantine()
    if quarantine is None:
        return page("latest.html", state="unset", summary=summary, rule=rule, rows=(), latest=None)
    try:
        origin = Origin(stream, summary.topic)
        latest = quarantine.latest(origin, limit=LATEST_RECORDS, rule=rule or None)
    except Unavailable as error:
        return page(
            "latest.html", state="away", summary=summary, rule=rule, rows=(), latest=None, detail=str(error)
        )
    subject = subject_of(summary.topic)

    @cache
    def find(named: str) -> record_views.Viewer:
        evidence = next(each.evidence for each in latest.records if each.evidence.contract == named)
        return _looking(factory, principal, evidence, subject)

    rows = record_views.record_rows(latest, rule, find)
    return page("latest.html", state="read", summary=summary, rule=rule, rows=rows, latest=latest)


@router.get("/desk/records/{topic}/{partition}/{offset}")
def record(
    place: Annotated[EventPointer, Depends(record_place)],
    factory: FactoryDep,
    principal: PrincipalDep,
    view: record_views.View = record_views.View.FORMATTED,
) -> Response:
    """Show one refused record. Only the quarantine topics of contracts are read."""
    origin = _origin_of(factory, principal, place.topic)
    subject = subject_of(origin.topic)
    found = _quarantined(factory, origin, place)
    viewer = _looking(factory, principal, found.evidence, subject)
    return page("record.html", view=record_views.record_view(found, viewer, view))


@router.get("/desk/records/{topic}/{partition}/{offset}/reveal")
def revealed_before(place: Annotated[EventPointer, Depends(record_place)]) -> Response:
    """Lead back to the record: what was revealed once is hidden again."""
    return RedirectResponse(f"/desk/records/{place}", HTTPStatus.SEE_OTHER)


@router.post("/desk/records/{topic}/{partition}/{offset}/reveal")
def reveal(
    place: Annotated[EventPointer, Depends(record_place)],
    factory: FactoryDep,
    principal: PrincipalDep,
    parts: Annotated[tuple[str, ...], Depends(chosen_parts)],
    view: record_views.View = record_views.View.FORMATTED,
) -> Response:
    """Show one refused record with parts that its page hides; who asked for them is written down first."""
    origin = _origin_of(factory, principal, place.topic)
    subject = subject_of(origin.topic)
    require(principal, ROLE, subject)
    found = _quarantined(factory, origin, place)
    viewer = _looking(factory, principal, found.evidence, subject)
    hidden = {each.part for each in record_views.record_view(found, viewer, view).hidden}
    if not hidden.issuperset(parts):
        raise NotFoundError("the record hides nothing of that name; open it again")
    factory.reveals().note(principal, subject, place, parts)
    viewer = _looking(factory, principal, found.evidence, subject, frozenset(parts))
    return page("record.html", view=record_views.record_view(found, viewer, view))


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
    versions = registry.versions(contract_id)
    shown = registry.version(contract_id, version) if version else _current(registry, versions)
    unjudged = unjudged_rules(shown, None)
    return page(
        "contract.html",
        shown=shown,
        unjudged=unjudged,
        unjudged_count=count_of(unjudged),
        versions=versions,
        contract=DataContract.model_validate_json(shown.document),
        lines=lay_out(shown.document, head_lines=MOST_DOCUMENT_LINES),
        read_by=factory.consumers().readers((shown,)).get(shown.registry_id),
        proposals=factory.approvals().proposals(contract_id),
        enforcement=factory.streams().enforcement(contract_id),
    )


def _current(registry: Registry, versions: tuple[ContractVersion, ...]) -> ContractVersion:
    """Return the enforced version, or else the highest."""
    try:
        return registry.version(versions[0].contract_id, LATEST)
    except NotFoundError:
        return versions[0]


@router.get("/desk/static/{digest}/{name}")
def static(digest: str, name: str) -> Response:
    """Return a static file; the digest is part of the address only so that a changed file has another one."""
    if name not in ASSETS or f"/desk/static/{digest}/{name}" != asset(name).address:
        raise NotFoundError(_NO_SUCH_PAGE)
    return asset_response(asset(name))


def _origin_of(factory: Factory, principal: Principal, topic: str) -> Origin:
    """Return the stream that quarantines to a topic, as far as the principal may see it.

    The name alone decides, with the contract that owns the source topic: what reports say of topics counts for nothing.
    """
    source = source_of_quarantine(topic)
    contract_id = None if source is None else factory.registry().contract_of_topic(source)
    if source is None or contract_id is None or not principal.sees(subject_of(source)):
        raise NotFoundError(f"no stream quarantines to a topic {topic}")
    return Origin(contract_id, source)


def _quarantined(factory: Factory, origin: Origin, place: EventPointer) -> QuarantinedRecord:
    quarantine = factory.quarantine()
    if quarantine is None:
        raise Unavailable("the gateway knows no broker: start it with TIDEGATE_BOOTSTRAP_SERVERS set")
    return quarantine.record(origin, place.partition, place.offset)


def _looking(
    factory: Factory,
    principal: Principal,
    evidence: Evidence,
    subject: str,
    revealed: frozenset[str] = frozenset(),
) -> record_views.Viewer:
    """Return a viewer for the contract version (`id@version`) of a record, if the registry shows it."""
    may_reveal = principal.may(ROLE, subject)
    version = _version(factory, principal, evidence.contract)
    if version is None:
        return record_views.Viewer.through(None, None, revealed, may_reveal=may_reveal)
    contract = DataContract.model_validate_json(version.document)
    try:
        plan = factory.plan(version)
    except ContractError:
        plan = None
    if plan is not None:
        plan = with_writers(plan, factory.subjects())
    return record_views.Viewer.through(contract, plan, revealed, may_reveal=may_reveal)


def _version(factory: Factory, principal: Principal, named: str) -> ContractVersion | None:
    contract_id, _, version = named.rpartition("@")
    try:
        found = factory.registry().version(contract_id, version)
    except NotFoundError:
        return None
    return found if principal.sees(subject_of(found.topic)) else None


def read_parts(body: bytes) -> tuple[str, ...]:
    """Read which parts a form asks for. Raises InvalidBody when it asks for none, or for too many."""
    try:
        fields = parse_qsl(body.decode(), max_num_fields=MOST_PARTS)
    except ValueError as error:
        raise InvalidBody(
            "the form cannot be read", (Problem("part", "is given too often, or is no text"),)
        ) from error
    parts = tuple(dict.fromkeys(value for name, value in fields if name == "part"))
    if not parts:
        raise InvalidBody("nothing was chosen", (Problem("part", "choose what to show"),))
    return parts
