"""A rule that is suggested for a contract refuses no good record, whatever the records are."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.strength.measure import GoodRecords, measure, plan_for_mutation

VALUE = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-5, 1_100)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["", "N/A", "AB12", "AB13", "ab", " x", "2024-02-29", "1900-01-01", "2024-01-01T00:00:00Z", "ÃÂ"]
    )
    | st.text(max_size=6)
)
FIELDS: dict[str, Any] = {
    "any": {},
    "number": {"type": ["number", "null"]},
    "text": {"type": "string"},
    "from": {"type": "string", "format": "date"},
    "to": {"type": "string", "format": "date"},
    "in": {"type": "object", "properties": {"deep~/": {}}},
}
RECORD = st.fixed_dictionaries(
    {},
    optional={
        "any": VALUE,
        "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 1_100),
        "text": st.text(max_size=6),
        "from": st.dates().map(str),
        "to": st.dates().map(str),
        "in": st.dictionaries(st.sampled_from(["deep~/", "other"]), VALUE),
    },
)


@given(st.lists(RECORD, min_size=1, max_size=40), st.booleans())
@settings(max_examples=examples(15), deadline=None)
def test_a_suggested_rule_refuses_no_good_record(records: list[dict[str, Any]], is_personal: bool) -> None:
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "a",
        "version": "1.0.0",
        "topic": "a",
        "schema": {"type": "json-schema", "definition": {"type": "object", "properties": FIELDS}},
        "classification": {"/any": "pii"} if is_personal else {},
    }
    good = GoodRecords(plan_for_mutation(DataContract.model_validate(document)), 1_000)
    values = pa.array(map(orjson.dumps, records), pa.large_binary())
    good.add(values)
    found = measure(good, mutants=2, seed=0)
    stronger = compile_plan(DataContract.model_validate({**document, "rules": list(found.rules)}))
    accepted = pa.array(good.values, pa.large_binary())
    assert not any(stronger.judge(accepted).field("disposition").to_pylist())
    assert all(0 <= each.caught <= each.missed <= each.mutants <= 2 for each in found.outcomes)
