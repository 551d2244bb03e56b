"""Changes of a contract that are as strict as before, and therefore need no approval."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.contracts.compatibility.test_weakening import (
    A_ZERO,
    BUDGET,
    FRAMED,
    A,
    B,
    contract,
    expects,
    property_of,
    record,
    rule,
    symbols,
)
from tidegate.contracts.compatibility.weakening import weakenings

NESTED = {
    "type": "object",
    "properties": {"who": {"type": "object", "properties": {"illness": {"type": "string"}}}},
}
STRICTER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, rule("range")),
    (rule("range"), rule("range", maximum=100)),
    (rule("range"), rule("range", id="renamed")),
    (rule("range"), rule("range", description="Why.")),
    (rule("range", severity="warning"), rule("range")),
    (rule("range"), rule("range", on_violation="fail")),
    (rule("range", minimum="-"), {"schema": property_of(age={"type": "integer", "maximum": 120})}),
    (expects(), expects(description="Why.")),
    (expects(), expects(kwargs={"column": "age", "min_value": 11, "max_value": 60})),
    ({}, expects()),
    ({}, {"error_budget": BUDGET}),
    ({"error_budget": BUDGET}, {"error_budget": {**BUDGET, "ratio": 0.05, "min_records": 1}}),
    ({}, {"classification": {"/age": "pii"}}),
    ({"mask": {"/age": "hash"}}, {"mask": {"/age": "drop"}}),
    (
        {"schema": NESTED, "classification": {"/who": "pii", "/who/illness": "medical"}},
        {"schema": NESTED, "classification": {"/who": "pii", "/who/illness": "medical"}, "key_mask": "hash"},
    ),
    (FRAMED | {"schema": record(A_ZERO)}, FRAMED | {"schema": record(A_ZERO, {**B, "default": 1})}),
    ({"kind": "avro", "schema": record(A)}, {"kind": "avro", "schema": record(A_ZERO)}),
    (FRAMED | {"schema": symbols("a", "b", default="a")}, FRAMED | {"schema": symbols("a", default="a")}),
    (
        FRAMED | {"schema": symbols("a", default="a", namespace="old")},
        FRAMED | {"schema": symbols("a", default="a", namespace="new")},
    ),
    ({}, {"mask": {"/age": "drop"}}),
    ({}, {"key_mask": "hash"}),
    ({}, {"on_violation": "fail"}),
    ({"tombstones": "delete"}, {"tombstones": "refuse"}),
    ({"unframed_group": "1"}, {}),
    ({}, {"compatibility_group": "1"}),
    ({}, {"compatibility": "FULL_TRANSITIVE"}),
    ({"undeclared": "ignore"}, {}),
    ({}, {"primary_key": ["age"]}),
    ({}, {"description": "x", "domain": "y", "team": {"name": "z"}, "consumers": [{"id": "c"}]}),
    ({}, {"status": "draft", "version": "9.0.0"}),
    ({"schema": property_of(age={"type": "number"})}, {}),
    ({}, {"schema": property_of(age={"type": "integer", "maximum": 3, "description": "x"})}),
]


@pytest.mark.parametrize("pair", STRICTER, ids=lambda pair: str(pair[1])[:60])
def test_an_equally_strict_change_needs_no_approval(make_contract: Any, pair: Any) -> None:
    before, after = (contract(make_contract, parts) for parts in pair)
    assert weakenings(before, after) == ()
