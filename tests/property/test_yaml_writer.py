"""What the YAML writer writes, the YAML reader reads back."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.contracts.document.yaml_writer import write_yaml

TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "",
            "~",
            "null",
            "True",
            "no",
            "1",
            "0x1F",
            "0o17",
            "1e3",
            ".inf",
            "-",
            "- a",
            "a: b",
            "a #b",
            "/a/*/b~1c",
            "1900-01-01",
            "12:30",
            "a ",
            " a",
            "&a",
            "*a",
            "!a",
            "%a",
            "@a",
            "`a",
            "'a'",
            '"a"',
            "a\nb",
            "\ufeff",
            "\x85",
        ]
    ),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False, allow_infinity=False), TEXTS
)  # fmt: skip
DATA = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)


@settings(max_examples=examples(300), deadline=None)
@given(document=st.dictionaries(TEXTS, DATA, max_size=5))
def test_what_is_written_is_read_back(document: dict[str, Any]) -> None:
    assert read_yaml("x.yaml", write_yaml(document)).value == document
