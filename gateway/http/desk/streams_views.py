"""The page with the list of streams, those that need a person first, with filters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import BaseModel

from tidegate.gateway.access.principal import Principal
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.parameters import Words
from tidegate.gateway.http.desk.stream_states import StreamLine, stream_row
from tidegate.gateway.storage.sql import VersionFilter

_ORDER: Final = ("stopped", "silent", "raised", "paused", "usual", "clear", "quiet")
"""The names of the states, in the order of the list: those that need a person first."""
_NEEDS_SOMEONE: Final = frozenset({"stopped", "silent", "raised", "paused"})
MOST_STREAMS: Final = 5000


class StreamsFilter(BaseModel):
    """The filters of the list, as query parameters. `q` is a part of a name, topic or owner."""

    q: Words = None
    owner: Words = None
    domain: Words = None
    state: Words = None


@dataclass(frozen=True, slots=True)
class OwnedStream:
    """One stream with the owner and domain of its contract; "" if the contract has none."""

    row: StreamLine
    owner: str
    domain: str


@dataclass(frozen=True, slots=True)
class StateCount:
    """The number of streams with a state; `name` is its CSS class, `label` the state in words."""

    name: str
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class StreamsView:
    """The list of streams. `total` is the number of visible streams, `troubled` of those that need attention."""

    wanted: StreamsFilter
    rows: tuple[OwnedStream, ...]
    total: int
    troubled: int
    owners: tuple[str, ...]
    domains: tuple[str, ...]
    states: tuple[StateCount, ...]
    is_filtered: bool


NEEDS_A_LOOK: Final = "attention"


def streams_view(factory: Factory, principal: Principal, wanted: StreamsFilter, now: datetime) -> StreamsView:
    """Return the streams that a principal may see and that match the filters, those that need a person first."""
    owners = _owners(factory, principal)
    rows = [
        OwnedStream(stream_row(summary, now), *owners.get(summary.stream, ("", "")))
        for summary in factory.streams(principal).summaries()
    ]
    rows.sort(key=lambda each: (_ORDER.index(each.row.state.name), each.row.summary.stream))
    found = tuple(each for each in rows if _passes(each, wanted))
    return StreamsView(
        wanted,
        found,
        len(rows),
        sum(_needs_someone(each) for each in rows),
        tuple(sorted({each.owner for each in rows} - {""})),
        tuple(sorted({each.domain for each in rows} - {""})),
        _states(rows),
        is_filtered=any((wanted.q, wanted.owner, wanted.domain, wanted.state)),
    )


def _owners(factory: Factory, principal: Principal) -> dict[str, tuple[str, str]]:
    """Return the owner and domain of each visible contract by id, as in its current version; "" for none."""
    page = factory.registry().contracts(
        VersionFilter(prefixes=principal.prefixes), offset=0, limit=MOST_STREAMS
    )
    return {each.contract_id: (owner_in(each.document), each.domain or "") for each in page.contracts}


def owner_in(document: bytes) -> str:
    """Return the name of the team in a published document; "" if there is none."""
    team = json.loads(document).get("team")  # validated at publication; models for a whole list take a second
    return "" if team is None else str(team["name"])


def _needs_someone(each: OwnedStream) -> bool:
    return each.row.state.name in _NEEDS_SOMEONE


def _passes(each: OwnedStream, wanted: StreamsFilter) -> bool:
    words = f"{each.row.summary.stream}\n{each.row.summary.topic}\n{each.owner}".casefold()
    return (
        (wanted.q is None or wanted.q.casefold() in words)
        and wanted.owner in {None, each.owner}
        and wanted.domain in {None, each.domain}
        and (wanted.state in {None, each.row.state.label} or _is_attention(each, wanted.state))
    )


def _is_attention(each: OwnedStream, state: str | None) -> bool:
    return state == NEEDS_A_LOOK and _needs_someone(each)


def _states(rows: list[OwnedStream]) -> tuple[StateCount, ...]:
    counts: dict[tuple[str, str], int] = {}
    for each in rows:
        key = each.row.state.name, each.row.state.label
        counts[key] = counts.get(key, 0) + 1
    return tuple(StateCount(name, label, count) for (name, label), count in counts.items())
