"""Suggestions in messages about unknown names: their budget for each document, and their form."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.contracts.compiled import check_compiles
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.errors import ContractError
from tidegate.contracts.lint.lint import check_spelling, lint
from tidegate.contracts.suggestions import (
    MAX_LENGTH,
    MAX_LISTED,
    closest,
    did_you_mean,
    similar,
    suggestion_budget,
)

COUNT = 400
DECLARED = [f"abcdefgh{index:05d}" for index in range(COUNT)]
UNKNOWN = [f"hgfedcba{index:05d}" for index in range(COUNT)]
"""Anagrams of the declared names: the most expensive comparisons."""
FIELDS = {"type": "object", "properties": {name: {"type": "integer"} for name in DECLARED}}
COLUMNS = [{"name": name, "from": f"/{name}", "type": "long"} for name in DECLARED]
AVRO = [{"name": name, "type": {"type": "fixed", "name": name, "size": 1}} for name in DECLARED]


def document(**parts: Any) -> bytes:
    contract = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "shop.orders",
        "version": "1.0.0",
        "topic": "shop.orders",
        "schema": {"type": "json-schema", "definition": FIELDS},
        **parts,
    }
    return json.dumps(contract).encode()


def rules(**parts: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": name,
            **{key: value.format(name) if isinstance(value, str) else value for key, value in parts.items()},
        }
        for name in UNKNOWN
    ]


MISTAKES = {
    "fields of rules": document(rules=rules(kind="forbidden", field="/{}", values=[1])),
    "fields of columns": document(
        columns=[{"name": name, "from": f"/{name}", "type": "long"} for name in UNKNOWN]
    ),
    "columns of the key": document(columns=COLUMNS, primary_key=UNKNOWN),
    "columns of expectations": document(
        columns=COLUMNS,
        expectations=[
            {"id": name, "type": "expect_column_values_to_not_be_null", "kwargs": {"column": name}}
            for name in UNKNOWN
        ],
    ),
    "classified fields": document(classification={f"/{name}": "pii" for name in UNKNOWN}),
    "reference sets": document(
        reference_sets={name: {"values": [1]} for name in DECLARED},
        rules=rules(kind="one_of", field="/" + DECLARED[0], set="{}"),
    ),
    "types of Avro": document(
        schema={
            "type": "avro",
            "definition": {
                "type": "record",
                "name": "orders",
                "fields": [*AVRO, *({"name": name, "type": name} for name in UNKNOWN)],
            },
        }
    ),
}


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The second names of all comparisons."""
    compared: list[str] = []
    compare: Callable[[Any], float] = difflib.SequenceMatcher.real_quick_ratio

    def counted(matcher: Any) -> float:
        compared.append(matcher.b)
        return compare(matcher)

    monkeypatch.setattr(difflib.SequenceMatcher, "real_quick_ratio", counted)
    return compared


def problems_of(text: bytes) -> ContractError:
    with pytest.raises(ContractError) as raised:
        check_compiles(parse_contract(text, name="c.json", read_schema=None).contract)
    return raised.value


@pytest.mark.parametrize("kind", MISTAKES)
def test_all_suggestions_for_a_document_share_a_budget(kind: str, comparisons: list[str]) -> None:
    error = problems_of(MISTAKES[kind])
    assert len(error.problems) >= COUNT
    assert 0 < len(comparisons) < COUNT * COUNT / 4
    assert len(str(error)) < 10 * len(MISTAKES[kind])


@pytest.mark.parametrize("kind", MISTAKES)
def test_lint_has_the_budget_too(kind: str, comparisons: list[str], tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(MISTAKES[kind])
    with pytest.raises(ContractError) as raised:
        lint(path)
    assert len(raised.value.problems) >= COUNT
    assert 0 < len(comparisons) < COUNT * COUNT / 2


def test_spelling_has_the_budget_too(comparisons: list[str]) -> None:
    required = {**FIELDS, "required": UNKNOWN}
    conditions = [{"id": name, "kind": "cel", "expr": f"this.{name} == 1"} for name in UNKNOWN]
    text = document(schema={"type": "json-schema", "definition": required}, rules=conditions)
    spelling = check_spelling(parse_contract(text, name="c.json", read_schema=None).contract)
    assert len(spelling.warnings) > COUNT
    assert 0 < len(comparisons) < COUNT * COUNT / 2


def test_after_thousands_of_unknown_keys_no_more_suggestions_follow() -> None:
    error = problems_of(document(**{f"key{index}": 1 for index in range(4_000)}))
    assert "; use one of " in error.problems[0].message
    assert error.problems[-1].message == "unknown key `key3999`"


def test_known_names_are_not_iterated_when_the_budget_is_used_up() -> None:
    def names() -> Iterator[str]:
        raise AssertionError("iterated")
        yield ""

    with suggestion_budget():
        assert similar("x" * MAX_LENGTH, ["x" * MAX_LENGTH] * 1_000) == []
        assert similar("age", names()) == []


def test_each_document_has_its_own_budget() -> None:
    messages = [str(problems_of(MISTAKES["columns of the key"])) for _ in range(2)]
    assert messages[0] == messages[1]
    assert f"no column is named `{UNKNOWN[0]}`; use one of {DECLARED[0]}, {DECLARED[1]}, " in messages[0]
    assert messages[0].endswith(f"no column is named `{UNKNOWN[-1]}`")


def test_blocks_within_a_block_use_its_budget(comparisons: list[str]) -> None:
    with suggestion_budget():
        for _ in range(COUNT):
            with suggestion_budget():
                closest(UNKNOWN[0], DECLARED)
    assert 0 < len(comparisons) < COUNT * COUNT / 4
    assert closest("abcdefgh0001", DECLARED) is not None


def test_a_list_of_known_names_is_cut() -> None:
    known = [f"{index:04d}" for index in range(MAX_LISTED + 1_500)]
    assert did_you_mean("zzz", known) == f"; use one of {', '.join(known[:MAX_LISTED])} and 1,500 more"
    assert did_you_mean("zzz", known[:2]) == "; use one of 0000, 0001"
    assert did_you_mean("000", known[:1]) == "; did you mean `0000`?"
    assert did_you_mean("zzz", []) == ""


def test_long_names_are_not_compared(comparisons: list[str]) -> None:
    long = "x" * (MAX_LENGTH + 1)
    assert similar(long, [long, "x"]) == []
    assert closest("x" * MAX_LENGTH, [long, "x" * (MAX_LENGTH - 1)]) == "x" * (MAX_LENGTH - 1)
    assert did_you_mean(long, ["age"]) == "; use one of age"
    assert comparisons == ["x" * MAX_LENGTH]


def test_case_does_not_count() -> None:
    assert closest("ADMISSION_DATE", ["age", "Admission_Date"]) == "Admission_Date"
    assert similar("wardd", ["ward", "wards", "age"], most=2) == ["ward", "wards"]
