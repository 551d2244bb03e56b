"""Shapes of values, keys of problems, and which sentences about unreadable bytes say the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from itertools import combinations
from statistics import harmonic_mean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.verdict import Severity, Stage, Violation
from tidegate.gateway.streams.quarantine_index import similarity
from tidegate.gateway.streams.quarantine_index.facets import ProblemKey, offences_of
from tidegate.gateway.streams.quarantine_index.shapes import shape_of
from tidegate.gateway.streams.quarantine_index.similarity import (
    ALIKE,
    LabelledSentence,
    groups_of,
    joined_problems,
    labelled_sentences,
)


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (None, "null"),
        (True, "boolean"),
        ({}, "empty object"),
        ([1], "array"),
        ("", "empty text"),
        (" \t", "blank text"),
        ("0042", "digits in a text"),
        ("-4.5e3", "number in a text"),
        ("2026-07-01", "date, year-month-day"),
        ("2026-07-01T12:00:00Z", "date and time"),
        ("31/12/2026", "date-like text, day first"),
        ("12/31/2026", "date-like text, month first"),
        ("01.02.2026", "date-like text, day or month first"),
        ("2026/7/1", "date-like text, year first"),
        ("5d1e9c0a-7b42-4c0e-9d3f-2f6f3c1d7a10", "UUID"),
        ("ann@example.org", "e-mail address"),
        ("x" * 1001, "text longer than 1,000 characters"),
        ("Ann", "text"),
        (0, "zero"),
        (-0.25, "negative fraction, below 1"),
        (999, "positive integer, below 1,000"),
        (10**400, "positive integer, a billion or more"),
        (b"", "empty bytes"),
        (b"\x00Ann", "bytes"),
        (float("nan"), "not a finite number"),
        (Decimal("12.00"), "positive integer, below 1,000"),
        (Decimal("-0.1"), "negative fraction, below 1"),
        (Decimal("1e999999"), "positive integer, a billion or more"),
    ],
)
def test_shapes(value: Any, shape: str) -> None:
    assert shape_of(value) == shape


def test_only_a_value_that_the_rule_names_is_its_own_shape() -> None:
    sentinels = frozenset({"999", '"1900-01-01"'})
    given = (999, 999.0, Decimal("999.00"), 998, "1900-01-01", "999", True, b"999")
    assert [shape_of(each, sentinels) for each in given] == [
        "999", "999", "999", "positive integer, below 1,000", '"1900-01-01"', "digits in a text", "boolean", "bytes",
    ]  # fmt: skip


@settings(max_examples=examples(50), deadline=None)
@given(
    st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(), st.lists)
)
def test_every_value_has_a_short_shape_without_its_text(value: Any) -> None:
    shape = shape_of(value)
    assert 0 < len(shape) < 50
    assert not isinstance(value, str) or len(value) < 9 or value not in shape


def test_fields_have_no_indices_and_missing_properties_their_names() -> None:
    violations = (
        Violation(Stage.SCHEMA, "type", "/lines/12/name", Severity.ERROR, "must be of type string"),
        Violation(
            Stage.SCHEMA, "required", "/lines/12", Severity.ERROR, "required property `a/b` is missing"
        ),
        Violation(Stage.RULE, "warned", "/x", Severity.WARNING, "is odd"),
        Violation(Stage.DECODE, "avro.invalid", "", Severity.ERROR, "holds an int of more than 32 bits"),
    )
    assert [(each.field, each.sentence) for each in offences_of(violations)] == [
        ("/lines/*/name", ""),
        ("/lines/*/a~1b", ""),
        ("", "holds an int of more than # bits"),
    ]


def precision_and_recall(examples: Sequence[LabelledSentence], alike: float = ALIKE) -> tuple[float, float]:
    """Return both for the pairs of sentences that are grouped together; pairs with one label should be."""
    groups = groups_of([("decode", each.sentence) for each in examples], alike)
    group_of = {index: number for number, group in enumerate(groups) for index in group}
    counts = Counter(
        (group_of[one] == group_of[other], examples[one].label == examples[other].label)
        for one, other in combinations(range(len(examples)), 2)
    )
    both = counts[True, True]
    return both / max(1, both + counts[True, False]), both / (both + counts[False, True])


def test_sentences_are_grouped_as_people_labelled_them() -> None:
    labelled = labelled_sentences()
    precision, recall = precision_and_recall(labelled)
    print(f"precision {precision:.3f}, recall {recall:.3f} of {len(labelled)} sentences")  # noqa: T201 - the report
    assert precision >= 0.94
    assert recall >= 0.77
    others = (harmonic_mean(precision_and_recall(labelled, each / 20)) for each in range(4, 16))
    assert harmonic_mean((precision, recall)) >= max(others)


def test_the_same_problems_are_grouped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page asks several times, and a change of a state asks while it holds the write lock."""
    facets = [
        ProblemKey("decode", "c", "", "", f"{each.sentence} again").facet("adm", "m")
        for each in labelled_sentences()
    ]
    found = joined_problems(facets)
    monkeypatch.setattr(similarity, "groups_of", lambda _: pytest.fail("they are grouped again"))
    assert joined_problems(facets) == found


@pytest.mark.parametrize("seed", range(5))
def test_groups_do_not_depend_on_the_order_of_problems(seed: int) -> None:
    keys = [ProblemKey("decode", "c", "", "", each.sentence) for each in labelled_sentences()]
    keys += [ProblemKey("frame", "c", "", "", "is not JSON"), ProblemKey("rule", "r", "/a", "text")]
    facets = [key.facet("adm", "m") for key in keys]
    expected = joined_problems(facets)
    random.Random(seed).shuffle(facets)  # noqa: S311 - test data
    assert joined_problems(facets) == expected
    heads = {facet.facet: expected[facet.facet] for facet in facets}
    assert all(expected[head] == head for head in heads.values())
    of_stage = {
        ProblemKey.read(facet).stage
        for facet in facets
        if expected[facet.facet] == expected[keys[0].facet("adm", "m").facet]
    }
    assert of_stage == {"decode"}
