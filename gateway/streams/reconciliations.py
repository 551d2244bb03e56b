"""Reconciliations, which compare a stream's ledger with its outputs, and adoptions, which rebuild a lost ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.stream.adoption import Adoption, KeptAdoption
from tidegate.contracts.stream.reconciliation import (
    ReconciliationRequest,
    ReconciliationResult,
    StreamReconciliation,
)
from tidegate.gateway.access.principal import ANONYMOUS, Principal
from tidegate.gateway.registry.subject_scope import subject_of_contract, topic_of_contract
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Database, Service
from tidegate.gateway.streams.controls import reporter_topic


@dataclass(frozen=True, slots=True)
class SeenReconciliations:
    """The stored reconciliations of one stream, newest first. `seen_at` is its job's last heartbeat, None without."""

    found: tuple[StreamReconciliation, ...]
    seen_at: datetime | None

    @property
    def open(self) -> ReconciliationRequest | None:
        """Return the open request; None without one."""
        return next((each.asked for each in self.found if each.is_open), None)

    @property
    def last(self) -> StreamReconciliation | None:
        """Return the last reconciliation with an answer; None without one."""
        return next((each for each in self.found if not each.is_open), None)

    @property
    def is_taken(self) -> bool:
        """Return whether the job has received the open request, in the answer to a heartbeat."""
        return self.open is not None and self.seen_at is not None and self.seen_at > self.open.at


class Reconciliations:
    """Requested reconciliations. Every request is an entry in the audit log.

    `announce` is called with each new result after it is stored; it must neither block nor raise.
    """

    def __init__(
        self,
        database: Database,
        now: Callable[[], datetime],
        announce: Callable[[ReconciliationResult], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._now = now
        self._announce = announce

    def ask(self, stream: str, by: Principal = ANONYMOUS) -> tuple[StreamReconciliation, bool]:
        """Request a reconciliation of a stream; return the open request, and whether it is new.

        Raises NotFoundError for a stream without a contract.
        """
        request = ReconciliationRequest(id=uuid4(), stream=stream, by=by.name, at=self._now())
        with self._database.writing() as stores:
            subject = subject_of_contract(stores, stream)
            if (earlier := stores.reconciliations.open(stream)) is not None:
                return StreamReconciliation(asked=earlier), False
            stores.reconciliations.add(request)
            made = content_hash(request.model_dump(mode="json"))
            stores.audit.append(
                AuditedAction(request.at, by.name, "stream.reconciliation-asked", subject, None, made)
            )
            return StreamReconciliation(asked=request), True

    def answer(
        self, stream: str, request: UUID, result: ReconciliationResult, by: Principal = ANONYMOUS
    ) -> bool:
        """Store the job's result; return False if the request already has a result, which is kept.

        Raises NotFoundError for an unknown request, Forbidden if `by` may not report for the stream's topic, and
        ConflictError for findings of another stream.
        """
        if result.findings is not None and result.findings.stream != stream:
            raise ConflictError(f"these are the findings of {result.findings.stream}, not of {stream}")
        with self._database.writing() as stores:
            reporter_topic(stores, stream, by)
            found = stores.reconciliations.find(stream, request)
            if found is None:
                raise NotFoundError(f"no reconciliation {request} of {stream} was requested")
            if not found.is_open:
                return False
            stores.reconciliations.answer(request, result)
        self._announce(result)
        return True

    def all(self, stream: str) -> tuple[StreamReconciliation, ...]:
        """Return the stored reconciliations, newest first. Raises NotFoundError for a stream without a contract."""
        with self._database.reading() as stores:
            subject_of_contract(stores, stream)
            return stores.reconciliations.all(stream)

    def seen(self, stream: str) -> SeenReconciliations | None:
        """Return the reconciliations of a stream for its page; None for a stream without a contract."""
        with self._database.reading() as stores:
            if stores.contracts.topic_of(stream) is None:
                return None
            heard = stores.controls.heartbeat(stream)
            seen_at = None if heard is None else heard.at
            return SeenReconciliations(stores.reconciliations.all(stream), seen_at)


class Adoptions(Service):
    """A service for adoptions of streams. Every adoption is an entry in the audit log, with the document's hash.

    The action is `stream.adopted`, `stream.archived`, `stream.rewound` or `stream.erased`.
    """

    def keep(self, stream: str, adoption: Adoption, by: Principal = ANONYMOUS) -> bool:
        """Store an adoption before it is made; return False if it was stored before.

        Raises NotFoundError for a stream without a contract. Raises ConflictError for an adoption of another stream or
        topic, and if another adoption has the same id.
        """
        if adoption.stream != stream:
            raise ConflictError(f"this adopts the stream {adoption.stream}; post it there, not to {stream}")
        kept = KeptAdoption(by=by.name, at=self._now(), adoption=adoption)
        with self._database.writing() as stores:
            topic = topic_of_contract(stores, stream)
            if adoption.topic != topic:
                raise ConflictError(f"the contract {stream} is about topic {topic}, not {adoption.topic}")
            if (earlier := stores.adoptions.find(adoption.id)) is not None:
                if earlier.adoption != adoption:
                    raise ConflictError(f"another adoption was kept under the id {adoption.id}")
                return False
            stores.adoptions.add(kept)
            made = content_hash(adoption.model_dump(mode="json"))
            stores.audit.append(
                AuditedAction(kept.at, by.name, _action_of(adoption), subject_of(topic), None, made)
            )
            return True

    def all(self, stream: str) -> tuple[KeptAdoption, ...]:
        """Return the stored adoptions, newest first. Raises NotFoundError for a stream without a contract."""
        with self._database.reading() as stores:
            subject_of_contract(stores, stream)
            return stores.adoptions.all(stream)

    def seen(self, stream: str) -> tuple[KeptAdoption, ...]:
        """Return the stored adoptions of a stream for its page, newest first; () for one without a contract."""
        return self._database.read(lambda stores: stores.adoptions.all(stream))


def _action_of(adoption: Adoption) -> str:
    """Return the action of an adoption's entry in the audit log."""
    match adoption.kind:
        case "rewind":
            return "stream.rewound"
        case "erasure":
            return "stream.erased"
        case "adoption":
            return "stream.archived" if adoption.archived else "stream.adopted"
