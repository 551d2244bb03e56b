"""The sentences about a change: always from the earlier schema to the later, in both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.contracts.compatibility.json_schema.schemas import I, S, obj
from tidegate.contracts.inclusion.json_schema import SchemaPair

CHANGES = [
    # what the narrower says, what the wider says, narrowing in words, widening in words
    (
        obj(a={"maximum": 3}),
        obj(a={"maximum": 5}),
        "`maximum` of `/a` went from 5 to 3",
        "`maximum` of `/a` went from 3 to 5",
    ),
    (obj(a={"maximum": 3}), obj(a={}), "`maximum` of `/a` is new: 3", "`maximum` 3 of `/a` is gone"),
    (
        obj(a={"exclusiveMinimum": 0}),
        obj(a={"minimum": 0}),
        "`minimum` 0 of `/a` became `exclusiveMinimum` 0",
        "`exclusiveMinimum` 0 of `/a` became `minimum` 0",
    ),
    (
        obj(a={"type": "integer"}),
        obj(a={"type": ["integer", "null"]}),
        '`type` of `/a` went from ["integer","null"] to "integer"',
        '`type` of `/a` went from "integer" to ["integer","null"]',
    ),
    (
        obj(a={"enum": [*range(20)]}),
        obj(a={"enum": [*range(28)]}),
        "`enum` of `/a` does not take 20, 21, 22, 23, 24 and 3 more any more",
        "`enum` of `/a` takes 20, 21, 22, 23, 24 and 3 more now, and did not before",
    ),
    (
        obj(a={"enum": ["x"]}),
        obj(a={}),
        '`enum` of `/a` is new: ["x"]',
        '`enum` ["x"] of `/a` is gone',
    ),
    (
        obj(["a"]),
        obj(),
        "the property `a` of the record is required now",
        "the property `a` of the record need not be there any more",
    ),
    (
        obj(closed=True),
        obj(closed=True, a=I),
        "the property `/a` is not allowed any more",
        "the property `/a` was not allowed and is now",
    ),
    (
        obj(closed=True),
        obj(),
        "properties that are not declared, at `/*`, are not allowed any more",
        "properties that are not declared, at `/*`, were not allowed and are now",
    ),
    (
        obj(a=I),
        obj(),
        '`/a` was free and must fit {"type":"integer"}',
        '`/a` had to fit {"type":"integer"} and is free now',
    ),
    (
        {"prefixItems": [S], "items": False},
        {"prefixItems": [S]},
        "no item is allowed at `/*` any more",
        "no item was allowed at `/*`, and now there is one",
    ),
    (
        False,
        S,
        "nothing is accepted at the record any more",
        "nothing was accepted at the record, and now something is",
    ),
    (
        {"anyOf": [obj(["a" * 60]), obj(["b" * 60])]},
        {"anyOf": [obj(["a" * 60]), obj(["b" * 60]), obj(["c" * 60])]},
        "`anyOf` of the record went from 3 alternatives to 2",
        "`anyOf` of the record went from 2 alternatives to 3",
    ),
    (
        {"dependentRequired": {"a": ["b"]}},
        True,
        '`dependentRequired` of the record is new for `a`: ["b"]',
        '`dependentRequired` ["b"] of the record for `a` is gone',
    ),
    (
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
        True,
        "under a condition, the property `b` of the record is required now",
        "under a condition, the property `b` of the record need not be there any more",
    ),
    (
        obj(a={"pattern": "^(" + "a" * 100 + "|b)$"}),
        obj(a={"pattern": "^(" + "a" * 100 + "|b|c)$"}),
        "`pattern` of `/a` went from ..." + "a" * 18 + '|b|c)$" to ...' + "a" * 18 + '|b)$"',
        "`pattern` of `/a` went from ..." + "a" * 18 + '|b)$" to ...' + "a" * 18 + '|b|c)$"',
    ),
]


def pair(one: Any, other: Any) -> SchemaPair:
    return SchemaPair(
        json.loads(json.dumps(one)), json.loads(json.dumps(other)), formats_asserted=(True, True)
    )


@pytest.mark.parametrize(("narrow", "wide", "narrowing", "widening"), CHANGES)
def test_a_change_is_described_from_the_earlier_schema_to_the_later(
    narrow: Any, wide: Any, narrowing: str, widening: str
) -> None:
    (told,) = pair(wide, narrow).forth().differences
    assert told.sentence == f"{narrowing}; a record that the old schema accepts breaks it"
    (told,) = pair(narrow, wide).back().differences
    assert told.sentence == f"{widening}; a record that the new schema accepts breaks the old one"


def test_an_undetermined_answer_is_described_in_both_directions() -> None:
    plain, unread = obj(a=S), obj(a={**S, "pattern": "^a$"})
    (told, *_) = pair(plain, unread).forth(0).differences
    assert told.sentence.endswith(
        "; whether every record that the old schema accepts keeps it was not decided within the given steps"
    )
    (told, *_) = pair(unread, plain).back(0).differences
    assert told.sentence.endswith(
        "; whether every record that the new schema accepts fits the old one was not decided within the given steps"
    )
