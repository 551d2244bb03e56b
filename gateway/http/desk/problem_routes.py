"""Pages about problems and the refused records behind them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

import structlog
from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import RedirectResponse, StreamingResponse

from tidegate.gateway.access.limits import checked
from tidegate.gateway.http.dependencies import FactoryDep
from tidegate.gateway.http.desk import problem_views, replay_views
from tidegate.gateway.http.desk.desk_route import DeskRoute, Fields, FormDep, ShowDep, posted_fields
from tidegate.gateway.http.desk.problems_views import (
    ProblemsFilter,
    problem_address,
    problems_of,
    problems_of_all,
)
from tidegate.gateway.http.desk.quarantine_views import RecordsFilter, download, found_view, quarantine_view
from tidegate.gateway.http.desk.search_views import begin_search, searches_view
from tidegate.gateway.http.gate import PrincipalDep

_log = structlog.get_logger()

router = APIRouter(route_class=DeskRoute, include_in_schema=False)

Wanted = Annotated[ProblemsFilter, Query()]


@router.get("/desk/problems")
def all_problems(factory: FactoryDep, principal: PrincipalDep, show: ShowDep, wanted: Wanted) -> Response:
    """List the problems of all streams."""
    return show("problems.html", view=problems_of_all(factory, principal, wanted))


@router.get("/desk/streams/{stream}/problems")
def problems(
    stream: str, factory: FactoryDep, principal: PrincipalDep, show: ShowDep, wanted: Wanted
) -> Response:
    """List the problems of a stream."""
    return show("problems.html", view=problems_of(factory, principal, stream, wanted))


@router.get("/desk/streams/{stream}/problems/{problem}")
def problem(
    stream: str, problem: str, factory: FactoryDep, principal: PrincipalDep, show: ShowDep, wanted: Wanted
) -> Response:
    """Show one problem."""
    return show("problem.html", view=problem_views.problem_view(factory, principal, stream, problem, wanted))


@router.post("/desk/streams/{stream}/problems/{problem}/state")
def change_state(
    stream: str, problem: str, factory: FactoryDep, principal: PrincipalDep, form: FormDep
) -> Response:
    """Change the state of a problem."""
    problem_views.change_state(factory, principal, stream, problem, form)
    _log.info("problem_state_changed", stream=stream, problem=problem[:64], state=form.text("state"))
    return RedirectResponse(problem_address(stream, problem), HTTPStatus.SEE_OTHER)


@router.post("/desk/streams/{stream}/problems/{problem}/assignee")
def assign(
    stream: str, problem: str, factory: FactoryDep, principal: PrincipalDep, form: FormDep
) -> Response:
    """Set the assignee of a problem."""
    problem_views.assign(factory, principal, stream, problem, form)
    return RedirectResponse(problem_address(stream, problem), HTTPStatus.SEE_OTHER)


@router.post("/desk/streams/{stream}/problems/{problem}/comments")
def comment(
    stream: str, problem: str, factory: FactoryDep, principal: PrincipalDep, form: FormDep
) -> Response:
    """Add a comment to a problem."""
    problem_views.comment(factory, principal, stream, problem, form)
    return RedirectResponse(f"{problem_address(stream, problem)}#comments", HTTPStatus.SEE_OTHER)


@router.get("/desk/streams/{stream}/problems/{problem}/replay")
def prepare_replay(
    stream: str, problem: str, factory: FactoryDep, principal: PrincipalDep, show: ShowDep
) -> Response:
    """Show the form for a fix, the first step of a replay."""
    return show("replay.html", view=replay_views.replay_view(factory, principal, stream, problem))


@router.post("/desk/streams/{stream}/problems/{problem}/replay")
@checked
def preview_replay(
    stream: str, problem: str, factory: FactoryDep, principal: PrincipalDep, show: ShowDep, form: FormDep
) -> Response:
    """Preview a fix without changing anything. It is a POST because a fix may contain values of records."""
    view = replay_views.replay_view(factory, principal, stream, problem, form)
    status = HTTPStatus.UNPROCESSABLE_ENTITY if view.mistakes else HTTPStatus.OK
    return show("replay.html", status_code=status, view=view)


@router.post("/desk/streams/{stream}/problems/{problem}/replays")
@checked
def ask_for_replay(
    stream: str, problem: str, factory: FactoryDep, principal: PrincipalDep, form: FormDep
) -> Response:
    """Request the replay that was previewed."""
    found = replay_views.ask_for_replay(factory, principal, stream, problem, form)
    _log.info("replay_asked", stream=stream, replay=str(found.id), records=found.records)
    return RedirectResponse(f"{problem_address(stream, problem)}#replays", HTTPStatus.SEE_OTHER)


@router.post("/desk/streams/{stream}/problems/{problem}/discards")
@checked
def ask_to_discard(
    stream: str, problem: str, factory: FactoryDep, principal: PrincipalDep, form: FormDep
) -> Response:
    """Request that the open records of a problem are discarded."""
    found = replay_views.ask_to_discard(factory, principal, stream, problem, form)
    _log.info("discard_asked", stream=stream, replay=str(found.id), records=found.records)
    return RedirectResponse(f"{problem_address(stream, problem)}#replays", HTTPStatus.SEE_OTHER)


@router.post("/desk/streams/{stream}/problems/{problem}/replays/{replay}")
def decide_replay(
    stream: str, problem: str, replay: UUID, factory: FactoryDep, principal: PrincipalDep, form: FormDep
) -> Response:
    """Approve or cancel a request for a replay or discard."""
    found = replay_views.approve_or_cancel(factory, principal, stream, replay, form)
    _log.info("replay_decided", stream=stream, replay=str(replay), state=found.state)
    return RedirectResponse(f"{problem_address(stream, problem)}#replays", HTTPStatus.SEE_OTHER)


@router.get("/desk/streams/{stream}/quarantine")
def quarantine(
    stream: str,
    factory: FactoryDep,
    principal: PrincipalDep,
    show: ShowDep,
    wanted: Annotated[RecordsFilter, Query()],
) -> Response:
    """List refused records."""
    return show("quarantine.html", view=quarantine_view(factory, principal, stream, wanted))


@router.post("/desk/streams/{stream}/quarantine/find")
def find(stream: str, factory: FactoryDep, principal: PrincipalDep, show: ShowDep, form: FormDep) -> Response:
    """Find records by key or position. It is a POST so that no URL contains a key."""
    return show("found.html", view=found_view(factory, principal, stream, form))


@router.get("/desk/streams/{stream}/quarantine/searches")
def searches(stream: str, factory: FactoryDep, principal: PrincipalDep, show: ShowDep) -> Response:
    """List the searches for values."""
    return show("searches.html", view=searches_view(factory, principal, stream, None))


@router.post("/desk/streams/{stream}/quarantine/searches")
def search(
    stream: str,
    factory: FactoryDep,
    principal: PrincipalDep,
    fields: Annotated[Fields, Depends(posted_fields)],
) -> Response:
    """Start a search, and redirect to it. It is a POST so that no URL contains the value."""
    found = begin_search(factory, principal, stream, fields)
    _log.info("value_search_started", stream=stream, search=found.id)
    return _to_search(stream, found.id)


@router.get("/desk/streams/{stream}/quarantine/searches/{search}")
def one_search(
    stream: str, search: str, factory: FactoryDep, principal: PrincipalDep, show: ShowDep
) -> Response:
    """Show the progress and the results of a search."""
    return show("searches.html", view=searches_view(factory, principal, stream, search))


@router.post("/desk/streams/{stream}/quarantine/searches/{search}/cancel")
def cancel_search(stream: str, search: str, factory: FactoryDep, principal: PrincipalDep) -> Response:
    """Cancel a search, and redirect to it."""
    return _to_search(stream, factory.value_searches().cancel(stream, search, principal).id)


def _to_search(stream: str, search: str) -> Response:
    return RedirectResponse(f"/desk/streams/{stream}/quarantine/searches/{search}", HTTPStatus.SEE_OTHER)


@router.post("/desk/streams/{stream}/quarantine/download")
def download_records(
    stream: str,
    factory: FactoryDep,
    principal: PrincipalDep,
    fields: Annotated[Fields, Depends(posted_fields)],
) -> Response:
    """Download refused records. It is a POST because it adds an entry to the audit log."""
    found = download(factory, principal, stream, fields)
    _log.info("refused_records_exported", stream=stream, format=found.name.rpartition(".")[2])
    headers = {"Content-Disposition": f'attachment; filename="{found.name}"', "Cache-Control": "no-store"}
    return StreamingResponse(found.parts, headers=headers, media_type=found.media_type)
