"""Consumers and agreements: who may register, change, agree, and whose contracts do not exist for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.gateway.http.models.examples import CONTRACT

from .conftest import Hire, Person, same_but_for

MakeContract = Callable[..., bytes]
CONTRACTS = "/api/v1/contracts"
HERE = f"{CONTRACTS}/hospital.admissions"
HIDDEN, UNKNOWN = "nyc.flights", "nyc.nothing"


@pytest.fixture
def registry(admin: Person, make_contract: MakeContract) -> Person:
    for name in ("hospital.admissions", HIDDEN):
        assert admin.ask("POST", CONTRACTS, make_contract(id=name, topic=name)).status_code == 201
    assert admin.ask("PUT", f"{HERE}/consumers/known", {"reads": ["/age"]}).status_code == 201
    return admin


@pytest.mark.usefixtures("registry")
def test_each_role_may_what_the_matrix_says(hire: Hire, make_contract: MakeContract) -> None:
    attempts: list[tuple[str, str, Any]] = [
        ("GET", f"{HERE}/consumers", None),
        ("GET", f"{HERE}/acknowledgements", None),
        ("POST", f"{CONTRACTS}/check", make_contract(version="1.3.0")),
        ("PUT", f"{HERE}/consumers/new", {"reads": ["/age"]}),
        ("PUT", f"{HERE}/consumers/known", {"reads": ["/admission_id"]}),
        ("POST", f"{HERE}/acknowledgements", {"consumer": "known", "candidate": "0" * 64}),
        ("DELETE", f"{HERE}/consumers/known", None),
    ]
    allowed = {
        role: [hire(f"{role}:hospital.").ask(*attempt).status_code for attempt in attempts]
        for role in ("viewer", "reporter", "producer", "approver")
    }
    assert allowed == {
        "viewer": [200, 200, 403, 403, 403, 403, 403],
        "reporter": [200, 200, 403, 403, 403, 403, 403],
        "producer": [200, 200, 200, 201, 403, 403, 403],
        "approver": [200, 200, 200, 200, 200, 201, 200],
    }


@pytest.mark.usefixtures("registry")
def test_a_producer_neither_agrees_for_consumers_nor_gets_rid_of_them(
    hire: Hire, make_contract: MakeContract
) -> None:
    producer = hire("producer:hospital.")
    rules = [*CONTRACT["rules"], {"id": "old", "kind": "range", "field": "/age", "minimum": 18}]
    breaking = make_contract(version="1.3.0", rules=rules)
    refused = producer.ask("POST", CONTRACTS, breaking)
    candidate = refused.json()["change"]["candidate"]
    agreement = {"consumer": "known", "candidate": candidate}
    for attempt in (
        ("POST", f"{HERE}/acknowledgements", agreement),
        ("PUT", f"{HERE}/consumers/known", {"reads": ["/admission_id"]}),
        ("DELETE", f"{HERE}/consumers/known", None),
    ):
        assert producer.ask(*attempt).status_code == 403
    assert producer.ask("POST", CONTRACTS, breaking).status_code == 409
    approver = hire("approver:hospital.")
    made = approver.ask("POST", f"{HERE}/acknowledgements", agreement)
    assert (made.status_code, made.json()["who"]) == (201, approver.name)
    assert producer.ask("POST", CONTRACTS, breaking).status_code == 201


@pytest.mark.usefixtures("registry")
def test_contracts_of_others_do_not_exist(hire: Hire) -> None:
    person = hire("admin:hospital.")
    for method, path, body in (
        ("GET", "consumers", None),
        ("PUT", "consumers/x", {"reads": []}),
        ("DELETE", "consumers/x", None),
        ("GET", "acknowledgements", None),
        ("POST", "acknowledgements", {"consumer": "x", "candidate": "0" * 64}),
    ):
        hidden, unknown = (
            person.ask(method, f"{CONTRACTS}/{name}/{path}", body) for name in (HIDDEN, UNKNOWN)
        )
        assert same_but_for(HIDDEN, UNKNOWN, hidden) == same_but_for(UNKNOWN, UNKNOWN, unknown), path
        assert hidden.status_code == 404


@pytest.mark.usefixtures("registry")
def test_a_dry_run_says_nothing_of_others(hire: Hire, make_contract: MakeContract) -> None:
    producer = hire("producer:hospital.")
    for topic in (HIDDEN, UNKNOWN):
        assert producer.ask("POST", f"{CONTRACTS}/check", make_contract(topic=topic)).status_code == 403
    for name in (HIDDEN, UNKNOWN):
        answer = producer.ask("POST", f"{CONTRACTS}/check", make_contract(id=name, topic="hospital.x"))
        assert answer.status_code == 403
