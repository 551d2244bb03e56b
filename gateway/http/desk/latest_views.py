"""The latest refused records of a stream: a part of its page that is loaded separately, as a broker may be slow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import Unavailable
from tidegate.gateway.access.principal import Principal
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.record_access import viewer_of
from tidegate.gateway.http.desk.record_views import RecordRow, record_rows
from tidegate.gateway.streams.quarantine import Latest, Origin
from tidegate.gateway.streams.summaries import StreamSummary

LATEST_RECORDS = 20


@dataclass(frozen=True, slots=True)
class LatestView:
    """The latest refused records, of one rule unless `rule` is None.

    `state` is `read`, `unset` if no broker is configured, or `away` if the broker failed; then `detail` says why.
    """

    state: str
    summary: StreamSummary
    rule: str | None
    rows: tuple[RecordRow, ...] = ()
    latest: Latest | None = None
    detail: str = ""


def latest_view(factory: Factory, principal: Principal, stream: str, rule: str | None) -> LatestView:
    """Return the latest refused records of a stream; with `rule`, those that violate it. Raises NotFoundError."""
    summary = factory.streams().summary(stream)
    quarantine = factory.quarantine()
    if quarantine is None:
        return LatestView("unset", summary, rule)
    try:
        latest = quarantine.latest(Origin(stream, summary.topic), limit=LATEST_RECORDS, rule=rule)
    except Unavailable as error:
        return LatestView("away", summary, rule, detail=str(error))
    subject = subject_of(summary.topic)
    find = cache(lambda named: viewer_of(factory, principal, named, subject))
    return LatestView("read", summary, rule, record_rows(latest, rule, find), latest)
