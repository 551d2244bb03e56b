"""Access to refused records for pages: check the stream and the reader, and find the contract version."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import urlencode

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import NotFoundError
from tidegate.contracts.stream.evidence import EventPointer
from tidegate.contracts.stream.output_topics import source_of_quarantine
from tidegate.gateway.access.principal import Hidden, Principal, require
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.quarantine_views import RecordsFilter
from tidegate.gateway.http.desk.record_views import (
    RecordView,
    View,
    record_view,
)
from tidegate.gateway.streams.quarantine import Origin
from tidegate.gateway.streams.quarantine_records import Viewer
from tidegate.gateway.streams.reveals import REVEAL_ROLE


def shown_record(factory: Factory, principal: Principal, place: EventPointer, view: View) -> RecordView:
    """Return the page of one refused record.

    Raises NotFoundError for other topics than the quarantine topics of visible contracts, and Unavailable.
    """
    origin = origin_of(factory, principal, place.topic)
    found = factory.quarantine_reader().record(origin, place.partition, place.offset)
    viewer = viewer_of(factory, principal, found.evidence.contract, subject_of(origin.topic))
    return record_view(found, viewer, view)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The neighbors of a record within a filter, as URLs; None at an end of the list. `back` is the URL of the list.

    `again` is what the record violated when a replay refused it again.
    """

    newer: str | None
    older: str | None
    back: str
    again: tuple[str, ...]


def neighbours_of(
    factory: Factory, principal: Principal, place: EventPointer, wanted: RecordsFilter
) -> Neighbours | None:
    """Return the neighbors of a record within a filter; None if the index does not have the record."""
    origin = origin_of(factory, principal, place.topic)
    stream = origin.contract_id
    index = factory.quarantine_index(principal)
    try:
        found = index.neighbours(stream, wanted.wanted, place.partition, place.offset)
    except NotFoundError:
        return None
    query = f"?{urlencode(wanted.parameters)}" if wanted.parameters else ""
    newer, older = (
        None if each is None else f"/desk/records/{place.topic}/{each.partition}/{each.offset}{query}"
        for each in found
    )
    again = index.refused_again_by(stream, place.partition, place.offset)
    return Neighbours(newer, older, wanted.address(stream), again)


def revealed_record(
    factory: Factory, principal: Principal, place: EventPointer, view: View, parts: tuple[str, ...]
) -> RecordView:
    """Return the page of one refused record with some hidden parts revealed. The reveal is audited first.

    Raises Forbidden, NotFoundError if a part is not hidden in this record, and Unavailable.
    """
    origin = origin_of(factory, principal, place.topic)
    subject = subject_of(origin.topic)
    require(principal, REVEAL_ROLE, subject)
    found = factory.quarantine_reader().record(origin, place.partition, place.offset)
    viewer = viewer_of(factory, principal, found.evidence.contract, subject)
    hidden = {each.part for each in record_view(found, viewer, view).hidden}
    if not hidden.issuperset(parts):
        raise NotFoundError("the record hides nothing of that name; open it again")
    factory.reveals().record(principal, subject, place, parts)
    viewer = viewer_of(factory, principal, found.evidence.contract, subject, frozenset(parts))
    return record_view(found, viewer, view)


def origin_of(factory: Factory, principal: Principal, topic: str) -> Origin:
    """Return the stream of a quarantine topic. Raises NotFoundError if there is none, or it is not visible.

    Only the name of the topic and the contract of its source topic count. Topics in reports are not trusted.
    """
    source = source_of_quarantine(topic)
    contract_id = None if source is None else factory.registry().contract_of_topic(source)
    unknown = f"no stream quarantines to a topic {topic}"
    if source is None or contract_id is None:
        raise NotFoundError(unknown)
    if not principal.sees(subject_of(source)):
        raise Hidden(unknown)
    return Origin(contract_id, source)


def viewer_of(
    factory: Factory,
    principal: Principal,
    contract: str,
    subject: str,
    revealed: frozenset[str] = frozenset(),
) -> Viewer:
    """Return a viewer for a contract version (`id@version`), restricted to what the principal may see.

    Without the contract, or if the principal may not see it, the viewer hides the whole record.
    """
    viewer = factory.record_masking().viewer(contract)
    if viewer.contract is None or not principal.sees(subject_of(viewer.contract.topic)):
        viewer = Viewer(None, None)
    return replace(viewer, revealed=revealed, may_reveal=principal.may(REVEAL_ROLE, subject))
