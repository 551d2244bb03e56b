"""Principals, their grants (roles for prefixes of subjects), and the errors of refused requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from tidegate.contracts.errors import SettingsError, TidegateError


class AccessError(TidegateError):
    """A request that is refused; `headers` are those of the response."""

    def __init__(self, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message, headers)
        self.headers = dict(headers or {})


class Unauthenticated(AccessError):  # noqa: N818 - a state of the caller
    """Credentials are missing, wrong, expired or revoked. The message does not say which."""


class Forbidden(AccessError):  # noqa: N818 - a state of the request
    """The roles of a principal do not permit the request."""


class Misdirected(AccessError):  # noqa: N818 - a state of the request
    """A request for a host name that the server does not have."""


class TooManyRequests(AccessError):  # noqa: N818 - the HTTP term
    """A principal or address exceeds the limit of requests."""


class Role(IntEnum):
    """The permissions of a principal on a subject; each role includes those below it."""

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
    """A role for every subject that begins with `prefix`; the empty prefix is every subject.

    A prefix is compared character by character: `hospital` covers `hospitality-value` too, `hospital.` does not.
    """

    role: Role
    prefix: str

    @classmethod
    def read(cls, text: str) -> Self:
        """Read `role` (for every subject) or `role:prefix`. Raises SettingsError."""
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

    `name` is in the audit log: `key:<id>`, `oidc:<sub>`, `anonymous`, `cli:<user>`.
    """

    name: str
    grants: tuple[Grant, ...]

    def may(self, role: Role, subject: str) -> bool:
        """Return whether a role of at least this height covers the subject."""
        return any(grant.role >= role and subject.startswith(grant.prefix) for grant in self.grants)

    def sees(self, subject: str) -> bool:
        """Return whether this principal may know that the subject exists."""
        return self.may(Role.VIEWER, subject)

    def may_somewhere(self, role: Role) -> bool:
        """Return whether a role of at least this height is held under any prefix."""
        return any(grant.role >= role for grant in self.grants)

    def may_everywhere(self, role: Role) -> bool:
        """Return whether a role of at least this height covers every subject, as operations on the whole registry need."""
        return any(grant.role >= role and not grant.prefix for grant in self.grants)

    @property
    def prefixes(self) -> tuple[str, ...] | None:
        """Return the prefixes whose subjects are visible, for queries; None for all, empty for none."""
        prefixes = {grant.prefix for grant in self.grants}
        return None if "" in prefixes else tuple(sorted(prefixes))


def read_grants(texts: Iterable[str]) -> tuple[Grant, ...]:
    """Read grants, each `role` or `role:prefix`. Raises SettingsError."""
    return tuple(sorted({Grant.read(text) for text in texts}, key=str))


ANONYMOUS = Principal("anonymous", (Grant(Role.ADMIN, ""),))
"""Every user, if access control is off."""


def require(principal: Principal, role: Role, subject: str) -> None:
    """Require a role for a subject. Raises Forbidden in the same words whether the subject exists or not."""
    if not principal.may(role, subject):
        raise forbidden(principal, role, f"of the subject {subject}")


def forbidden(principal: Principal, role: Role, of_what: str) -> Forbidden:
    """Build the refusal of a principal with too low roles; it names only the principal's own grants."""
    held = ", ".join(str(grant) for grant in principal.grants) or "no role"
    return Forbidden(f"this needs the role {role.word} {of_what}; {principal.name} has {held}")
