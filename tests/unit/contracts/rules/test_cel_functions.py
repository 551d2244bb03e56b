"""Functions on text: their results at the edges, and the budget that they share with macros."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tidegate.contracts.rules.cel import MAX_ITERATIONS, ExpressionResult, outcome_of


def outcome(expression: str, this: Any = None) -> ExpressionResult | None:
    return outcome_of(expression, {"this": {} if this is None else this})


@pytest.mark.parametrize(
    "expression",
    [
        "'ÄbC'.lowerAscii() == 'Äbc'",
        "'äbC'.upperAscii() == 'äBC'",
        "' \\u2003x\\u00a0'.trim() == 'x'",
        "'\\u001fx'.trim() == '\\u001fx'",
        "'a😀b'.substring(1, 2) == '😀'",
        "'abc'.substring(3) == ''",
        "'a😀b'.indexOf('b') == 2",
        "''.indexOf('') == 0",
        "'aXbX'.replace('X', '') == 'ab'",
        "'ab'.replace('', '-') == '-a-b-'",
        "''.split(',') == ['']",
        "'a😀'.split('') == ['a', '😀']",
        "[].join(',') == ''",
        "'a b'.split(' ').join('').upperAscii() == 'AB'",
        "isUuid('urn:uuid:8c5f5b1e-3b5a-4d0e-9f5c-2f1a9f6f0a11')",
        "!'example.com-'.isHostname() && 'example.com.'.isHostname() && !'1.2'.isHostname() && !'.'.isHostname()",
        "!'a@b@c.de'.isEmail() && !'Ada <ada@example.com>'.isEmail()",
    ],
)
def test_results_at_the_edges(expression: str) -> None:
    assert outcome(expression) is ExpressionResult.HOLDS


@pytest.mark.parametrize(
    "expression",
    [
        "'abc'.substring(4) == ''",
        "'abc'.substring(2, 1) == ''",
        "'abc'.substring(-1) == ''",
        "this.list.join() == ''",
        "'http://[broken'.isUri()",
        "this.number.trim() == ''",
    ],
)
def test_errors(expression: str) -> None:
    assert outcome(expression, {"list": ["a", 1], "number": 1}) is ExpressionResult.ERROR


@pytest.mark.parametrize(
    "expression",
    ["1.trim() == ''", "b'1234'.isIpv4()", "'a'.indexOf('a', 0) == 0", "'a'.split('a', 1) == []"],
)
def test_what_is_no_expression(expression: str) -> None:
    assert outcome(expression) is None


def test_a_text_with_a_null_character_is_read_and_written_completely() -> None:
    assert outcome("this.t.lowerAscii() == 'a\\u0000b'", {"t": "A\0B"}) is ExpressionResult.HOLDS
    assert outcome("this.t.split(' ').join('') == 'A\\u0000B'", {"t": "A \0B"}) is ExpressionResult.HOLDS


@pytest.mark.parametrize(
    "expression",
    [
        f"[{', '.join(['0'] * 120)}].all(x, [{', '.join(['0'] * 100)}].all(y, this.a.trim() == 'a'))",
        "this.big.replace('a', this.big) != ''",
        "this.a" + ".replace('', 'ab')" * 20 + " != ''",
        "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(x, this.big.lowerAscii() == this.big)",
        "[this.big, this.big, this.big, this.big, this.big].join(this.big) != ''",
    ],
)
def test_work_is_bounded(expression: str) -> None:
    assert outcome(expression, {"a": "a", "big": "a" * 1_000_000}) is ExpressionResult.EXHAUSTED


def test_each_evaluation_has_a_whole_budget() -> None:
    for _ in range(20):
        assert (
            outcome("this.big.lowerAscii() == this.big", {"big": "a" * 1_000_000}) is ExpressionResult.HOLDS
        )
    assert MAX_ITERATIONS == 10_000


@pytest.mark.parametrize(
    "expr",
    ["this.l.all(x, x.n > 0 && x.n < 5)", "this.l.all(x, x.s.trim() == 'a')", "this.l.exists(x, x.n > 5) == false"],
)  # fmt: skip
def test_a_macro_over_a_list_takes_time_in_proportion_to_it(expr: str) -> None:
    def seconds(count: int) -> float:
        """Return the least processor time of several evaluations: a busy machine only adds to it."""
        record = {"l": [{"n": 1, "s": "a"}] * count}
        assert outcome(expr, record) is ExpressionResult.HOLDS
        taken = []
        for _ in range(7):
            start = time.process_time()
            outcome(expr, record)
            taken.append(time.process_time() - start)
        return min(taken)

    # Quadratic work takes 16 times as long for four times the elements.
    assert seconds(4 * 400) < 9 * seconds(400)
