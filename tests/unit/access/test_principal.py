from __future__ import annotations

import pytest

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.access.principal import ANONYMOUS, Grant, Principal, Role, read_grants

PRODUCER = Principal("key:p", read_grants(["producer:hospital.", "viewer:nyc."]))


@pytest.mark.parametrize(
    ("role", "subject", "expected"),
    [
        (Role.VIEWER, "hospital.admissions-value", True),
        (Role.PRODUCER, "hospital.admissions-value", True),
        (Role.APPROVER, "hospital.admissions-value", False),
        (Role.VIEWER, "nyc.flights-value", True),
        (Role.PRODUCER, "nyc.flights-value", False),
        (Role.VIEWER, "hospitality-value", False),
        (Role.VIEWER, "Hospital.admissions-value", False),
        (Role.VIEWER, "", False),
    ],
)
def test_a_role_covers_the_subjects_under_its_prefix_and_includes_those_below_it(
    role: Role, subject: str, expected: object
) -> None:
    assert PRODUCER.may(role, subject) is expected


def test_what_concerns_the_whole_registry_needs_the_empty_prefix() -> None:
    assert PRODUCER.may_somewhere(Role.PRODUCER)
    assert not PRODUCER.may_somewhere(Role.APPROVER)
    assert not PRODUCER.may_everywhere(Role.VIEWER)
    assert Principal("key:a", read_grants(["approver", "admin:x."])).may_everywhere(Role.APPROVER)
    assert not Principal("key:a", read_grants(["approver", "admin:x."])).may_everywhere(Role.ADMIN)


def test_the_visible_prefixes_are_those_of_any_role() -> None:
    assert PRODUCER.prefixes == ("hospital.", "nyc.")
    assert Principal("key:a", read_grants(["viewer", "admin:x."])).prefixes is None
    assert Principal("key:a", ()).prefixes == ()
    assert ANONYMOUS.prefixes is None


@pytest.mark.parametrize("text", ["viewer", "producer:hospital.", "admin:a:b", "approver:ä"])
def test_a_grant_is_written_as_it_is_read(text: str) -> None:
    assert str(Grant.read(text)) == text


@pytest.mark.parametrize("text", ["", ":x", "root", "viewer.x", " viewer"])
def test_a_word_that_is_no_role_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(SettingsError, match="the roles are viewer, reporter, producer, approver, admin"):
        Grant.read(text)
