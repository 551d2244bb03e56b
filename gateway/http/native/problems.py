"""Operations on problems: list them, show one, and change its state, assignee and comments."""

from __future__ import annotations

from typing import Annotated

import structlog
from fastapi import APIRouter, Depends, Path, Query

from tidegate.contracts.errors import Problem
from tidegate.contracts.stream.bounds import Instant
from tidegate.gateway.http.dependencies import FactoryDep, body_of, posted
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.quarantine import (
    PROBLEM_ID,
    AssigneeRequest,
    CommentInfo,
    CommentRequest,
    ProblemDetail,
    ProblemInfo,
    ProblemsInfo,
    StateRequest,
)
from tidegate.gateway.http.native.quarantine import group_info
from tidegate.gateway.http.native.streams import StreamName
from tidegate.gateway.http.problems import InvalidBody, responses
from tidegate.gateway.streams.problem_states import Mute, ProblemState
from tidegate.gateway.streams.problems import ProblemQuery, StreamProblem
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter
from tidegate.gateway.streams.quarantine_index.reading import Dimension

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1", tags=["problems"])

_EXAMPLES = 3
_SAME_NAMES = (
    "id",
    "stream",
    "title",
    "comments",
    "records",
    "share",
    "record_share",
    "first_seen",
    "last_seen",
    "known_since",
    "is_surging",
    "trend",
    "members",
)
"""Fields of a problem that its response has under the same names."""

ProblemId = Annotated[str, Path(max_length=64, description="Id of the problem.", examples=[PROBLEM_ID])]


class ProblemSpan:
    """The time span in which problems are counted, as query parameters. None means without limit.

    Raises InvalidBody for an empty span.
    """

    def __init__(
        self,
        since: Annotated[Instant | None, Query(description="Arrived from this minute on.")] = None,
        until: Annotated[Instant | None, Query(description="Arrived before this minute.")] = None,
        buckets: Annotated[int, Query(ge=1, le=1000, description="Number of counts of a trend.")] = 48,
    ) -> None:
        if since is not None and until is not None and since >= until:
            raise InvalidBody("the range is empty", (Problem("since", "must be earlier than until"),))
        self.since, self.until, self.buckets = since, until, buckets

    def query(self, **more: object) -> ProblemQuery:
        """Return the query with this span; `more` are further fields of ProblemQuery."""
        return ProblemQuery(since=self.since, until=self.until, buckets=self.buckets, **more)  # type: ignore[arg-type] # of ProblemQuery


SpanDep = Annotated[ProblemSpan, Depends()]
States = Annotated[list[ProblemState] | None, Query(description="States; may be repeated. Left out: all.")]
SearchText = Annotated[
    str, Query(max_length=200, description="Text that the problem's code, field, shape or sentence holds.")
]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many problems to give at most.")]


@router.get(
    "/problems",
    operation_id="list_all_problems",
    summary="List problems of all streams",
    responses=responses(422, 503),
)
def list_all_problems(
    factory: FactoryDep, principal: PrincipalDep, state: States = None, q: SearchText = "", limit: Limit = 100
) -> ProblemsInfo:
    """List the problems of the 50 streams with the newest refusals, most records of the last 24 hours first."""
    found = factory.problems(principal).newest(ProblemQuery(frozenset(state or ()), q, limit=limit))
    shown = tuple(map(problem_info, found))
    return ProblemsInfo(problems=shown, total=len(found), refused=None, trend_from=None, trend_until=None)


@router.get(
    "/streams/{stream}/problems",
    operation_id="list_problems",
    summary="List the problems of a stream",
    responses=responses(404, 422, 503),
)
def list_problems(  # noqa: PLR0913 - one for each parameter of the query
    stream: StreamName,
    factory: FactoryDep,
    span: SpanDep,
    *,
    state: States = None,
    q: SearchText = "",
    limit: Limit = 100,
    offset: Annotated[int, Query(ge=0, le=10_000, description="How many problems to leave out first.")] = 0,
) -> ProblemsInfo:
    """List the problems of a stream's refused records, most records first."""
    query = span.query(states=frozenset(state or ()), text=q, limit=limit, offset=offset)
    found = factory.problems().list(stream, query)
    starts = found.slices.starts
    return ProblemsInfo(
        problems=tuple(map(problem_info, found.problems)),
        total=found.total,
        refused=found.refused,
        trend_from=starts[0],
        trend_until=starts[-1],
    )


@router.get(
    "/streams/{stream}/problems/{problem}",
    operation_id="get_problem",
    summary="Show a problem",
    responses=responses(404, 422, 503),
)
def get_problem(stream: StreamName, problem: ProblemId, factory: FactoryDep, span: SpanDep) -> ProblemDetail:
    """Show a problem: since when, how often, from which versions, partitions and producers, what failed again, and examples."""
    found = factory.problems().get(stream, problem, span.query())
    wanted = QuarantineFilter(problem=found.id, since=span.since, until=span.until)
    index = factory.quarantine_index()
    groups = {
        by: tuple(group_info(each, records) for each in found_groups)
        for by in (Dimension.VERSION, Dimension.PARTITION, Dimension.PRODUCER, Dimension.AGAIN)
        for found_groups, records in [index.breakdown(stream, by, wanted)]
    }
    newest = index.page(stream, wanted, _EXAMPLES)
    comments = factory.problems().comments(stream, problem)
    return ProblemDetail(
        **problem_info(found).model_dump(),
        by_version=groups[Dimension.VERSION],
        by_partition=groups[Dimension.PARTITION],
        by_producer=groups[Dimension.PRODUCER],
        by_again=groups[Dimension.AGAIN],
        examples=tuple(f"{each.partition}/{each.offset}" for each in newest.places),
        comment_list=tuple(CommentInfo(at=each.at, by=each.by, text=each.text) for each in comments),
        changes=found.decision.changes,
    )


@router.post(
    "/streams/{stream}/problems/{problem}/state",
    operation_id="change_problem_state",
    summary="Change the state of a problem",
    responses=responses(403, 404, 409, 413, 415, 422, 503),
    openapi_extra=body_of(StateRequest),
)
def change_problem_state(
    stream: StreamName,
    problem: ProblemId,
    wanted: Annotated[StateRequest, posted(StateRequest, "state of a problem")],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> ProblemInfo:
    """Open, acknowledge, mute or resolve a problem. To mute one, which silences alerts, needs an approver."""
    is_muted = wanted.state is ProblemState.MUTED
    mute = Mute(until=wanted.until, count=wanted.count, ratio=wanted.ratio) if is_muted else None
    resolved_in = wanted.in_version if wanted.state is ProblemState.RESOLVED else None
    service = factory.problems(principal)
    found = service.change_state(stream, problem, wanted.state, mute=mute, resolved_in=resolved_in)
    _log.info("problem_state_changed", stream=stream, problem=found.id, state=wanted.state.value)
    return problem_info(found)


@router.post(
    "/streams/{stream}/problems/{problem}/assignee",
    operation_id="assign_problem",
    summary="Assign a problem",
    responses=responses(403, 404, 413, 415, 422, 503),
    openapi_extra=body_of(AssigneeRequest),
)
def assign_problem(
    stream: StreamName,
    problem: ProblemId,
    wanted: Annotated[AssigneeRequest, posted(AssigneeRequest, "assignee of a problem")],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> ProblemInfo:
    """Set the assignee of a problem."""
    return problem_info(factory.problems(principal).assign(stream, problem, wanted.assignee))


@router.post(
    "/streams/{stream}/problems/{problem}/comments",
    operation_id="comment_on_problem",
    summary="Comment on a problem",
    responses=responses(403, 404, 409, 413, 415, 422, 503),
    openapi_extra=body_of(CommentRequest),
)
def comment_on_problem(
    stream: StreamName,
    problem: ProblemId,
    wanted: Annotated[CommentRequest, posted(CommentRequest, "comment")],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> CommentInfo:
    """Add a comment; a problem keeps at most 200 of them."""
    comment = factory.problems(principal).comment(stream, problem, wanted.text)
    return CommentInfo(at=comment.at, by=comment.by, text=comment.text)


def problem_info(problem: StreamProblem) -> ProblemInfo:
    """Convert a problem to its response model."""
    key, decision = problem.key, problem.decision
    return ProblemInfo(
        **{name: getattr(problem, name) for name in _SAME_NAMES},
        stage=key.stage,
        code=key.code,
        field=key.field,
        shape=key.shape,
        sentence=key.sentence or problem.message,
        state=decision.state,
        muted=decision.mute,
        resolved_in=decision.resolved_in,
        assignee=decision.assignee,
    )
