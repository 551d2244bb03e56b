"""The page of one problem: its records over time, their origins, and what people decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import Problem, Unavailable
from tidegate.gateway.access.principal import Principal, Role
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.chart import Chart, Series, stacked
from tidegate.gateway.http.desk.desk_route import Form
from tidegate.gateway.http.desk.problems_views import ProblemsFilter
from tidegate.gateway.http.desk.quarantine_views import RecordLine, record_lines
from tidegate.gateway.http.desk.replay_views import ReplayLine, ShownRecords, replay_rows, shown_records
from tidegate.gateway.http.models.quarantine import StateRequest
from tidegate.gateway.http.problems import InvalidBody
from tidegate.gateway.storage.problems import ProblemComment
from tidegate.gateway.streams.problem_states import Mute, ProblemState
from tidegate.gateway.streams.problems import MOST_COMMENT_CHARACTERS, ProblemQuery, StreamProblem
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter
from tidegate.gateway.streams.quarantine_index.reading import Dimension

_EXAMPLES: Final = 3
_MOST_GROUPS: Final = 10
_BUCKETS: Final = 48
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class GroupRow:
    """The problem's records with one value of a dimension; `address` is the URL of their list.

    `share` is a share of the problem's records, from 0 to 1. `is_hashed`: `value` is a hash, not the value itself.
    """

    name: str
    value: str
    records: int
    share: float
    address: str
    is_hashed: bool


@dataclass(frozen=True, slots=True)
class Origins:
    """The problem's records counted by one dimension; `more` is the number of values that are not listed."""

    heading: str
    rows: tuple[GroupRow, ...]
    more: int


@dataclass(frozen=True, slots=True)
class ProblemView:
    """A problem with its origins, some of its records and its history.

    `away` says why no records can be shown; None if they can. `closures` are pairs of closure and number of records.
    `open_records` are those that can be discarded; None if there are none, or the person may not discard them.
    """

    problem: StreamProblem
    wanted: ProblemsFilter
    chart: Chart
    origins: tuple[Origins, ...]
    examples: tuple[RecordLine, ...]
    away: str | None
    comments: tuple[ProblemComment, ...]
    versions: tuple[str, ...]
    records_address: str
    may_work: bool
    may_approve: bool
    replays: tuple[ReplayLine, ...]
    closures: tuple[tuple[str, int], ...]
    open_records: ShownRecords | None


def problem_view(
    factory: Factory, principal: Principal, stream: str, problem: str, wanted: ProblemsFilter
) -> ProblemView:
    """Return the page of a problem. Raises NotFoundError."""
    service, index = factory.problems(principal), factory.quarantine_index(principal)
    query = ProblemQuery(since=wanted.since, until=wanted.until, buckets=_BUCKETS)
    found = service.get(stream, problem, query)
    only = QuarantineFilter(problem=found.id, since=wanted.since, until=wanted.until)
    slices, counts = index.trend(stream, only, _BUCKETS)
    starts = slices.starts
    versions = factory.registry().versions(stream)
    subject = subject_of(versions[0].topic)
    may_approve = principal.may(Role.APPROVER, subject)
    examples, away = _examples(factory, principal, stream, only, found.key.code)
    return ProblemView(
        found,
        wanted,
        stacked(starts[:-1], starts[1] - starts[0], [Series(found.title, counts, 1)]),
        tuple(_origins(factory, principal, stream, only, each) for each in _HEADINGS),
        examples,
        away,
        service.comments(stream, found.id),
        tuple(each.version for each in versions),
        records_address(stream, problem=found.id),
        may_work=principal.may(Role.PRODUCER, subject),
        may_approve=may_approve,
        replays=replay_rows(factory, principal, found, subject),
        closures=tuple((closure.value, count) for closure, count in found.closures.items()),
        open_records=shown_records(factory, stream, found.id) if may_approve else None,
    )


def records_address(stream: str, **wanted: str) -> str:
    """Return the URL of a list of refused records, filtered by the given query parameters."""
    return f"/desk/streams/{stream}/quarantine?{urlencode(wanted)}"


_HEADINGS: Final[Mapping[Dimension, str]] = {
    Dimension.VERSION: "Contract version",
    Dimension.PRODUCER: "Producer",
    Dimension.PARTITION: "Partition of the quarantine topic",
    Dimension.AGAIN: "Refused again by",
}


def _origins(
    factory: Factory, principal: Principal, stream: str, only: QuarantineFilter, by: Dimension
) -> Origins:
    groups, records = factory.quarantine_index(principal).breakdown(stream, by, only)
    rows = tuple(
        GroupRow(
            each.name or "",
            each.shown if each.shown is not None else each.value[:12] if each.name else each.value,
            each.records,
            each.records / records if records else 0.0,
            records_address(stream, problem=only.problem or "", **{by.value: each.value}),
            is_hashed=each.name is not None and each.shown is None,
        )
        for each in groups
    )
    return Origins(_HEADINGS[by], rows[:_MOST_GROUPS], max(0, len(rows) - _MOST_GROUPS))


def _examples(
    factory: Factory, principal: Principal, stream: str, only: QuarantineFilter, code: str
) -> tuple[tuple[RecordLine, ...], str | None]:
    try:
        page = factory.record_search(principal).page(stream, only, _EXAMPLES)
    except Unavailable as error:
        return (), str(error)
    return record_lines(page, {"problem": only.problem or ""}, code), None


def change_state(factory: Factory, principal: Principal, stream: str, problem: str, form: Form) -> None:
    """Change the state of a problem with a form. Raises InvalidBody, NotFoundError, Forbidden, ConflictError."""
    state = _state_in(form)
    mute = _mute_in(form) if state is ProblemState.MUTED else None
    resolved_in = _version_in(form) if state is ProblemState.RESOLVED else None
    factory.problems(principal).change_state(stream, problem, state, mute=mute, resolved_in=resolved_in)


def assign(factory: Factory, principal: Principal, stream: str, problem: str, form: Form) -> None:
    """Set or remove the assignee of a problem with a form. Raises InvalidBody, NotFoundError, Forbidden."""
    assignee = principal.name if form.has("me") else form.text("assignee")
    if assignee is not None and (len(assignee) > _LONGEST_NAME or not assignee.isprintable()):
        raise _wrong("assignee", f"is a name of at most {_LONGEST_NAME} characters in one line")
    factory.problems(principal).assign(stream, problem, assignee)


def comment(factory: Factory, principal: Principal, stream: str, problem: str, form: Form) -> None:
    """Add the comment in a form. Raises InvalidBody, NotFoundError, Forbidden, ConflictError."""
    text = form.text("text")
    if text is None or len(text) > MOST_COMMENT_CHARACTERS:
        raise _wrong("text", f"has 1 to {MOST_COMMENT_CHARACTERS} characters")
    factory.problems(principal).comment(stream, problem, text)


def _state_in(form: Form) -> ProblemState:
    try:
        return ProblemState(form.text("state") or "")
    except ValueError:
        raise _wrong("state", f"is one of {', '.join(ProblemState)}") from None


def _mute_in(form: Form) -> Mute:
    """Return the condition in a form; its time is in UTC unless it has an offset. Raises InvalidBody."""
    until, count, percent = form.text("until"), form.text("count"), form.text("percent")
    try:
        at = None if until is None else datetime.fromisoformat(until)
        wanted = StateRequest(
            state=ProblemState.MUTED,
            until=at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC),
            count=None if count is None else int(count),
            ratio=None if percent is None else float(percent) / 100,
        )
        return Mute(until=wanted.until, count=wanted.count, ratio=wanted.ratio)
    except ValueError:
        raise _wrong(
            "mute", "takes a time, a number of records from 1 on, or a percentage up to 100"
        ) from None


def _version_in(form: Form) -> str | None:
    """Return the contract version in a form, None without one. Raises InvalidBody."""
    try:
        return StateRequest(state=ProblemState.RESOLVED, in_version=form.text("in_version")).in_version
    except ValueError:
        raise _wrong("in_version", "is a version of the contract, such as 1.2.0") from None


def _wrong(name: str, what: str) -> InvalidBody:
    return InvalidBody("the form cannot be used", (Problem(name, what),))
