"""Docstrings of properties begin with a verb, as those of functions do; Ruff's rule D401 leaves properties out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

VERBS = {"Return", "Return,", "Read"}
PACKAGES = ("tidegate/*.py", "contracts/**/*.py", "gateway/**/*.py", "spark_jobs/**/*.py")


def properties(module: ast.Module) -> Iterator[tuple[ast.FunctionDef, str]]:
    """Yield each property of a module with its docstring."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(each, ast.Name) and each.id in {"property", "cached_property"}
            for each in node.decorator_list
        ):
            text = ast.get_docstring(node)
            if text is not None:
                yield node, text


def test_docstrings_of_properties_begin_with_a_verb() -> None:
    paths = [path for pattern in PACKAGES for path in sorted(Path().glob(pattern))]
    found = [(path, *each) for path in paths for each in properties(ast.parse(path.read_text("utf-8")))]
    assert len(found) > 100
    assert [f"{path}:{node.lineno}" for path, node, text in found if text.split()[0] not in VERBS] == []
