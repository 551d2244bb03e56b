"""The lists of problems: of one stream, and of all streams that a principal may see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Final
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, Field

from tidegate.contracts.errors import NotFoundError
from tidegate.gateway.access.principal import Principal
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.chart import sparkline
from tidegate.gateway.http.desk.parameters import Moment, Words
from tidegate.gateway.http.desk.stream_states import SPARK_HEIGHT, SPARK_WIDTH
from tidegate.gateway.http.desk.wording import machine
from tidegate.gateway.streams.problem_states import ProblemState
from tidegate.gateway.streams.problems import ProblemQuery, StreamProblem
from tidegate.gateway.streams.quarantine_index.reading import IndexStatus

ROWS: Final = 50
MOST_OF_ALL: Final = 200
"""Maximum number of problems in the list of all streams: those with most records in the last 24 hours."""
_UNSETTLED: Final = frozenset({ProblemState.OPEN, ProblemState.REGRESSED, ProblemState.ACKNOWLEDGED})
UNSETTLED: Final = "unsettled"
"""The value of the parameter `state` for all problems that need a person."""
EVERY: Final = "all"


class ProblemsFilter(BaseModel):
    """A filter of problems, as query parameters. `q` is a part of the description; `start` is a row number."""

    state: Words = None
    q: Words = None
    since: Moment = Field(default=None, alias="from")
    until: Moment = Field(default=None, alias="to")
    start: Annotated[int, BeforeValidator(lambda value: value or 0), Field(ge=0, le=10_000)] = 0

    def query(self) -> ProblemQuery:
        """Return the query for ProblemService. An unknown state selects the problems that need a person."""
        states = _UNSETTLED
        if self.state == EVERY:
            states = frozenset()
        elif self.state in set(ProblemState):
            states = frozenset({ProblemState(self.state)})
        return ProblemQuery(states, self.q or "", self.since, self.until, limit=ROWS, offset=self.start)

    def address(self, base: str, **changes: object) -> str:
        """Return the URL `base` with this filter, after `changes` of some fields."""
        values: dict[str, object] = {**self.model_dump(), **changes}
        query = {
            "state": values["state"],
            "q": values["q"],
            "from": machine(values["since"]) if isinstance(values["since"], datetime) else None,
            "to": machine(values["until"]) if isinstance(values["until"], datetime) else None,
            "start": values["start"] or None,
        }
        given = {name: str(value) for name, value in query.items() if value}
        return f"{base}?{urlencode(given)}" if given else base


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """One problem in a list; `spark` is the SVG path of its sparkline."""

    problem: StreamProblem
    address: str
    spark: str


@dataclass(frozen=True, slots=True)
class ProblemsView:
    """A list of problems. `chosen` is the selected state; `states` are the choices as (value, label).

    `refused` is the number of refused records of the stream in the time range. `stream`, `refused` and `status` are
    None for the list of all streams.
    """

    stream: str | None
    base: str
    wanted: ProblemsFilter
    chosen: str
    rows: tuple[ProblemRow, ...]
    total: int
    refused: int | None
    status: IndexStatus | None
    states: tuple[tuple[str, str], ...]
    is_filtered: bool
    previous: str | None
    next: str | None


_CHOICES: Final = (
    (UNSETTLED, "Waiting for somebody"),
    *((state.value, state.value.capitalize()) for state in ProblemState),
    (EVERY, "All"),
)


def problems_of(factory: Factory, principal: Principal, stream: str, wanted: ProblemsFilter) -> ProblemsView:
    """Return the problems of a stream. Raises NotFoundError."""
    base = f"/desk/streams/{stream}/problems"
    found = factory.problems(principal).list(stream, wanted.query())
    view = _view(stream, base, wanted, found.problems, found.total)
    after = wanted.start + ROWS
    return _with(
        view,
        found.refused,
        factory.quarantine_index(principal).status(stream),
        wanted.address(base, start=max(0, wanted.start - ROWS)) if wanted.start else None,
        wanted.address(base, start=after) if after < found.total else None,
    )


def problems_of_all(factory: Factory, principal: Principal, wanted: ProblemsFilter) -> ProblemsView:
    """Return the problems of all visible streams, those with most records in the last 24 hours first."""
    query = wanted.query()
    found = factory.problems(principal).newest(ProblemQuery(query.states, query.text, limit=MOST_OF_ALL))
    return _view(None, "/desk/problems", wanted, found, len(found))


def _view(
    stream: str | None, base: str, wanted: ProblemsFilter, problems: tuple[StreamProblem, ...], total: int
) -> ProblemsView:
    known = {name for name, _ in _CHOICES}
    return ProblemsView(
        stream,
        base,
        wanted,
        wanted.state if wanted.state in known else UNSETTLED,
        tuple(problem_row(each) for each in problems),
        total,
        None,
        None,
        _CHOICES,
        is_filtered=any((wanted.q, wanted.state, wanted.since, wanted.until)),
        previous=None,
        next=None,
    )


def _with(
    view: ProblemsView, refused: int, status: IndexStatus, previous: str | None, following: str | None
) -> ProblemsView:
    return replace(view, refused=refused, status=status, previous=previous, next=following)


def problem_row(problem: StreamProblem) -> ProblemRow:
    """Return the row of a problem in a list."""
    return ProblemRow(
        problem,
        problem_address(problem.stream, problem.id),
        sparkline(problem.trend, SPARK_WIDTH, SPARK_HEIGHT),
    )


def problem_address(stream: str, problem: str) -> str:
    """Return the permanent URL of a problem."""
    return f"/desk/streams/{stream}/problems/{problem}"


def waiting_problems(factory: Factory, principal: Principal, stream: str) -> tuple[ProblemRow, ...]:
    """Return the first problems of a stream that need a person; an empty tuple for a stream without a contract."""
    query = ProblemQuery(_UNSETTLED, limit=_FEW)
    try:
        found = factory.problems(principal).list(stream, query)
    except NotFoundError:
        return ()
    return tuple(problem_row(each) for each in found.problems)


_FEW: Final = 5
