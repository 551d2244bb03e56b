"""Conditions of rule sets: judged, and with the verdicts of Confluent's clients.

The Python client asks its rule about each record, and writes the record that the stream then judges: where a condition
is followed by transformations, that is what they made of it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.confluent_conditions.client import Producer
from tests.conformance.confluent_conditions.conditions import (
    AVRO,
    CONDITIONS,
    JSON,
    STRING_FUNCTIONS,
    Condition,
)
from tests.conformance.confluent_conditions.records import ORDER
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.gateway.registry.schemas.entities import RuleSet
from tidegate.gateway.registry.schemas.imported_rules import ImportedRules, import_rules
from tidegate.gateway.registry.schemas.parsing import parse_schema

RECORDED = Path(__file__).with_name("string_functions.json")


def imported(condition: Condition) -> ImportedRules:
    rules = RuleSet.model_validate({"domainRules": [condition.rule, *condition.later]})
    return import_rules(rules, parse_schema(condition.format, json.dumps(condition.schema), {}), None)


def reasons(condition: Condition) -> list[str]:
    """Return why a condition is not judged, or not everywhere."""
    return [each for each in imported(condition).left_out if each.startswith("asked")]


def verdicts(conditions: list[Condition]) -> dict[str, list[bool]]:
    """Judge the records of conditions of one format; return for each condition whether the records pass."""
    plan = plan_of(conditions)
    plain = Producer(conditions[0].format, conditions[0].schema, ())

    @cache
    def broken(written: bytes) -> frozenset[str]:
        codes = [violation.code for violation in plan.explain(written).violations]
        assert all(code.startswith("confluent.") for code in codes), codes
        return frozenset(code.split(".")[1] for code in codes)

    found: dict[str, list[bool]] = {}
    for index, condition in enumerate(conditions):
        later = condition.later
        topic = Producer(condition.format, condition.schema, later) if later else plain
        written = [topic.write(record) for record in condition.records]
        found[condition.name] = [f"c{index}" not in broken(one) for one in written if one is not None]
        assert None not in written, condition.name
    return found


def plan_of(conditions: list[Condition]) -> EnforcementPlan:
    """Compile one contract with the rules of all conditions; the id of a rule begins with its condition's number."""
    kind = "avro" if conditions[0].format == AVRO else "json-schema"
    rules: list[dict[str, Any]] = []
    for index, condition in enumerate(conditions):
        for number, rule in enumerate(imported(condition).rules):
            written = rule.model_dump(mode="json", exclude_defaults=True)
            rules.append({**written, "id": f"confluent.c{index}.{number}"})
    return compile_plan(
        DataContract.model_validate(
            {
                "apiVersion": "tidegate/v1",
                "kind": "DataContract",
                "id": "t",
                "version": "1.0.0",
                "topic": "t",
                "schema": {"type": kind, "definition": conditions[0].schema},
                "rules": rules,
            }
        )
    )


@pytest.mark.parametrize("schema_type", [JSON, AVRO])
def test_each_verdict_is_that_of_the_python_client(schema_type: str) -> None:
    judged = [each for each in CONDITIONS if each.format == schema_type and not reasons(each)]
    ours = verdicts(judged)
    for condition in judged:
        producer = Producer(schema_type, condition.schema, [condition.rule, *condition.later])
        theirs = [producer.write(record) is not None for record in condition.records]
        assert ours[condition.name] == theirs, condition.name
        assert set(theirs) == {True, False}, f"{condition.name}: no record passes, or none fails"


def test_nineteen_of_twenty_conditions_are_judged() -> None:
    everything = [*CONDITIONS, *STRING_FUNCTIONS]
    assert len({condition.name for condition in everything}) == len(everything) >= 150
    refused = {each.name: reasons(each) for each in everything if reasons(each)}
    assert len(refused) <= 0.05 * len(everything), refused
    assert set(refused) == {
        each.name for each in CONDITIONS if each.later and each.expr.startswith(("message.id.", "message.labels.", "message.note"))
    }  # fmt: skip
    assert {reason for each in refused.values() for reason in each} == {
        "asked is about what a later rule of clients changes"
    }


def test_string_functions_give_the_verdicts_of_the_javascript_client() -> None:
    """The recorded verdicts: `tests/integration/confluent/test_other_clients.py` asks the client for them."""
    recorded = json.loads(RECORDED.read_text())
    assert set(recorded) == {condition.expr for condition in STRING_FUNCTIONS}
    ours = verdicts(list(STRING_FUNCTIONS))
    for condition in STRING_FUNCTIONS:
        assert ours[condition.name] == recorded[condition.expr], condition.name
        assert set(recorded[condition.expr]) == {True, False}, condition.name


@pytest.mark.parametrize(
    ("condition", "record", "client", "judge"),
    [
        # The Python client compares no integer with a double; the clients for Java, Go and JavaScript do.
        (Condition("message.amount > 0.0"), {"amount": 5}, False, True),
        (Condition("message.quantity > 0.5"), {"quantity": 1}, False, True),
        # It takes an empty record for the result of a rule about fields.
        (Condition("name == 'id' ; value != ''", "CEL_FIELD"), {}, False, True),
        # It takes a false that a rule is not asked about for the result of the rule.
        (Condition("value != ''", "CEL_FIELD", tags=("PII",)), {"paid": False, "email": "a"}, False, True),
        # It does not have the strings extension: every record is refused.
        (Condition("message.id.lowerAscii() == 'a'"), {"id": "A"}, False, True),
    ],
)
def test_where_the_python_client_differs(
    condition: Condition, record: dict[str, Any], *, client: bool, judge: bool
) -> None:
    """These differences are known and documented; a new version of the client may end them."""
    assert (Producer(JSON, ORDER, [condition.rule]).write(record) is not None) is client
    assert (not plan_of([condition]).explain(json.dumps(record).encode()).violations) is judge


@pytest.mark.parametrize(
    ("expr", "kind", "reason"),
    [
        ("message.status == 'a;b'", "CEL", "is split by clients at the semicolon in a text"),
        ("message.note", "CEL", "may give something else than true or false"),
        ("message.paid ? message.note : true", "CEL", "may give something else than true or false"),
        ("name == 'id' ; value", "CEL_FIELD", "may give something else than true or false"),
        ("name == 'nothing' ; value != ''", "CEL_FIELD", "is about no field of the schema"),
    ],
)
def test_what_no_verdict_can_equal_is_not_judged(expr: str, kind: str, reason: str) -> None:
    condition = Condition(expr, kind)
    assert imported(condition).rules == ()
    assert any(reason in each for each in reasons(condition))
