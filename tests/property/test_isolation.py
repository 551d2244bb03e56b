"""Two teams share a registry: whatever people of one team request, they read and change nothing of the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from schemathesis import Case
from schemathesis.core import NotSet

from tests.documented import MODES, documented_operations
from tests.property.two_teams import (
    BODIES,
    OPERATIONS_OF_ALL_APIS,
    OURS,
    QUERIES,
    ROLES,
    THEIRS,
    Registry,
)
from tidegate.gateway.embedded.broker import Broker


@pytest.fixture(scope="module", autouse=True)
def _records_are_in_topics(broker: Broker) -> None:
    TwoTeams.bootstrap_servers = broker.bootstrap


@pytest.fixture
def registry(broker: Broker) -> Iterator[Registry]:
    made = Registry(broker.bootstrap)
    yield made
    made.close()


@pytest.mark.full
@pytest.mark.parametrize("role", ROLES)
def test_no_operation_reads_or_changes_the_other_team(registry: Registry, role: str) -> None:
    """Every operation of the three APIs is asked about the other team's objects, with every body."""
    for method, path in OPERATIONS_OF_ALL_APIS:
        for target in registry.addresses(path, THEIRS):
            for body in [None] if method in ("GET", "DELETE") else BODIES:
                registry.request(role, method, target, body)
        registry.assert_the_other_team_is_as_it_was()


class TwoTeams(RuleBasedStateMachine):
    """Requests by people of one team, in any order; what the other team has stays as it is, and unseen.

    Requests come from a list of what each operation accepts, and from the OpenAPI document by schemathesis.
    """

    bootstrap_servers = ""

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry(self.bootstrap_servers)
        self.documented = documented_operations(self.registry.application)

    def teardown(self) -> None:
        self.registry.close()

    @rule(
        role=st.sampled_from(ROLES),
        operation=st.sampled_from(OPERATIONS_OF_ALL_APIS),
        query=st.lists(st.sampled_from(QUERIES), max_size=2),
        body=st.one_of(st.sampled_from(BODIES), st.recursive(st.none() | st.text(max_size=8) | st.integers(),
                       lambda of: st.lists(of, max_size=3) | st.dictionaries(st.text(max_size=8), of, max_size=3))),
        data=st.data(),
    )  # fmt: skip
    def request(
        self, role: str, operation: tuple[str, str], query: list[str], body: Any, data: st.DataObject
    ) -> None:
        method, path = operation
        targets = [*self.registry.addresses(path, THEIRS), *self.registry.addresses(path, OURS)]
        target = data.draw(st.sampled_from(targets))
        self.registry.request(role, method, "?".join([target, "&".join(query)]) if query else target, body)

    @rule(role=st.sampled_from(ROLES), data=st.data())
    def documented_request(self, role: str, data: st.DataObject) -> None:
        """Ask one operation of the OpenAPI document, with what its schemas allow, and with what they do not."""
        operation = data.draw(st.sampled_from(self.documented))
        mode = data.draw(st.sampled_from(MODES))
        case: Case = data.draw(operation.as_strategy(generation_mode=mode))
        addresses = (self.registry.addresses(operation.path, of) for of in (THEIRS, OURS))
        target = data.draw(st.sampled_from([*chain.from_iterable(addresses)]))
        query = urlencode(case.query or {}, doseq=True, errors="replace")
        body = None if isinstance(case.body, NotSet | bytes) else case.body
        self.registry.request(role, operation.method.upper(), f"{target}?{query}" if query else target, body)

    @invariant()
    def the_other_team_is_as_it_was(self) -> None:
        self.registry.assert_the_other_team_is_as_it_was()


TestTwoTeams = pytest.mark.full(TwoTeams.TestCase)
TestTwoTeams.settings = settings(
    max_examples=20,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),  # the failing step is the last one: shrinking takes minutes, and says no more
)
