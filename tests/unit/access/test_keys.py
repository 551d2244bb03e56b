"""Keys: made once, kept as hashes, looked for in the same steps whether they exist or not."""

from __future__ import annotations

import base64
import hmac
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidegate.contracts.errors import ConflictError, NotFoundError, SettingsError
from tidegate.gateway.access.authentication import read_basic
from tidegate.gateway.access.keys import (
    Credentials,
    KeyRing,
    KeyService,
    new_credentials,
    read_token,
    secret_hash,
)
from tidegate.gateway.access.principal import Grant, Role, read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.storage.access import StoredKey
from tidegate.gateway.storage.audit_chain import AuditedAction

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
VIEWER = read_grants(["viewer:a."])
KEY = Credentials("0123456789ab", "secret")


class Steps:
    """A ring over one key, and the steps that it takes."""

    def __init__(self, cache_seconds: float = 0, **changes: Any) -> None:
        values: dict[str, Any] = {
            "id": KEY.key_id,
            "name": "n",
            "secret_hash": secret_hash(KEY.secret),
            "grants": ("viewer:a.",),
        }
        self.key = StoredKey(**{**values, "created_by": "cli:x", "created_at": NOON, **changes})
        self.taken: list[object] = []
        self.now = NOON
        self.clock = 0.0
        self.ring = KeyRing(self._find, lambda: self.now, cache_seconds, self._compare, lambda: self.clock)

    def _find(self, key_id: str) -> StoredKey | None:
        self.taken.append("look")
        return self.key if key_id == self.key.id else None

    def _compare(self, left: str, right: str) -> bool:
        self.taken.append(("compare", len(left), len(right)))
        return hmac.compare_digest(left, right)


def test_the_right_secret_opens_and_any_other_does_not() -> None:
    ring = Steps().ring
    principal = ring.principal(KEY)
    assert principal is not None
    assert (principal.name, principal.grants) == ("key:0123456789ab", (Grant(Role.VIEWER, "a."),))
    for secret in ("", "Secret", "secret ", "secre", secret_hash("secret"), "\ud800", "\0"):
        assert ring.principal(Credentials(KEY.key_id, secret)) is None


@pytest.mark.parametrize("key_id", ["0123456789ac", "", "\0", "0123456789AB", "x" * 10_000, "0123456789ab\n"])
def test_an_unknown_id_takes_the_same_steps_as_a_known_one(key_id: str) -> None:
    known, unknown = Steps(), Steps()
    known.ring.principal(Credentials(KEY.key_id, "wrong"))
    assert unknown.ring.principal(Credentials(key_id, "wrong")) is None
    assert unknown.taken == known.taken == ["look", ("compare", 64, 64)]


@pytest.mark.parametrize("changes", [{"revoked_at": NOON}, {"expires_at": NOON}])
def test_a_revoked_and_an_expired_key_open_nothing(changes: dict[str, datetime]) -> None:
    steps = Steps(**changes)
    assert steps.ring.principal(KEY) is None
    assert steps.taken == ["look", ("compare", 64, 64)]


def test_a_key_opens_until_it_expires() -> None:
    steps = Steps(expires_at=NOON)
    steps.now = NOON - timedelta(microseconds=1)
    assert steps.ring.principal(KEY) is not None


def test_keys_are_remembered_for_a_while_unknown_ones_too() -> None:
    steps = Steps(cache_seconds=5)
    unknown = Credentials("f" * 12, "x")
    for _ in range(3):
        steps.ring.principal(KEY)
        steps.ring.principal(unknown)
    assert steps.taken.count("look") == 2
    assert steps.ring.is_cached(KEY.key_id)
    steps.clock = 5.0
    assert not steps.ring.is_cached(KEY.key_id)
    steps.ring.principal(KEY)
    assert steps.taken.count("look") == 3


def test_what_is_remembered_is_bounded() -> None:
    steps = Steps(cache_seconds=5)
    for number in range(10_000):
        steps.ring.principal(Credentials(f"{number:012x}", "x"))
    assert len(steps.ring._cached) <= 4096


def test_a_key_as_a_bearer_token_gives_back_its_halves() -> None:
    made = new_credentials()
    assert read_token(made.token) == made
    assert len(made.secret) >= 43
    for other in ("", "tgk_", "tgk_xyz_secret", "eyJhbGciOiJub25lIn0.e30.", f"x{made.token}"):
        assert read_token(other) is None


def test_basic_credentials_are_read_as_the_specification_says() -> None:
    # Source: RFC 7617, clauses 2 and 2.1: the password may hold colons, both may be UTF-8.
    assert read_basic("QWxhZGRpbjpvcGVuIHNlc2FtZQ==") == Credentials("Aladdin", "open sesame")
    assert read_basic("dGVzdDoxMjPCow==") == Credentials("test", "123£")
    assert read_basic(base64.b64encode(b"a:b:c").decode()) == Credentials("a", "b:c")


def test_two_keys_share_nothing() -> None:
    made = [new_credentials() for _ in range(100)]
    assert len({one.key_id for one in made}) == len({one.secret for one in made}) == 100


class TestCabinet:
    @pytest.fixture
    def cabinet(self, factory: Factory) -> KeyService:
        return factory.keys()

    def test_a_secret_is_nowhere_in_the_database(self, factory: Factory, cabinet: KeyService) -> None:
        made = cabinet.create("job", VIEWER, "cli:x")
        (kept,) = cabinet.all()
        assert kept.secret_hash == secret_hash(made.secret)
        assert made.secret not in str(kept)
        assert made.secret not in str(factory.audit().page(0, 10))

    def test_making_and_revoking_stand_in_the_audit_log(self, factory: Factory, cabinet: KeyService) -> None:
        made = cabinet.create("job", VIEWER, "cli:x")
        cabinet.revoke(made.key_id, "cli:y")
        entries = factory.audit().page(0, 10).entries
        found = [(entry.who, entry.action, entry.subject) for entry in entries]
        subject = f"key:{made.key_id}"
        assert found == [("cli:x", "key.created", subject), ("cli:y", "key.revoked", subject)]
        assert entries[0].before is None
        assert entries[0].after == entries[1].before != entries[1].after

    def test_a_key_is_revoked_once_and_stays(self, cabinet: KeyService) -> None:
        made = cabinet.create("job", VIEWER, "cli:x")
        assert cabinet.revoke(made.key_id, "cli:x").revoked_at is not None
        with pytest.raises(ConflictError, match="was revoked at"):
            cabinet.revoke(made.key_id, "cli:x")
        assert [key.id for key in cabinet.all()] == [made.key_id]
        with pytest.raises(NotFoundError, match="no key has the id nobody"):
            cabinet.revoke("nobody", "cli:x")

    @pytest.mark.parametrize(
        ("name", "grants", "expires_at", "reason"),
        [
            ("job", (), None, "needs a role"),
            ("", VIEWER, None, "needs a name"),
            ("a\nb", VIEWER, None, "needs a name"),
            ("job", VIEWER, NOON, "expired already"),
        ],
    )
    def test_a_key_without_a_use_is_refused(
        self,
        cabinet: KeyService,
        name: str,
        grants: tuple[Grant, ...],
        expires_at: datetime | None,
        reason: str,
    ) -> None:
        late = KeyService(cabinet._database, lambda: NOON + timedelta(days=1))
        with pytest.raises(SettingsError, match=reason):
            late.create(name, grants, "cli:x", expires_at)
        assert cabinet.all() == ()

    def test_a_key_that_cannot_be_logged_is_not_made(self, factory: Factory, cabinet: KeyService) -> None:
        factory.database.write(lambda stores: stores.audit.append(AuditedAction(NOON, "a", "b", "c")))
        with pytest.raises(UnicodeEncodeError):
            cabinet.create("job", VIEWER, "cli:\ud800")
        assert cabinet.all() == ()
