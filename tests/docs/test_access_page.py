"""The page about roles: its matrix is the one that is enforced."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.gateway.access.principal import Role
from tidegate.gateway.access.rules import NATIVE, RULES, Reach
from tidegate.gateway.http.confluent.operations import OPERATIONS

PAGE = Path("docs/reference/access.md").read_text("utf-8")
MATRIX = re.findall(
    r"^\| `([a-z]+)`( of everything)? \| [^|]+ \| ([^|]+) \|$",
    PAGE[PAGE.index("| `viewer` |") :].partition("\n\n")[0],
    flags=re.MULTILINE,
)
ALL_RULES = {**RULES, **{(one.method, one.path): one.rule for one in OPERATIONS}}


def test_the_matrix_is_the_one_that_is_enforced() -> None:
    checked = 0
    for word, everything, operations in MATRIX:
        for method, path in re.findall(r"`([A-Z]+) ([^`]+)`", operations):
            rule = ALL_RULES[method, path]
            assert rule.role is Role[word.upper()], (method, path)
            assert (rule.reach is Reach.EVERYWHERE) == bool(everything), (method, path)
            checked += 1
    assert checked > 20
    assert {word for word, _, _ in MATRIX} == {role.word for role in Role}


def test_every_operation_that_changes_something_stands_in_the_matrix() -> None:
    named = {
        (method, path)
        for _, _, operations in MATRIX
        for method, path in re.findall(r"`([A-Z]+) ([^`]+)`", operations)
    }
    changing = {key for key, rule in NATIVE.items() if rule.role > Role.VIEWER}
    assert changing - named == set()
