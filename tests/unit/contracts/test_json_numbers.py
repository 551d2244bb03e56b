"""Bounds and multiples of numbers that no double holds are exact."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import documents
from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.formats.json_numbers import holds_decimal, is_multiple, needs_exact_keywords
from tidegate.contracts.formats.reference import ReferenceValidator
from tidegate.contracts.verdict import Disposition

DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}


@pytest.mark.parametrize(
    ("schema", "text", "code"),
    [
        ({"multipleOf": 1}, "2.0000000000000000001", "multipleOf"),
        ({"multipleOf": 2}, "9007199254740993.5", "multipleOf"),
        ({"multipleOf": 2}, "9007199254740994.0", None),
        ({"multipleOf": 1e300}, "1e-400", "multipleOf"),
        ({"multipleOf": 0.01}, "0.0100000000000000000001", "multipleOf"),
        ({"multipleOf": 0.01}, "1e999999999999", None),
        ({"maximum": 10**20}, "100000000000000000000.5", "maximum"),
        ({"maximum": 1e20}, "100000000000000000000.5", "maximum"),
        ({"minimum": 2**53 + 1}, "9007199254740993.0", None),
        ({"minimum": 2**64}, "18446744073709551615.5", "minimum"),
        ({"exclusiveMaximum": 2**53 + 1}, "9007199254740993.0", "exclusiveMaximum"),
        ({"exclusiveMinimum": 10**20}, "100000000000000000000.5", None),
        ({**DRAFT_4, "maximum": 2**53 + 1, "exclusiveMaximum": True}, "9007199254740993.0", "exclusiveMaximum"),
        ({**DRAFT_4, "maximum": 2**53 + 1, "exclusiveMaximum": False}, "9007199254740993.0", None),
        ({**DRAFT_4, "minimum": 2**53 + 1, "exclusiveMinimum": True}, "9007199254740993.5", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_member", [False, True])
def test_numbers_beyond_a_double_are_judged_exactly(
    schema: dict[str, Any], text: str, code: str | None, *, is_member: bool
) -> None:
    value = text.encode()
    if is_member:
        dialect = {key: each for key, each in schema.items() if key == "$schema"}
        schema = {**dialect, "properties": {"n": {k: v for k, v in schema.items() if k not in dialect}}}
        value = b'{"n":%s,"s":"x"}' % value
    plan = documents.plan_with(schema)
    for each in (plan, documents.strict(plan)):
        verdict = each.explain(value)
        assert (verdict.disposition is Disposition.ACCEPTED) == (code is None)
        assert [violation.code for violation in verdict.violations] == ([] if code is None else [code])
    if abs(Decimal(text).adjusted()) < 1_000:  # the reference writes numbers out
        reference = ReferenceValidator(JsonSchema(type="json-schema", definition=schema))
        assert reference.accepts(value) == (code is None)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"multipleOf": 2}, "2.5"),
        ({"maximum": 2**60}, "1152921504606846977"),
        ({**DRAFT_4, "minimum": 2**60, "exclusiveMinimum": True}, "1"),
    ],
)
def test_a_violation_beside_such_a_number_is_the_same_without_it(schema: dict[str, Any], text: str) -> None:
    dialect = {key: each for key, each in schema.items() if key == "$schema"}
    of_n = {key: each for key, each in schema.items() if key not in dialect}
    plan = documents.plan_with({**dialect, "properties": {"n": of_n, "m": {}}})
    plain, beside = (
        plan.explain(b'{"n":%s,"m":%s}' % (text.encode(), m)).violations for m in (b"1", b"1e400")
    )
    assert plain == beside != ()


@given(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=Decimal("1e-9"), max_value=10**25),
    st.integers(-9, 9),
)
def test_a_multiple_is_what_fractions_say(number: Decimal, step: Decimal, times: int) -> None:
    assert is_multiple(number, step) == ((Fraction(number) / Fraction(step)).denominator == 1)
    exact = Fraction(step) * times
    shown = Decimal(exact.numerator) / Decimal(exact.denominator)
    if Fraction(shown) == exact:
        assert is_multiple(shown, step)


def test_no_power_of_ten_is_written_out() -> None:
    assert is_multiple(Decimal("1e999999999999999"), Decimal("1e-300"))
    assert not is_multiple(Decimal("1e-999999999999999"), Decimal("1e300"))
    assert not is_multiple(Decimal("1e999999999999999"), Decimal(3))


def test_only_schemas_and_records_that_need_it_are_judged_by_exact_keywords() -> None:
    assert not needs_exact_keywords({"properties": {"n": {"maximum": 100, "minimum": 0.5}}})
    assert needs_exact_keywords({"properties": {"n": {"multipleOf": 0.01}}})
    assert needs_exact_keywords({"items": [{"minimum": -(2**53)}]})
    assert not holds_decimal({"a": [1, 0.5, "x", None, {"b": True}]})
    assert holds_decimal({"a": [1, {"b": Decimal(1)}]})
    assert holds_decimal(Decimal(1))
