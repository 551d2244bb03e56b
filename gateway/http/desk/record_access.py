"""How a page comes to a refused record: whose it is, who may see it, and with which contract version it is explained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlencode

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ContractError, NotFoundError, Unavailable
from tidegate.contracts.stream.evidence import EventPointer, Evidence
from tidegate.contracts.stream.output_topics import source_of_quarantine
from tidegate.gateway.access.principal import Principal, require
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.quarantine_views import RecordsFilter
from tidegate.gateway.http.desk.record_views import (
    FindContract,
    RecordView,
    View,
    Viewer,
    record_view,
)
from tidegate.gateway.registry.judging import with_writers
from tidegate.gateway.storage.sql import ContractVersion
from tidegate.gateway.streams.quarantine import ROLE, Origin, QuarantinedRecord
from tidegate.gateway.streams.quarantine_records import classified_as_now


def shown_record(factory: Factory, principal: Principal, place: EventPointer, view: View) -> RecordView:
    """Return the page of one refused record. Only the quarantine topics of contracts are read."""
    origin = origin_of(factory, principal, place.topic)
    found = _quarantined(factory, origin, place)
    viewer = viewer_of(factory, principal, found.evidence, subject_of(origin.topic))
    return record_view(found, viewer, view)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The records before and after one within a filter, as addresses; `back` leads to the list. None where there is none.

    `again` is what the record violated when a replay refused it again.
    """

    newer: str | None
    older: str | None
    back: str
    again: tuple[str, ...]


def neighbours_of(
    factory: Factory, principal: Principal, place: EventPointer, wanted: RecordsFilter
) -> Neighbours | None:
    """Return the records beside one; None for one that the index does not have."""
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
    """Return one refused record with parts that its page hides; who asked for them is written down first."""
    origin = origin_of(factory, principal, place.topic)
    subject = subject_of(origin.topic)
    require(principal, ROLE, subject)
    found = _quarantined(factory, origin, place)
    viewer = viewer_of(factory, principal, found.evidence, subject)
    hidden = {each.part for each in record_view(found, viewer, view).hidden}
    if not hidden.issuperset(parts):
        raise NotFoundError("the record hides nothing of that name; open it again")
    factory.reveals().note(principal, subject, place, parts)
    viewer = viewer_of(factory, principal, found.evidence, subject, frozenset(parts))
    return record_view(found, viewer, view)


def origin_of(factory: Factory, principal: Principal, topic: str) -> Origin:
    """Return the stream that quarantines to a topic, as far as the principal may see it.

    The name alone decides, with the contract that owns the source topic: what reports say of topics counts for nothing.
    """
    source = source_of_quarantine(topic)
    contract_id = None if source is None else factory.registry().contract_of_topic(source)
    if source is None or contract_id is None or not principal.sees(subject_of(source)):
        raise NotFoundError(f"no stream quarantines to a topic {topic}")
    return Origin(contract_id, source)


def viewers_of(
    factory: Factory, principal: Principal, records: Iterable[QuarantinedRecord], subject: str
) -> FindContract:
    """Return what finds the viewer of each contract version that some records name."""
    evidence = {each.evidence.contract: each.evidence for each in records}

    @cache
    def find(named: str) -> Viewer:
        return viewer_of(factory, principal, evidence[named], subject)

    return find


def viewer_of(
    factory: Factory,
    principal: Principal,
    evidence: Evidence,
    subject: str,
    revealed: frozenset[str] = frozenset(),
) -> Viewer:
    """Return a viewer for the contract version (`id@version`) of a record, if the registry shows it."""
    may_reveal = principal.may(ROLE, subject)
    version = _version(factory, principal, evidence.contract)
    if version is None:
        return Viewer.through(None, None, revealed, may_reveal=may_reveal)
    contract = classified_as_now(
        DataContract.model_validate_json(version.document), factory.registry().version
    )
    try:
        plan = factory.plan(version)
    except ContractError:
        plan = None
    if plan is not None:
        plan = with_writers(plan, factory.subjects())
    return Viewer.through(contract, plan, revealed, may_reveal=may_reveal)


def _quarantined(factory: Factory, origin: Origin, place: EventPointer) -> QuarantinedRecord:
    quarantine = factory.quarantine()
    if quarantine is None:
        raise Unavailable("the gateway knows no broker: start it with TIDEGATE_BOOTSTRAP_SERVERS set")
    return quarantine.record(origin, place.partition, place.offset)


def _version(factory: Factory, principal: Principal, named: str) -> ContractVersion | None:
    contract_id, _, version = named.rpartition("@")
    try:
        found = factory.registry().version(contract_id, version)
    except NotFoundError:
        return None
    return found if principal.sees(subject_of(found.topic)) else None
