"""Writes down who rebuilds the ledger of a stream, and what is given up for it, before it is done."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from tidegate.contracts.errors import ConflictError
from tidegate.contracts.stream.adoption import Adoption, KeptAdoption
from tidegate.gateway.access.principal import ANONYMOUS, Principal
from tidegate.gateway.registry.contract_names import subject_of_contract
from tidegate.gateway.storage.audit_chain import Change, content_hash
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.sql import Stores


class Adoptions:
    """What people have adopted. Every adoption is an entry in the log of changes; its hash is that of the document."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def keep(self, stream: str, adoption: Adoption, by: Principal = ANONYMOUS) -> bool:
        """Keep an adoption that is about to be done; False when it was kept before.

        Raises NotFoundError for a stream without a contract, ConflictError for an adoption of another stream or topic, or
        another one under the same id.
        """
        if adoption.stream != stream:
            raise ConflictError(f"this adopts the stream {adoption.stream}; post it there, not to {stream}")
        kept = KeptAdoption(by=by.name, at=self._now(), adoption=adoption)

        def work(stores: Stores) -> bool:
            subject = subject_of_contract(stores, stream)
            topic = stores.contracts.topic_of(stream)
            if adoption.topic != topic:
                raise ConflictError(f"the contract {stream} is about topic {topic}, not {adoption.topic}")
            if (earlier := stores.adoptions.find(adoption.id)) is not None:
                if earlier.adoption != adoption:
                    raise ConflictError(f"another adoption was kept under the id {adoption.id}")
                return False
            stores.adoptions.add(kept)
            made = content_hash(adoption.model_dump(mode="json"))
            stores.audit.append(Change(kept.at, by.name, "stream.adopted", subject, None, made))
            return True

        return self._database.write(work)

    def all(self, stream: str) -> tuple[KeptAdoption, ...]:
        """Return those that are kept, newest first. Raises NotFoundError for a stream without a contract."""

        def work(stores: Stores) -> tuple[KeptAdoption, ...]:
            subject_of_contract(stores, stream)
            return stores.adoptions.all(stream)

        return self._database.read(work)

    def seen(self, stream: str) -> tuple[KeptAdoption, ...]:
        """Return what a page shows of a stream, newest first; nothing for one without a contract."""
        return self._database.read(lambda stores: stores.adoptions.all(stream))
