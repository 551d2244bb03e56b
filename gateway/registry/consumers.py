"""Consumers that are registered outside of a contract's document; they must agree to changes that break them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.contracts.compatibility.witness_search import Judge
from tidegate.contracts.document.fields import suggestion
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.document.model import Consumer, DataContract, JsonSchema, Status
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ConflictError, ContractError, NotFoundError, Problem
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.suggestions import similar, suggestion_budget
from tidegate.gateway.access.principal import ANONYMOUS, Principal, Role, forbidden, require
from tidegate.gateway.registry.changes import Review, review
from tidegate.gateway.registry.lifecycle import find_alive
from tidegate.gateway.registry.proofs import proven, write
from tidegate.gateway.registry.publication import compiled, require_id
from tidegate.gateway.registry.subject_scope import ENFORCED, subject_of_contract
from tidegate.gateway.storage.agreements import Acknowledgement, StoredConsumer
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Service
from tidegate.gateway.storage.sql import ContractVersion, Stores

_DEFINITION = "/schema/definition"
MOST_CONSUMERS: Final = 1_000
"""Maximum registered consumers of one contract: each change is compared with the fields that all of them read."""


class WrongConsumer(ContractError):  # noqa: N818 - named for what is wrong
    """A consumer that reads unknown fields or assumes an invalid JSON Schema; `problems` point into the request."""


@dataclass(frozen=True, slots=True)
class KnownConsumer:
    """A consumer of a contract; `registered` is None for one that only the contract's document names."""

    consumer: Consumer
    registered: StoredConsumer | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """The subject of an agreement: a candidate by its fingerprint, or a draft by its version; exactly one is given.

    `consumer` is None for a break that touches no registered consumer. `by` names the person.
    """

    consumer: str | None
    candidate: str | None = None
    version: str | None = None
    by: str | None = None


class ConsumerService(Service):
    """A service for the consumers of contracts and the changes that they agreed to."""

    def register(
        self, contract_id: str, consumer: Consumer, by: Principal = ANONYMOUS
    ) -> tuple[StoredConsumer, bool]:
        """Register a consumer, or change what it reads; return the stored consumer, and whether it is new.

        If the consumer changes, its earlier agreements no longer count. Raises NotFoundError, WrongConsumer, and
        ConflictError if there are MOST_CONSUMERS already. Raises Forbidden for a change by a principal that may not
        approve, because it could remove an objection.
        """
        stored = StoredConsumer(contract_id, consumer, by.name, self._now())

        def work(stores: Stores) -> tuple[StoredConsumer, bool]:
            subject = subject_of_contract(stores, contract_id)
            known = stores.consumers.find(contract_id, consumer.id)
            if known is not None and known.consumer == consumer:
                return known, False
            if known is None and stores.consumers.count(contract_id) >= MOST_CONSUMERS:
                raise ConflictError(
                    f"{contract_id} has {MOST_CONSUMERS:,} registered consumers, which is the limit: remove one that no longer "
                    f"reads, or register one for a whole team"
                )
            wrong = proven(_mistakes, consumer.model_dump_json(by_alias=True), _current(stores, contract_id))
            if wrong:
                raise WrongConsumer(wrong)
            if known is not None:
                _require_approver(by, subject)
            stores.consumers.withdraw(contract_id, consumer.id)  # also for one that only the document named
            stores.consumers.put(stored)
            action = "contract.consumer-registered" if known is None else "contract.consumer-changed"
            before = None if known is None else _hash(known.consumer)
            stores.audit.append(
                AuditedAction(stored.registered_at, by.name, action, subject, before, _hash(consumer))
            )
            return stored, known is None

        return write(self._database, work)

    def remove(self, contract_id: str, consumer_id: str, by: Principal = ANONYMOUS) -> StoredConsumer:
        """Delete a registered consumer. Raises NotFoundError, ConflictError for one that only the document names."""
        at = self._now()
        with self._database.writing() as stores:
            subject = subject_of_contract(stores, contract_id)
            found = stores.consumers.find(contract_id, consumer_id)
            if found is None:
                known = _known(stores, contract_id)
                if consumer_id in known:
                    raise ConflictError(
                        f"{consumer_id} stands in the contract's document; publish a version without it"
                    )
                raise _unknown_consumer(contract_id, consumer_id, known)
            stores.consumers.remove(contract_id, consumer_id)
            stores.consumers.withdraw(contract_id, consumer_id)
            gone = _hash(found.consumer)
            stores.audit.append(AuditedAction(at, by.name, "contract.consumer-removed", subject, gone, None))
            return found

    def consumers(self, contract_id: str) -> tuple[KnownConsumer, ...]:
        """Return the consumers of a contract, by id. Raises NotFoundError."""
        with self._database.reading() as stores:
            subject_of_contract(stores, contract_id)
            known = _known(stores, contract_id)
            return tuple(known[name] for name in sorted(known))

    def readers(self, versions: Sequence[ContractVersion]) -> dict[int, tuple[str, ...]]:
        """Return the sorted ids of the consumers that still read deprecated versions, by registry id."""
        asked = [version for version in versions if version.status == Status.DEPRECATED]
        if not asked:
            return {}
        contract_ids = sorted({version.contract_id for version in asked})
        apart = self._database.read(lambda stores: stores.consumers.of_contracts(contract_ids))
        return {version.registry_id: _readers(version, apart) for version in asked}

    def check(self, document: bytes, name: str, by: Principal = ANONYMOUS) -> Review:
        """Return what publishing a document would break, and for which consumers; store nothing.

        Raises ContractError, Forbidden for a topic that `by` may not publish for, ConflictError for another team's id.
        """
        contract = compiled(parse_contract(document, name=name, read_schema=None)).contract
        require(by, Role.PRODUCER, subject_of(contract.topic))
        with self._database.reading() as stores:
            require_id(stores, contract.id, by)
            return review(stores, contract)

    def acknowledge(
        self, contract_id: str, wanted: Agreement, by: Principal = ANONYMOUS
    ) -> tuple[Acknowledgement, bool]:
        """Record that a consumer agrees to a candidate; return the agreement, and whether it is new.

        It holds for this candidate only: another document has another fingerprint. Raises NotFoundError,
        ConflictError for a version that is published already.
        """
        at = self._now()
        with self._database.writing() as stores:
            subject = subject_of_contract(stores, contract_id)
            known = _known(stores, contract_id)
            if wanted.consumer is not None and wanted.consumer not in known:
                raise _unknown_consumer(contract_id, wanted.consumer, known)
            candidate = wanted.candidate or _draft(stores, contract_id, wanted.version or "")
            for one in stores.consumers.acknowledgements(contract_id, candidate):
                if one.consumer == wanted.consumer:
                    return one, False
            made = Acknowledgement(contract_id, candidate, wanted.consumer, wanted.by, by.name, at)
            stores.consumers.acknowledge(made)
            content = {"consumer": made.consumer, "candidate": candidate, "agreed_by": made.agreed_by}
            action = "contract.change-acknowledged"
            stores.audit.append(AuditedAction(at, by.name, action, subject, None, content_hash(content)))
            return made, True

    def acknowledgements(self, contract_id: str) -> tuple[Acknowledgement, ...]:
        """List the agreements to changes of a contract, oldest first. Raises NotFoundError."""
        with self._database.reading() as stores:
            subject_of_contract(stores, contract_id)
            return stores.consumers.acknowledgements(contract_id)


def _current(stores: Stores, contract_id: str) -> bytes:
    """Return the document of the enforced version, or else of the highest. Raises NotFoundError."""
    found = stores.contracts.highest(contract_id, ENFORCED) or stores.contracts.highest(contract_id)
    if found is None:
        raise NotFoundError(f"every version of {contract_id} was deleted; publish one first")
    return found.document


def _known(stores: Stores, contract_id: str) -> dict[str, KnownConsumer]:
    """Return the known consumers by id: registered ones, and those in a document that is enforced or a draft."""
    found: dict[str, KnownConsumer] = {}
    for version in reversed(stores.contracts.versions(contract_id)):
        if version.status != Status.RETIRED:
            contract = version.contract
            found |= {each.id: KnownConsumer(each, None) for each in contract.consumers}
    for stored in stores.consumers.of_contracts((contract_id,)):
        found[stored.consumer.id] = KnownConsumer(stored.consumer, stored)
    return found


def _readers(version: ContractVersion, apart: Sequence[StoredConsumer]) -> tuple[str, ...]:
    written = {str(each["id"]) for each in json.loads(version.document or b"{}").get("consumers", ())}
    named = {each.consumer.id for each in apart if each.contract_id == version.contract_id}
    return tuple(sorted(written | named))


@suggestion_budget()
def _mistakes(written: str, document: bytes) -> tuple[Problem, ...]:
    """Check a consumer against the schema of a contract; return every mistake."""
    consumer = Consumer.model_validate_json(written)
    fields = Judge(DataContract.model_validate_json(document)).fields
    problems = [
        Problem(f"/reads/{index}", f"the schema declares no field `{read}`{suggestion(read, fields)}")
        for index, read in enumerate(consumer.reads)
        if fields.find(read) is None
    ]
    if consumer.assumes is not None:
        try:
            JsonSchemaFormat(JsonSchema(type="json-schema", definition=consumer.assumes))
        except ContractError as error:
            problems += [
                Problem("/assumes" + each.pointer.removeprefix(_DEFINITION), each.message)
                for each in error.problems
            ]
    return tuple(problems)


def _require_approver(by: Principal, subject: str) -> None:
    if not by.may(Role.APPROVER, subject):
        raise forbidden(by, Role.APPROVER, f"of the subject {subject} to change what a consumer reads")


def _draft(stores: Stores, contract_id: str, version: str) -> str:
    found = find_alive(stores, contract_id, version)
    if found.status != Status.DRAFT:
        raise ConflictError(
            f"{contract_id} {version} is {found.status} and needs no agreement; name a draft, or a candidate by "
            "its fingerprint"
        )
    return found.fingerprint


def _unknown_consumer(contract_id: str, consumer_id: str, known: dict[str, KnownConsumer]) -> NotFoundError:
    near = similar(consumer_id, known)
    advice = f"did you mean {near[0]}?" if near else "register it first"
    return NotFoundError(f"{contract_id} has no consumer {consumer_id}; {advice}")


def _hash(consumer: Consumer) -> str:
    return content_hash(consumer.model_dump(mode="json", by_alias=True))
