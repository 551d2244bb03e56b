"""The pages of a stream's refused records, with a filter, the search by key or source position, and downloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, Field

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import NotFoundError, Problem, Unavailable
from tidegate.contracts.explain.account import Explanation
from tidegate.contracts.stream.evidence import EventPointer
from tidegate.contracts.stream.output_topics import source_of_quarantine
from tidegate.contracts.verdict import Stage
from tidegate.gateway.access.principal import Principal
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.desk_route import Fields, Form
from tidegate.gateway.http.desk.parameters import Moment, Number, Words, empty_is_none
from tidegate.gateway.http.desk.wording import machine
from tidegate.gateway.http.problems import InvalidBody
from tidegate.gateway.streams.problems import ProblemQuery, StreamProblem
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter
from tidegate.gateway.streams.quarantine_index.reading import ArrivalPlace, IndexStatus
from tidegate.gateway.streams.quarantine_records import MaskedRecord
from tidegate.gateway.streams.record_export import MEDIA_TYPES, ExportFormat
from tidegate.gateway.streams.record_search import RecordPage
from tidegate.gateway.streams.reveals import REVEAL_ROLE

ROWS: Final = 50
_LONGEST_KEY: Final = 4096


def _cursor(value: object) -> object:
    """Parse the position at which a page continues; None if it is invalid: a truncated link shows the first page."""
    try:
        return ArrivalPlace.parse(str(value)) if value else None
    except ValueError:
        return None


def _stage(value: object) -> object:
    return value if value in set(Stage) else None


Cursor = Annotated[ArrivalPlace | None, BeforeValidator(_cursor)]


class RecordsFilter(BaseModel):
    """A filter of refused records and the start of the page, as query parameters. None matches all.

    `again` is the code by which a replay refused a record again.
    """

    problem: Words = None
    stage: Annotated[Stage | None, BeforeValidator(_stage)] = None
    rule: Words = None
    field: Annotated[Annotated[str, Field(max_length=1000)] | None, BeforeValidator(empty_is_none)] = None
    version: Words = None
    partition: Number = None
    producer: Words = None
    again: Words = None
    since: Moment = Field(default=None, alias="from")
    until: Moment = Field(default=None, alias="to")
    older: Cursor = None
    newer: Cursor = None

    @property
    def wanted(self) -> QuarantineFilter:
        """Return the filter for the index."""
        return QuarantineFilter(
            problem=self.problem,
            stage=self.stage,
            rule=self.rule,
            field=self.field,
            version=self.version,
            partition=self.partition,
            producer=self.producer,
            since=self.since,
            until=self.until,
            again=self.again,
        )

    @property
    def parameters(self) -> dict[str, str]:
        """Return the query parameters of the filter, without the start of the page."""
        given: dict[str, object] = {
            name: getattr(self, name)
            for name in ("problem", "stage", "rule", "field", "version", "partition", "producer", "again")
        }
        moments = {"from": self.since, "to": self.until}
        found = {name: str(value) for name, value in given.items() if value is not None}
        return found | {name: machine(value) for name, value in moments.items() if value is not None}

    def address(self, stream: str, **changes: str) -> str:
        """Return the URL of the list with this filter and additional query parameters."""
        query = {**self.parameters, **changes}
        base = f"/desk/streams/{stream}/quarantine"
        return f"{base}?{urlencode(query)}" if query else base


@dataclass(frozen=True, slots=True)
class RecordLine:
    """One record in a list. `reason` explains one violation, `others` is the number of its other violations."""

    record: MaskedRecord
    address: str
    reason: Explanation | None
    others: int
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Chip:
    """One part of the filter in words; `address` is the URL of the list without it."""

    name: str
    value: str
    address: str


@dataclass(frozen=True, slots=True)
class QuarantineView:
    """A page of records. `away` says why no records can be shown; None if they can.

    `newer` and `older` are the URLs of the neighboring pages; None if there is no such page.
    """

    stream: str
    wanted: RecordsFilter
    chips: tuple[Chip, ...]
    rows: tuple[RecordLine, ...]
    total: int
    status: IndexStatus
    away: str | None
    newer: str | None
    older: str | None
    may_search: bool = False
    """Whether the reader may search for values: a match reveals that a hidden value occurs."""


def quarantine_view(
    factory: Factory, principal: Principal, stream: str, wanted: RecordsFilter
) -> QuarantineView:
    """Return a page of the refused records of a stream. Raises NotFoundError."""
    status = factory.quarantine_index(principal).status(stream)
    problem = _problem(factory, principal, stream, wanted.problem)
    chips = _chips(stream, wanted, problem)
    may_search = principal.may(REVEAL_ROLE, subject_of(source_of_quarantine(status.topic) or ""))
    try:
        search = factory.record_search(principal)
        found = search.page(stream, wanted.wanted, ROWS, (wanted.older, wanted.newer))
    except Unavailable as error:
        return QuarantineView(stream, wanted, chips, (), 0, status, str(error), None, None, may_search)
    page = found.page
    return QuarantineView(
        stream,
        wanted,
        chips,
        record_lines(
            found, wanted.parameters, wanted.rule or (None if problem is None else problem.key.code)
        ),
        page.total,
        status,
        None,
        None if page.newer is None else wanted.address(stream, newer=str(page.newer)),
        None if page.older is None else wanted.address(stream, older=str(page.older)),
        may_search,
    )


def record_lines(
    found: RecordPage, parameters: Mapping[str, str], code: str | None
) -> tuple[RecordLine, ...]:
    """Return the lines of a page of records; the link of a line keeps the query `parameters` of the list.

    The reason of a line is the violation of `code` (a rule or keyword), or the first violation if there is none.
    """
    query = f"?{urlencode(parameters)}" if parameters else ""
    return tuple(_line(each, query, code) for each in found.records)


def _line(record: MaskedRecord, query: str, code: str | None) -> RecordLine:
    partition, _, offset = record.position.partition("/")
    topic = record.source.rsplit("/", 2)[0]
    ranked = sorted(record.explanations, key=lambda each: each.violation.code != code)  # stable
    first = ranked[0] if ranked else None
    others = max(0, len(record.explanations) - 1) + record.left_out
    address = f"/desk/records/{topic}.quarantine/{partition}/{offset}{query}"
    return RecordLine(record, address, first, others, record.refused_at or record.at)


def _chips(stream: str, wanted: RecordsFilter, problem: StreamProblem | None) -> tuple[Chip, ...]:
    chips = []
    parameters = wanted.parameters
    for name, value in parameters.items():
        rest = {other: text for other, text in parameters.items() if other != name}
        address = f"/desk/streams/{stream}/quarantine" + (f"?{urlencode(rest)}" if rest else "")
        shown = problem.title if name == "problem" and problem is not None else value
        chips.append(Chip(name, shown, address))
    return tuple(chips)


def _problem(
    factory: Factory, principal: Principal, stream: str, problem: str | None
) -> StreamProblem | None:
    try:
        return None if problem is None else factory.problems(principal).get(stream, problem, ProblemQuery())
    except NotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class FoundView:
    """The result of a search: (position, URL) of the records found; not all of them if `is_complete` is False."""

    stream: str
    sought: str
    rows: tuple[tuple[str, str], ...]
    is_complete: bool


def found_view(factory: Factory, principal: Principal, stream: str, form: Form) -> FoundView:
    """Search for the records with a key or a source position.

    Raises InvalidBody, NotFoundError, Forbidden and Unavailable.
    """
    search = factory.record_search(principal)
    key, source = form.text("key"), form.text("source")
    if source is not None:
        partition, offset = _position(source)
        found = search.by_source(stream, partition, offset)
        sought = f"source position {partition}/{offset}"
    elif key is not None and len(key) <= _LONGEST_KEY:
        found = search.by_key(stream, key.encode("utf-8", "surrogatepass"))
        sought = "this key"
    else:
        raise InvalidBody("nothing is looked for", (Problem("key", "give a key or a source position"),))
    topic = factory.quarantine_index(principal).status(stream).topic
    rows = tuple((f"{p}/{o}", f"/desk/records/{EventPointer(topic, p, o)}") for p, o in found.positions)
    return FoundView(stream, sought, rows, found.is_complete)


def _position(text: str) -> tuple[int, int]:
    """Parse `partition/offset`, which may follow a topic (`topic/partition/offset`). Raises InvalidBody."""
    parts = text.split("/")[-2:]
    if len(parts) == 2 and all(part.isdecimal() and len(part) < 20 for part in parts):
        partition, offset = int(parts[0]), int(parts[1])
        if partition < 2**31 and offset < 2**63:  # as in Kafka and in the columns of the index
            return partition, offset
    raise InvalidBody("the position cannot be read", (Problem("source", "is written partition/offset"),))


@dataclass(frozen=True, slots=True)
class Download:
    """A downloaded file of refused records, in chunks."""

    name: str
    media_type: str
    parts: Iterator[bytes]


MOST_DOWNLOADED: Final = 100_000


def download(factory: Factory, principal: Principal, stream: str, fields: Fields) -> Download:
    """Start the download that a form describes: `format`, and the filter with the query parameters of the list.

    Records are masked as on pages. Raises InvalidBody, NotFoundError, TooManyRequests and Unavailable.
    """
    form = dict(fields)
    try:
        file_format = ExportFormat(form.get("format", ""))
        wanted = RecordsFilter.model_validate(form)
    except ValueError as error:
        raise InvalidBody("no such download can be made", (Problem("format", str(error)[:200]),)) from error
    exports = factory.record_exports()
    masking = factory.record_masking()
    parts = exports.begin(stream, wanted.wanted, file_format, MOST_DOWNLOADED, masking, principal)
    return Download(f"{stream}.quarantine.{file_format.value}", MEDIA_TYPES[file_format], parts)
