"""Searches for a value in refused records: the progress and results of one, and the list of a stream's searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate.contracts.errors import Problem
from tidegate.contracts.stream.evidence import EventPointer
from tidegate.gateway.access.principal import Principal
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.desk_route import Fields
from tidegate.gateway.http.desk.quarantine_views import RecordsFilter
from tidegate.gateway.http.problems import InvalidBody
from tidegate.gateway.streams.value_search import MOST_FOUND, MOST_RECORDS, SearchState, ValueSearch

LONGEST_VALUE: Final = 1000
_SENTENCES: Final = {
    SearchState.RUNNING: "It goes on in the background; this page follows it.",
    SearchState.DONE: "Every record was looked at.",
    SearchState.FULL: f"It ended with {MOST_FOUND:,} records. There may be more: search within a filter.",
    SearchState.BOUNDED: f"It ended at its limit of {MOST_RECORDS:,} records or 15 minutes: search within a filter.",
    SearchState.CANCELLED: "A person cancelled it; what it had found until then is listed.",
    SearchState.FAILED: "It broke off: its registry ended, or the broker did not answer. Begin it again.",
}
_CLASSES: Final = {
    SearchState.RUNNING: "usual",
    SearchState.DONE: "clear",
    SearchState.FAILED: "stopped",
    SearchState.CANCELLED: "quiet",
}


@dataclass(frozen=True, slots=True)
class SearchLine:
    """One search: `name` is a CSS class, `sentence` its state in words."""

    search: ValueSearch
    name: str
    sentence: str

    @property
    def percent(self) -> int:
        """Return the searched share of the records in percent, from 0 to 100."""
        total = self.search.total
        return 100 if not total else min(100, 100 * self.search.looked_at // total)

    @property
    def is_running(self) -> bool:
        """Return whether the search is running, and can be cancelled."""
        return self.search.state is SearchState.RUNNING


@dataclass(frozen=True, slots=True)
class SearchesView:
    """The searches of a stream, newest first.

    `chosen` is the search that the page shows, `rows` are the (position, URL) pairs that it found.
    """

    stream: str
    searches: tuple[SearchLine, ...]
    chosen: SearchLine | None = None
    rows: tuple[tuple[str, str], ...] = ()


def searches_view(factory: Factory, principal: Principal, stream: str, search_id: str | None) -> SearchesView:
    """Return the searches of a stream, and the results of one (None: of none). Raises NotFoundError."""
    topic = factory.quarantine_index(principal).status(stream).topic
    searches = factory.value_searches()
    lines = tuple(map(_line, searches.all(stream)))
    if search_id is None:
        return SearchesView(stream, lines)
    chosen = _line(searches.get(stream, search_id))
    rows = tuple((each, _address(topic, each)) for each in chosen.search.positions)
    return SearchesView(stream, lines, chosen, rows)


def begin_search(factory: Factory, principal: Principal, stream: str, fields: Fields) -> ValueSearch:
    """Start the search that a form describes, within the filter of its list.

    Raises InvalidBody, NotFoundError, Forbidden, TooManyRequests and Unavailable.
    """
    form = dict(fields)
    value = form.get("value", "")
    if not 0 < len(value) <= LONGEST_VALUE:
        raise InvalidBody(
            "nothing is looked for", (Problem("value", f"has 1 to {LONGEST_VALUE:,} characters"),)
        )
    try:
        wanted = RecordsFilter.model_validate(form)
    except ValueError as error:
        raise InvalidBody(
            "the filter cannot be read", (Problem("filter", "open the list again, and search from there"),)
        ) from error
    return factory.value_searches().begin(stream, value, wanted.wanted, principal)


def _line(search: ValueSearch) -> SearchLine:
    return SearchLine(search, _CLASSES.get(search.state, "paused"), _SENTENCES[search.state])


def _address(topic: str, position: str) -> str:
    partition, _, offset = position.partition("/")
    return f"/desk/records/{EventPointer(topic, int(partition), int(offset))}"
