from __future__ import annotations

import re
from functools import cmp_to_key

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.semver import next_minor, precedence

# The sequence of Semantic Versioning 2.0.0, clause 11, and what lies around it.
ASCENDING = [
    "0.0.0",
    "0.9.10",
    "0.10.0",
    "1.0.0-0",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-10.1",
    "1.0.0--",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-alpha-beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1-a",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
    "10.0.0",
    f"{10**40}.0.0",
]
PATTERN = str(DataContract.model_json_schema()["properties"]["version"]["pattern"])


def test_versions_ascend_as_the_specification_has_it() -> None:
    shuffled = ASCENDING[1::2] + ASCENDING[0::2]
    assert sorted(shuffled, key=precedence) == ASCENDING


@pytest.mark.parametrize("version", ASCENDING)
def test_the_table_holds_versions_that_a_contract_may_have(version: str) -> None:
    assert re.search(PATTERN, version)


def _compare(left: str, right: str) -> int:
    """Compare as the clause is written, one identifier after the other."""
    (left_core, _, left_pre), (right_core, _, right_pre) = left.partition("-"), right.partition("-")
    left_numbers = [int(part) for part in left_core.split(".")]
    right_numbers = [int(part) for part in right_core.split(".")]
    if left_numbers != right_numbers:
        return -1 if left_numbers < right_numbers else 1
    if bool(left_pre) != bool(right_pre):
        return -1 if left_pre else 1
    key = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in left_pre.split(".")]
    other = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in right_pre.split(".")]
    return (key > other) - (key < other)


NUMBER = st.integers(0, 120).map(str)
IDENTIFIER = st.one_of(NUMBER, st.from_regex(r"[0-9A-Za-z-]*[A-Za-z-][0-9A-Za-z-]*", fullmatch=True))
VERSION = st.builds(
    lambda core, pre: ".".join(core) + (f"-{'.'.join(pre)}" if pre else ""),
    st.lists(NUMBER, min_size=3, max_size=3),
    st.lists(IDENTIFIER, max_size=3),
)


@given(st.lists(VERSION, unique=True, max_size=8))
def test_bytes_order_versions_as_their_identifiers_do(versions: list[str]) -> None:
    assert sorted(versions, key=cmp_to_key(_compare)) == sorted(versions, key=precedence)


def test_the_next_minor_version_follows_every_version_of_this_one() -> None:
    assert [next_minor(version) for version in ("1.2.0", "0.9.13-rc.1")] == ["1.3.0", "0.10.0"]
