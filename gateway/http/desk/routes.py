"""Pages about streams and their refused records, and the static files of all pages."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated

import structlog
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from tidegate.contracts.errors import Problem
from tidegate.contracts.stream.evidence import EventPointer
from tidegate.gateway.access.limits import checked
from tidegate.gateway.http.dependencies import FactoryDep
from tidegate.gateway.http.desk.action_views import Action, action_view, perform
from tidegate.gateway.http.desk.desk_route import (
    DeskRoute,
    Fields,
    FormDep,
    ShowDep,
    no_such_page,
    posted_fields,
)
from tidegate.gateway.http.desk.latest_views import latest_view
from tidegate.gateway.http.desk.quarantine_views import RecordsFilter
from tidegate.gateway.http.desk.record_access import neighbours_of, revealed_record, shown_record
from tidegate.gateway.http.desk.record_views import View
from tidegate.gateway.http.desk.rendering import ASSETS, asset, asset_response
from tidegate.gateway.http.desk.stream_sections import stream_page
from tidegate.gateway.http.desk.stream_views import StreamFilter
from tidegate.gateway.http.desk.streams_views import StreamsFilter, streams_view
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.problems import InvalidBody
from tidegate.gateway.streams.reveals import MOST_PARTS

_log = structlog.get_logger()

router = APIRouter(route_class=DeskRoute, include_in_schema=False)

RuleFilter = Annotated[str | None, Query(max_length=200)]


def record_place(topic: str, partition: int, offset: int) -> EventPointer:
    """Return the position in a quarantine topic from the path, as a FastAPI dependency."""
    return EventPointer(topic, partition, offset)


def records_filter(request: Request) -> RecordsFilter:
    """Return the filter in the query of a record's URL, as a FastAPI dependency; an invalid filter is ignored."""
    try:
        return RecordsFilter.model_validate(dict(request.query_params))
    except ValidationError:
        return RecordsFilter()


def chosen_parts(fields: Annotated[Fields, Depends(posted_fields)]) -> tuple[str, ...]:
    """Return the parts of a record that a form requests. Raises InvalidBody for none, or more than MOST_PARTS."""
    parts = tuple(dict.fromkeys(value for name, value in fields if name == "part" and value))
    if not parts or len(parts) > MOST_PARTS:
        raise InvalidBody("nothing was chosen, or too much", (Problem("part", "choose what to show"),))
    return parts


@router.get("/")
def home() -> Response:
    """Redirect to the desk."""
    return RedirectResponse("/desk")


@router.get("/desk")
def streams(
    factory: FactoryDep, principal: PrincipalDep, show: ShowDep, wanted: Annotated[StreamsFilter, Query()]
) -> Response:
    """List the streams."""
    return show("streams.html", view=streams_view(factory, principal, wanted, datetime.now(UTC)))


@router.get("/desk/streams/{stream}")
def stream(
    stream: str,
    factory: FactoryDep,
    principal: PrincipalDep,
    show: ShowDep,
    wanted: Annotated[StreamFilter, Query()],
) -> Response:
    """Show the page of a stream."""
    return show("stream.html", page=stream_page(factory, principal, stream, wanted))


@router.get("/desk/streams/{stream}/actions/{action}")
@checked
def action(
    stream: str,
    action: Action,
    factory: FactoryDep,
    principal: PrincipalDep,
    show: ShowDep,
    choice: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Show a preview of an action."""
    return show("action.html", view=action_view(factory, principal, stream, action, choice or None))


@router.post("/desk/streams/{stream}/actions/{action}")
@checked
def act(stream: str, action: Action, factory: FactoryDep, principal: PrincipalDep, form: FormDep) -> Response:
    """Perform an action, and redirect to the stream."""
    perform(factory, principal, stream, action, form)
    _log.info("stream_action", stream=stream, action=action.value)
    return RedirectResponse(
        f"/desk/streams/{stream}#{_SECTIONS.get(action, 'content')}", HTTPStatus.SEE_OTHER
    )


_SECTIONS = {Action.RECONCILE: "reconciliation", Action.SHADOW: "shadow"}
"""The section of the stream's page that shows the effect of an action."""


@router.get("/desk/streams/{stream}/latest")
def latest_records(
    stream: str, factory: FactoryDep, principal: PrincipalDep, show: ShowDep, rule: RuleFilter = None
) -> Response:
    """Show the latest refused records; a script of the stream's page loads this fragment."""
    return show("latest.html", view=latest_view(factory, principal, stream, rule or None))


@router.get("/desk/records/{topic}/{partition}/{offset}")
def record(
    place: Annotated[EventPointer, Depends(record_place)],
    factory: FactoryDep,
    principal: PrincipalDep,
    show: ShowDep,
    wanted: Annotated[RecordsFilter, Depends(records_filter)],
    view: View = View.FORMATTED,
) -> Response:
    """Show one refused record, with links to its neighbors within the filter in the query."""
    shown = shown_record(factory, principal, place, view)
    return show("record.html", view=shown, beside=neighbours_of(factory, principal, place, wanted))


@router.get("/desk/records/{topic}/{partition}/{offset}/reveal")
def revealed_before(place: Annotated[EventPointer, Depends(record_place)]) -> Response:
    """Redirect to the record, with all values hidden again: a reload of a reveal is a GET."""
    return RedirectResponse(f"/desk/records/{place}", HTTPStatus.SEE_OTHER)


@router.post("/desk/records/{topic}/{partition}/{offset}/reveal")
def reveal(
    place: Annotated[EventPointer, Depends(record_place)],
    factory: FactoryDep,
    principal: PrincipalDep,
    show: ShowDep,
    parts: Annotated[tuple[str, ...], Depends(chosen_parts)],
    view: View = View.FORMATTED,
) -> Response:
    """Show one refused record with the chosen hidden parts revealed."""
    return show("record.html", view=revealed_record(factory, principal, place, view, parts), beside=None)


@router.get("/desk/static/{digest}/{name}")
def static(digest: str, name: str) -> Response:
    """Return a static file. The digest is in the URL so that a changed file gets a new URL."""
    if name not in ASSETS or f"/desk/static/{digest}/{name}" != asset(name).address:
        raise no_such_page()
    return asset_response(asset(name))
