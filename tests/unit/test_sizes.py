"""Modules and functions of the product have a limited length, so that a reader sees each function as a whole."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("contracts", "gateway", "spark_jobs", "tidegate")
MOST_LINES_OF_A_MODULE = 500
MOST_LINES_OF_A_FUNCTION = 60
# Resolved, because the links of the package `tidegate` lead to the other packages.
MODULES = sorted({path.resolve() for package in PRODUCT for path in (ROOT / package).rglob("*.py")})


def functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield the name of each function, and its lines from `def` to the last, with signature and docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def test_every_package_of_the_product_is_read() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(PRODUCT)


def test_modules_have_at_most_500_lines() -> None:
    lines = [(str(path.relative_to(ROOT)), len(path.read_text("utf-8").splitlines())) for path in MODULES]
    assert [each for each in lines if each[1] > MOST_LINES_OF_A_MODULE] == []


def test_functions_have_at_most_60_lines() -> None:
    lines = [
        (f"{path.relative_to(ROOT)}: {name}", count)
        for path in MODULES
        for name, count in functions(path.read_text("utf-8"))
    ]
    assert [each for each in lines if each[1] > MOST_LINES_OF_A_FUNCTION] == []


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_signature_docstring_and_inner_functions_count(keyword: str) -> None:
    text = f'@decorated\n{keyword} outer(\n    a: int,\n) -> None:\n    """Do."""\n    def inner() -> None:\n        pass\n\n\n'
    assert list(functions(text)) == [("outer", 6), ("inner", 2)]
