"""Principals, their grants (roles for prefixes of subjects), and the errors of refused requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from tidegate.contracts.errors import NotFoundError, SettingsError, TidegateError


class AccessError(TidegateError):
    """A refused request; `headers` are headers of the response."""

    def __init__(self, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message, headers)
        self.headers = dict(headers or {})


class Unauthenticated(AccessError):  # noqa: N818 - a state of the caller
    """Credentials are missing, wrong, expired or revoked. The message does not say which."""


class Forbidden(AccessError):  # noqa: N818 - a state of the request
    """The roles of a principal do not permit the request."""


class Hidden(NotFoundError):  # noqa: N818 - a state of the object
    """An object that the principal may not see. The response is that of an object that does not exist."""


class Misdirected(AccessError):  # noqa: N818 - a state of the request
    """The Host header of a request is not a name of this server."""


class TooManyRequests(AccessError):  # noqa: N818 - the HTTP term
    """A rate or concurrency limit is exceeded."""


class Role(IntEnum):
    """The permissions of a principal on a subject; each role includes the lower ones."""

    VIEWER = 1
    REPORTER = 2
    PRODUCER = 3
    APPROVER = 4
    ADMIN = 5

    @property
    def word(self) -> str:
        """Return the role in lower case, as in grants."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Grant:
    """A role for all subjects that start with `prefix`; the empty prefix covers all subjects.

    A prefix is compared character by character: `hospital` covers `hospitality-value` too, `hospital.` does not.
    """

    role: Role
    prefix: str

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse `role` (for all subjects) or `role:prefix`. Raises SettingsError."""
        word, _, prefix = text.partition(":")
        if not prefix.isprintable():
            raise SettingsError(
                f"{text!r} is not a grant: a prefix has no line ends and other control characters"
            )
        try:
            return cls(Role[word.upper()], prefix)
        except KeyError:
            known = ", ".join(role.word for role in Role)
            raise SettingsError(
                f"{word or 'nothing'} is not a role; the roles are {known}, and a grant is written role or role:prefix, "
                "such as producer:hospital."
            ) from None

    def __str__(self) -> str:
        return f"{self.role.word}:{self.prefix}" if self.prefix else self.role.word


@dataclass(frozen=True, slots=True)
class Principal:
    """A user or program that sends requests.

    `name` identifies it in the audit log: `key:<id>`, `oidc:<sub>`, `anonymous`, `cli:<user>`.
    """

    name: str
    grants: tuple[Grant, ...]

    def may(self, role: Role, subject: str) -> bool:
        """Return whether a grant of this role or a higher one covers the subject."""
        return any(grant.role >= role and subject.startswith(grant.prefix) for grant in self.grants)

    def runs_job(self, subject: str) -> bool:
        """Return whether the principal may see what a job needs: a grant of reporter itself, approver or admin covers it.

        A producer reports too, but only a job and those who may reveal values see the values of a fix.
        """
        grants = (grant for grant in self.grants if grant.role != Role.PRODUCER)
        return any(grant.role >= Role.REPORTER and subject.startswith(grant.prefix) for grant in grants)

    def sees(self, subject: str) -> bool:
        """Return whether this principal may know that the subject exists."""
        return self.may(Role.VIEWER, subject)

    def may_somewhere(self, role: Role) -> bool:
        """Return whether the principal has this role or a higher one for any prefix."""
        return any(grant.role >= role for grant in self.grants)

    def may_everywhere(self, role: Role) -> bool:
        """Return whether a grant of this role or a higher one covers all subjects.

        Operations on the whole registry require this.
        """
        return any(grant.role >= role and not grant.prefix for grant in self.grants)

    @property
    def prefixes(self) -> tuple[str, ...] | None:
        """Return the prefixes of the visible subjects, for queries; None means all subjects, an empty tuple none."""
        prefixes = {grant.prefix for grant in self.grants}
        return None if "" in prefixes else tuple(sorted(prefixes))


def read_grants(texts: Iterable[str]) -> tuple[Grant, ...]:
    """Parse grants, each `role` or `role:prefix`; return them sorted, without duplicates. Raises SettingsError."""
    return tuple(sorted({Grant.read(text) for text in texts}, key=str))


ANONYMOUS = Principal("anonymous", (Grant(Role.ADMIN, ""),))
"""The principal of every request if access control is off."""


def require(principal: Principal, role: Role, subject: str) -> None:
    """Require a role for a subject. Raises Forbidden, with the same message whether the subject exists or not."""
    if not principal.may(role, subject):
        raise forbidden(principal, role, f"of the subject {subject}")


def forbidden(principal: Principal, role: Role, of_what: str) -> Forbidden:
    """Build the error for a principal whose roles are too low. It names only the principal's own grants."""
    held = ", ".join(str(grant) for grant in principal.grants) or "no role"
    return Forbidden(f"this needs the role {role.word} {of_what}; {principal.name} has {held}")
