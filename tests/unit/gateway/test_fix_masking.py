"""Which values of a fix are hidden: those of fields that may hold classified values, by whatever name the fix has them."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.fix.model import AnyStep
from tidegate.contracts.privacy.classes import Classes, Visibility
from tidegate.gateway.streams.masking import HIDDEN, masked_fix

SECRET = "S3CR3T"  # noqa: S105 - it opens nothing
DECLARED = frozenset({"name", "alias", "label", "ward", "age", "patient", "guests"})
SIGHT = Visibility(
    Classes({"/patient/name": "personal", "/guests/*/name": "personal", "/name": "personal"}), DECLARED
)


def step(action: str, field: str, **more: Any) -> dict[str, Any]:
    return {"action": action, "field": field, **more}


def masked(*steps: dict[str, Any], sight: Visibility = SIGHT) -> str:
    fix = parse_fix(json.dumps({"fix": "f", "steps": steps}), name="fix.json")
    return masked_fix(fix.text, sight)


@pytest.mark.parametrize(
    "steps",
    [
        [step("set", "/name", value=SECRET)],
        [step("default", "/name", value=SECRET)],
        [step("map", "/name", values=[{"from": SECRET, "to": None}])],
        [step("map", "/name", values=[{"from": None, "to": SECRET}])],
        [step("trim", "/ward", when={"field": "/name", "equals": SECRET})],
        [step("trim", "/ward", when={"field": "/name", "one_of": ["a", SECRET]})],
        [step("drop", "/ward", when={"field": "/name", "not_equals": SECRET})],
        [step("set", "/name/first", value=SECRET)],
        [step("set", "/patient", value=SECRET)],  # in place of an object with a classified field
        [step("set", "/patient/0", value=SECRET)],
        [step("set", "/guests/*", value=SECRET)],
        [step("set", "/guests/*/name", value=SECRET)],
        [step("set", "/guests/7/name", value=SECRET)],
        [step("set", "/*/name", value=SECRET)],
        [step("set", "/undeclared", value=SECRET)],
        [step("rename", "/name", to="label"), step("set", "/label", value=SECRET)],
        [step("set", "/label", value=SECRET), step("rename", "/label", to="name")],
        [
            step("rename", "/alias", to="label"),
            step("rename", "/name", to="alias"),
            step("set", "/label", value=SECRET),
        ],
        [step("rename", "/patient", to="label"), step("set", "/label/age", value=SECRET)],
    ],
)
def test_a_value_that_may_be_of_a_classified_field_is_hidden(steps: list[dict[str, Any]]) -> None:
    found = masked(*steps)
    assert SECRET not in found
    assert HIDDEN in found
    assert SECRET in masked(*steps, sight=Visibility(Classes({})))  # nothing is classified
    assert SECRET not in masked(*steps, sight=Visibility(None))  # nothing is known


@pytest.mark.parametrize(
    "steps",
    [
        [step("set", "/ward", value="north")],
        [step("set", "/guests/*/age", value=4)],
        [step("rename", "/name", to="label"), step("set", "/ward", value="north")],
        [step("rename", "/ward", to="label"), step("set", "/label", value="north")],
        [step("cast", "/name", to="string"), step("date", "/name", form="DD.MM.YYYY")],
        [step("trim", "/ward", when={"field": "/name", "present": True})],
    ],
)
def test_other_values_stay_as_they_are(steps: list[dict[str, Any]]) -> None:
    assert masked(*steps) == parse_fix(json.dumps({"fix": "f", "steps": steps}), name="fix.json").text


def test_a_text_that_is_no_fix_is_hidden() -> None:
    assert masked_fix('{"fix": "S3CR3T"}', SIGHT) == HIDDEN


def test_every_action_is_known_to_hide_or_to_have_no_value() -> None:
    """A new field of a step may hold a value: then it belongs into `masked_fix`, and into this list."""
    fields = {name for each in get_args(get_args(AnyStep)[0]) for name in each.model_fields}
    assert fields == {"action", "field", "when", "value", "values", "to", "form", "zone"}
