"""The reference shows contracts, rules and expectations that compile."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tidegate.contracts.document.load import LoadedContract, load_contract, parse_contract
from tidegate.contracts.document.model import DataContract, Expectation
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.contracts.judge.plan import compile_plan

REFERENCE = Path("docs/reference")
PAGE = (REFERENCE / "contract-fields.md").read_text("utf-8")
WHOLE, RULES, EXPECTATIONS = (
    re.findall(r"```yaml\n(.*?)```", (REFERENCE / name).read_text("utf-8"), flags=re.DOTALL)[0]
    for name in ("contract-fields.md", "rule-kinds.md", "expectations.md")
)


def _parse(text: str) -> LoadedContract:
    return parse_contract(text, name="contract.yaml", read_schema=None)


def test_the_whole_contract_compiles() -> None:
    assert compile_plan(_parse(WHOLE).contract).contract.id == "hospital.admissions"


@pytest.mark.parametrize("rule", read_yaml("rules", RULES).value, ids=lambda rule: rule["id"])
def test_each_rule_compiles(rule: dict[str, Any]) -> None:
    contract = _parse(WHOLE).contract
    document = contract.model_dump(mode="json", by_alias=True, exclude_defaults=True) | {"rules": [rule]}
    compile_plan(DataContract.model_validate(document))


def test_the_expectation_is_that_of_the_example() -> None:
    example = load_contract(Path("schemas/examples/admissions/contract.yaml")).contract
    (shown,) = read_yaml("expectations", EXPECTATIONS).value["expectations"]
    assert (Expectation.model_validate(shown),) == example.expectations


def test_every_rule_kind_is_shown() -> None:
    kinds = {part.model_fields["kind"].annotation.__args__[0] for part in Rule.__origin__.__args__}
    assert {rule["kind"] for rule in read_yaml("rules", RULES).value} == kinds


def test_every_field_is_explained() -> None:
    fields = [field.alias or name for name, field in DataContract.model_fields.items()]
    rows = re.findall(r"^\|(.*?)\|", PAGE, flags=re.MULTILINE)
    explained = [field for field, row in product(fields, rows) if f"`{field}`" in row]
    assert sorted(set(explained)) == sorted(fields)
