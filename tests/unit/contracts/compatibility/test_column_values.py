"""A new or unmasked column must hold what records of the earlier contract have in its field."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.unit.contracts.compatibility.conftest import contract_of
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.finding import Finding
from tidegate.contracts.document.model import Compatibility, DataContract
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.verdict import Disposition


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def column(name: str, kind: str, field: str | None = None) -> dict[str, str]:
    return {"name": name, "from": field or f"/{name}", "type": kind}


def backward(base: DataContract, candidate: DataContract) -> dict[str, Finding]:
    """Return the breaking findings by code."""
    comparison = compare(base, candidate, level=Compatibility.BACKWARD)
    return {each.code: each for each in comparison.findings if each.severity == "breaking"}


def is_written(contract: DataContract, text: str) -> bool:
    plan = compile_plan(contract.model_copy(update={"framing": "none"}))
    verdict = plan.judge_typed(pa.array([text.encode()], pa.binary()))
    return Disposition(verdict.field("disposition")[0].as_py()).is_written


TEXT = {"type": "string"}
INTEGER = {"type": "integer"}
OPEN = {"type": "object", "additionalProperties": INTEGER}
TIMES = {"type": "object", "additionalProperties": {"type": "string", "format": "date-time"}}


@pytest.mark.parametrize(
    ("schema", "before", "after"),
    [
        (closed(x={"type": "number"}, y=TEXT), [column("y", "string")], [column("x", "int")]),
        (closed(x={"type": "number"}), [column("x", "double")], [column("xx", "int", "/x")]),
        (closed(x={"type": "number"}, y=TEXT), [], [column("x", "double"), column("xi", "int", "/x")]),
        (closed(x=INTEGER, y=TEXT), [column("y", "string")], [column("x", "long")]),
        (closed(x={"type": ["string", "integer"]}, y=TEXT), [column("y", "string")], [column("x", "string")]),
        (closed(x={"type": "number", "maximum": 9}, y=TEXT), [column("y", "string")], [column("x", "float")]),
        (
            closed(x={"type": "string", "format": "date"}, y=TEXT),
            [column("y", "string")],
            [column("x", "date")],
        ),
        (closed(x=closed(z=INTEGER), y=TEXT), [column("y", "string")], [column("z", "int", "/x/z")]),
    ],
)
def test_a_new_column_breaks_if_it_refuses_a_record_that_was_written(
    schema: Any, before: list[Any], after: list[Any]
) -> None:
    base, candidate = (contract_of(schema=schema, columns=each) for each in (before, before + after))
    found = backward(base, candidate)["column.added"]
    assert found.outcome is Outcome.REFUTED
    assert found.counterexample is not None
    text = found.counterexample.text
    assert (is_written(base, text), is_written(candidate, text)) == (True, False)


@pytest.mark.parametrize("schema", [OPEN, TIMES])
def test_a_derived_column_breaks_like_a_declared_one(schema: dict[str, Any]) -> None:
    base = contract_of(schema=schema)
    candidate = contract_of(schema={**schema, "properties": {"x": schema["additionalProperties"]}})
    found = backward(base, candidate)["column.added"]
    assert found.counterexample is not None
    text = found.counterexample.text
    assert (is_written(base, text), is_written(candidate, text)) == (True, False)


INT = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
COUNT = {"id": "count", "kind": "range", "field": "/x", "minimum": 0, "maximum": 9}


@pytest.mark.parametrize(
    ("field", "kind", "others"),
    [
        ({}, "json", {}),
        (TEXT, "string", {}),
        ({"type": ["boolean", "null"]}, "boolean", {}),
        (INT, "int", {}),
        (INT, "long", {}),
        (INT, "double", {}),
        (INT, "decimal(12,2)", {}),
        ({"enum": [1, 2]}, "int", {}),
        (INTEGER, "int", {"rules": [COUNT]}),
        (INTEGER, "int", {"mask": {"/x": "redact"}}),
        (INTEGER, "int", {"on_violation": "alert"}),
    ],
)
def test_a_new_column_that_holds_all_values_breaks_nothing(field: Any, kind: str, others: Any) -> None:
    columns = [column("y", "string"), column("x", kind)]
    schema = closed(x=field, y=TEXT)
    base, candidate = (contract_of(schema=schema, columns=each, **others) for each in (columns[:1], columns))
    assert backward(base, candidate) == {}


def test_a_field_that_the_base_already_put_into_a_column_breaks_nothing() -> None:
    schema = closed(x={"type": "number"})
    base = contract_of(schema=schema, columns=[column("x", "int")])
    for kind in ("int", "long", "double"):
        candidate = contract_of(schema=schema, columns=[column("x", "int"), column("xx", kind, "/x")])
        assert backward(base, candidate) == {}


def test_a_field_that_the_base_does_not_allow_breaks_nothing() -> None:
    base, candidate = (contract_of(schema=closed(y=TEXT, **more)) for more in ({}, {"x": INTEGER}))
    assert backward(base, candidate) == {}


def test_a_column_of_an_undeclared_field_follows_the_rule_for_undeclared_properties() -> None:
    base, candidate = (
        contract_of(schema={"type": "object", "properties": {"y": TEXT, **more}}, undeclared="ignore")
        for more in ({}, {"x": INTEGER})
    )
    comparison = compare(base, candidate, level=Compatibility.BACKWARD)
    assert {each.code: each.outcome for each in comparison.findings if each.severity == "warning"} == {
        "schema.property-constrained": Outcome.ASSUMED,
        "column.added": Outcome.ASSUMED,
    }
    assert comparison.is_compatible
    stricter = base.model_copy(update={"undeclared": "judge"})
    assert "schema.property-constrained" in backward(stricter, candidate)


def test_what_cannot_be_decided_is_undetermined() -> None:
    schema = closed(x={"type": "array", "prefixItems": [True] * 200}, y=TEXT)
    base, candidate = (
        contract_of(schema=schema, columns=[column("y", "string"), *more])
        for more in ([], [column("x", "int", "/x/150")])
    )
    assert backward(base, candidate)["column.added"].outcome is Outcome.UNDETERMINED


def record_of(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "y", "type": "string"}, *fields]}


LONG = {"name": "x", "type": "long"}
STAMP = {"name": "x", "type": {"type": "long", "logicalType": "timestamp-millis"}}
MONEY = {"name": "x", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}}


@pytest.mark.parametrize(
    ("field", "kind", "breaks"),
    [
        (LONG, "long", False),
        (LONG, "double", False),
        (LONG, "int", True),
        ({"name": "x", "type": ["null", "int"]}, "int", False),
        ({"name": "x", "type": "double"}, "double", False),
        ({"name": "x", "type": "double"}, "json", True),
        ({"name": "x", "type": "string"}, "string", False),
        (MONEY, "decimal(6,2)", False),
        (MONEY, "decimal(5,2)", True),
        (STAMP, "timestamp", True),
    ],
)
def test_a_new_column_of_avro_holds_the_values_of_its_type_or_breaks(
    field: Any, kind: str, breaks: bool
) -> None:
    columns = [column("y", "string"), column("x", kind)]
    base, candidate = (
        contract_of(schema=record_of(field), kind="avro", columns=each) for each in (columns[:1], columns)
    )
    assert ("column.added" in backward(base, candidate)) == breaks


@pytest.mark.parametrize("default", [5, 2**40])
def test_a_column_of_a_field_that_avro_does_not_write_holds_its_default_or_breaks(default: int) -> None:
    columns = [column("y", "string"), column("x", "int")]
    base = contract_of(schema=record_of(), kind="avro", columns=columns[:1])
    candidate = contract_of(schema=record_of({**LONG, "default": default}), kind="avro", columns=columns)
    assert ("column.added" in backward(base, candidate)) == (default > 5)


def test_a_renamed_field_of_avro_keeps_its_values() -> None:
    renamed = {**STAMP, "name": "at", "aliases": ["x"]}
    base, candidate = (contract_of(schema=record_of(each), kind="avro") for each in (STAMP, renamed))
    assert backward(base, candidate) == {}


def test_a_mask_shows_the_columns_that_it_changes() -> None:
    schema = closed(x={"type": "number"})
    base, candidate = contract_of(schema=schema), contract_of(schema=schema, mask={"/x": "hash"})
    assert set(backward(base, candidate)) == {"column.type-changed"}


@pytest.mark.parametrize(("kind", "codes"), [("int", {"column.mask-changed"}), ("json", set())])
def test_a_column_that_loses_its_mask_holds_all_values_or_breaks(kind: str, codes: set[str]) -> None:
    shared: dict[str, Any] = {"schema": closed(x={"type": "number"}), "columns": [column("x", kind)]}
    base, candidate = contract_of(**shared, mask={"/x": "redact"}), contract_of(**shared)
    assert set(backward(base, candidate)) == codes
