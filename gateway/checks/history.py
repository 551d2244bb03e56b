"""The versions with which a candidate is compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.contracts.document.model import Consumer, DataContract, Status
from tidegate.contracts.document.semver import precedence
from tidegate.contracts.errors import Problem
from tidegate.gateway.checks.results import major_key

ENFORCED = (Status.ACTIVE, Status.DEPRECATED)


@dataclass(frozen=True, slots=True)
class BaseVersion:
    """One earlier version. `origin` says where it was found; `load` returns its contract.

    `note` lists the parts that the stream does not enforce, one per line.
    """

    version: str
    status: Status
    fingerprint: str
    origin: str
    load: Callable[[], DataContract] = field(compare=False)
    note: str | None = None


@dataclass(frozen=True, slots=True)
class History:
    """The earlier versions of one contract, highest first.

    `here` is the earlier content of the candidate's own file; `unreadable` is the problem of that content if it is
    invalid. With `is_published`, versions can never change; otherwise they are documents like the candidate.
    `readers` are the consumers that were registered separately from the documents.
    """

    versions: tuple[BaseVersion, ...] = ()
    here: BaseVersion | None = None
    unreadable: Problem | None = None
    is_published: bool = False
    readers: tuple[Consumer, ...] = ()

    def same_as(self, fingerprint: str) -> BaseVersion | None:
        """Return the version with this fingerprint; None if there is none."""
        return next((version for version in self.versions if version.fingerprint == fingerprint), None)

    def predecessor(self, version: str) -> BaseVersion | None:
        """Return the version that a candidate with number `version` follows; None if no version is enforced.

        That is the earlier content of its file, if enforced. Otherwise it is the highest enforced version whose major
        number is not above the candidate's, so a fix of an older major version follows that one. If all have a
        higher major number, it is the highest enforced version.
        """
        enforced = [found for found in self.versions if found.status in ENFORCED]
        if self.here is not None and self.here in enforced:
            return self.here
        not_above = [found for found in enforced if major_key(found.version) <= major_key(version)]
        return next(iter(not_above or enforced), None)

    def before(self, predecessor: BaseVersion) -> tuple[BaseVersion, ...]:
        """Return the versions before a predecessor, highest first, without drafts."""
        return tuple(
            found
            for found in self.versions
            if found.status is not Status.DRAFT
            and precedence(found.version) < precedence(predecessor.version)
        )
