"""Patterns from texts."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from tidegate.contracts.infer.shapes import Shapes, pattern_of


@pytest.mark.parametrize(
    ("texts", "pattern"),
    [
        (["A000000001", "A000000002"], "^A[0-9]{9}$"),
        (["CB12 4QA", "E1 0DA", "SW1 9HA"], "^[A-Z]{1,2}[0-9]{1,2} [0-9][A-Z]{2}$"),
        (["I21.4", "K35.8"], r"^[A-Z][0-9]{2}\.[0-9]$"),
        (["N12345", "N1AB", "N123CD"], "^N[0-9A-Z]{3,5}$"),
        (["a-1", "b-2"], "^[a-z]-[0-9]$"),
    ],
)
def test_texts_that_are_written_alike_have_a_pattern(texts: list[str], pattern: str) -> None:
    shapes = Shapes()
    shapes.add(pa.array(texts), np.ones(len(texts), np.int64))
    assert pattern_of(shapes.found) == pattern
    assert all(re.search(pattern, text) for text in texts)


@pytest.mark.parametrize("text", ["x" * 41, "Zürich"])
def test_long_texts_and_other_scripts_have_none(text: str) -> None:
    shapes = Shapes()
    shapes.add(pa.array([text, "a"]), np.ones(2, np.int64))
    assert shapes.is_free
