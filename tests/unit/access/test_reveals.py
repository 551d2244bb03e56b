"""Reveals: who may, and what the audit log says of them."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.contracts.stream.evidence import EventPointer
from tidegate.gateway.access.principal import ANONYMOUS, Forbidden, Principal, read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.desk_route import read_fields
from tidegate.gateway.http.desk.routes import chosen_parts
from tidegate.gateway.http.problems import InvalidBody
from tidegate.gateway.streams.reveals import name_of

from .conftest import Hire, Person
from .test_native_api import registry

__all__ = ["registry"]

SUBJECT = "hospital.admissions-value"
PLACE = EventPointer("hospital.admissions.quarantine", 2, 4711)
PATH = "/desk/records/hospital.admissions.quarantine/2/4711/reveal"
FORM = "application/x-www-form-urlencoded"


def asked(person: Person, body: bytes = b"part=key") -> Any:
    return person.ask("POST", PATH, body, FORM)


@pytest.mark.usefixtures("registry")
def test_a_role_below_approver_of_the_subject_reveals_nothing(hire: Hire, factory: Factory) -> None:
    head = factory.audit().page(0, 1).head
    asking = []
    for grants in (["viewer:hospital."], ["producer"], ["viewer:hospital.", "approver:nyc."]):
        asking.append(hire(*grants))
        answer = asked(asking[-1])
        assert answer.status_code == 403, grants
        assert "This needs the role approver" in answer.text
    stranger = hire("approver:nyc.")
    assert asked(stranger).status_code == 404  # the stream is not there for them
    kept = factory.audit().page(0, 1000).entries
    assert "record.revealed" not in {entry.action for entry in kept}
    denied = [(entry.who, entry.subject) for entry in kept if entry.action == "request.denied"]
    assert denied == [
        *((each.name, f"403 POST {PATH}") for each in asking),
        (stranger.name, f"404 POST {PATH}"),
    ]
    assert factory.audit().check(head).is_intact


@pytest.mark.usefixtures("registry")
def test_an_approver_is_let_through_to_the_broker(hire: Hire) -> None:
    answer = asked(hire("approver:hospital."))
    assert answer.status_code == 503
    assert "The registry knows no Kafka broker" in answer.text


@pytest.mark.usefixtures("registry")
def test_a_form_that_asks_for_nothing_gets_a_message(hire: Hire) -> None:
    assert asked(hire("approver:hospital."), b"").status_code == 422
    assert asked(hire("approver:hospital."), b"x" * 70_000).status_code == 413


def test_each_part_stands_in_the_chain_with_who_and_which_record(factory: Factory) -> None:
    steward = Principal("key:3f9c2a71b0de", read_grants(["approver:hospital."]))
    factory.reveals().record(steward, SUBJECT, PLACE, ["/patient_id", "/lines/*/name", "key"])
    found = factory.audit().page(0, 1000).entries
    assert [(entry.who, entry.action, entry.subject) for entry in found] == [
        (steward.name, "record.revealed", f"record:hospital.admissions.quarantine/2/4711#{part}")
        for part in ("/patient_id", "/lines/*/name", "key")
    ]
    assert factory.audit().check().is_intact


@pytest.mark.parametrize("grants", [[], ["viewer"], ["producer:hospital."], ["approver:nyc."]])
def test_nothing_is_noted_for_who_may_not(factory: Factory, grants: list[str]) -> None:
    with pytest.raises(Forbidden):
        factory.reveals().record(Principal("key:1", read_grants(grants)), SUBJECT, PLACE, ["key"])
    assert factory.audit().page(0, 10).entries == ()


def test_without_access_control_the_local_user_is_named() -> None:
    assert name_of(ANONYMOUS).startswith("local:")
    assert name_of(Principal("oidc:ann", ())) == "oidc:ann"


def test_a_form_is_read_once_for_each_part() -> None:
    assert chosen_parts(read_fields(b"part=%2Fa%2F*&part=key&other=1&part=key")) == ("/a/*", "key")
    for body in (b"", b"part=", b"other=1", b"part=\xff", b"part=x&" * 300):
        with pytest.raises(InvalidBody):
            chosen_parts(read_fields(body))
