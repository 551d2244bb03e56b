"""A fix for persons who may not see classified values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.privacy.classes import Classes
from tidegate.contracts.privacy.masked_fixes import masked

NAME = "Ada Lovelace"
CLASSES = Classes({"/patient/name": "pii", "/visits/*/doctor": "pii"})


def shown(*steps: dict[str, Any]) -> str:
    return masked(parse_fix(json.dumps({"fix": "f", "steps": steps}), name="f.json").text, CLASSES)


@pytest.mark.parametrize(
    "step",
    [
        {"action": "set", "field": "/patient/name", "value": NAME},
        {"action": "default", "field": "/visits/*/doctor", "value": NAME},
        {"action": "set", "field": "/visits/0/doctor", "value": NAME},
        {"action": "set", "field": "/patient", "value": NAME},
        {"action": "map", "field": "/patient/name", "values": [{"from": NAME, "to": None}]},
        {"action": "map", "field": "/patient/name", "values": [{"from": "x", "to": NAME}]},
        {"action": "drop", "field": "/age", "when": {"field": "/patient/name", "equals": NAME}},
        {"action": "drop", "field": "/age", "when": {"field": "/patient/name", "one_of": [NAME]}},
        {"action": "drop", "field": "/age", "when": {"field": "/patient/name", "not_equals": NAME}},
    ],
)
def test_values_of_classified_fields_are_hidden(step: dict[str, Any]) -> None:
    text = shown(step)
    assert NAME not in text
    assert "hidden" in text
    assert step["field"] in text


def test_values_of_a_renamed_field_are_hidden() -> None:
    rename = {"action": "rename", "field": "/patient/name", "to": "called"}
    text = shown(rename, {"action": "set", "field": "/patient/called", "value": NAME})
    assert NAME not in text
    assert '"to":"called"' in text


def test_other_steps_stay_as_they_are() -> None:
    steps = (
        {"action": "map", "field": "/age", "values": [{"from": 999, "to": None}]},
        {"action": "cast", "field": "/patient/name", "to": "string"},
        {"action": "drop", "field": "/age", "when": {"field": "/ward", "equals": "icu"}},
        {"action": "drop", "field": "/age", "when": {"field": "/patient/name", "present": True}},
    )
    assert json.loads(shown(*steps))["steps"] == [*steps]
