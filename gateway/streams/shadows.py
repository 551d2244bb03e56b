"""Shadow versions, which judge beside the enforced version: declaration, findings, and effects of a promotion."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.contracts.document.model import Status
from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.stream.control import StreamControl
from tidegate.contracts.stream.shadow import ShadowFindings
from tidegate.gateway.access.principal import ANONYMOUS, Principal
from tidegate.gateway.registry.changes import Review, review
from tidegate.gateway.registry.lifecycle import find_alive, require_compiled
from tidegate.gateway.registry.proofs import write
from tidegate.gateway.registry.subject_scope import ENFORCED, subject_of_contract
from tidegate.gateway.storage.database import Service
from tidegate.gateway.storage.sql import ContractVersion, Stores
from tidegate.gateway.streams.controls import keep_control


@dataclass(frozen=True, slots=True)
class Promotion:
    """The differences if a version were enforced from now on.

    `enforced` is the version that is enforced now, None before the first. `shadow` has the version's findings on live
    records, None if it was not the last shadow.
    """

    version: ContractVersion
    enforced: str | None
    review: Review
    shadow: ShadowFindings | None


class Shadows(Service):
    """A service that declares shadows and returns their findings. Every change is an entry in the audit log."""

    def declare(self, stream: str, version: str | None, by: Principal = ANONYMOUS) -> StreamControl:
        """Judge with a version in addition to the enforced one, from the next batch on; None ends the shadow.

        A new shadow deletes the findings of the previous one. Declaring the current shadow again changes nothing.
        Raises NotFoundError, ConflictError for a version that is enforced or retired, ContractError for one that does
        not compile.
        """
        at = self._now()

        def work(stores: Stores) -> StreamControl:
            subject = subject_of_contract(stores, stream)
            before = stores.controls.find(stream)
            if before.shadow == version:
                return before
            if version is not None:
                _require_shadow(stores, stream, version)
                stores.shadows.forget(stream)
            after = before.shadowed(version)
            action = "stream.shadow-ended" if version is None else "stream.shadow-declared"
            keep_control(stores, (before, after), action, subject, (by.name, at))
            return after

        return write(self._database, work)

    def findings(self, stream: str) -> ShadowFindings:
        """Return the findings of the last shadow, also after its end. Raises NotFoundError before its first batch."""
        with self._database.reading() as stores:
            subject_of_contract(stores, stream)
            found = stores.shadows.find(stream)
            if found is None:
                raise NotFoundError(
                    f"no batch of {stream} was judged by a shadow yet; declare one with tidegate shadow {stream} VERSION"
                )
            return found

    def seen(self, stream: str) -> tuple[str | None, ShadowFindings | None]:
        """Return the declared version and the findings of the last shadow; None for a missing one."""
        return self._database.read(
            lambda stores: (stores.controls.find(stream).shadow, stores.shadows.find(stream))
        )

    def promotion(self, contract_id: str, version: str) -> Promotion:
        """Return what would change if a version became active. Raises NotFoundError, ContractError.

        Nothing is stored.
        """
        with self._database.reading() as stores:
            found = find_alive(stores, contract_id, version)
            enforced = stores.contracts.highest(contract_id, ENFORCED)
            contract = found.contract
            require_compiled(contract)
            shadow = stores.shadows.find(contract_id)
            return Promotion(
                found,
                enforced.version if enforced else None,
                review(stores, contract),
                shadow if shadow and shadow.result.version == version else None,
            )


def _require_shadow(stores: Stores, stream: str, version: str) -> None:
    found = find_alive(stores, stream, version)
    enforced = stores.contracts.highest(stream, ENFORCED)
    if enforced is not None and enforced.version == version:
        raise ConflictError(f"{stream} {version} is the version that is enforced; name another one")
    if found.status == Status.RETIRED:
        raise ConflictError(f"{stream} {version} is retired, and will never be enforced again")
    require_compiled(found.contract)
