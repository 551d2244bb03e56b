"""Every example contract lints clean, and every example record beside it gets the verdict that its name says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.verdict import Disposition
from tidegate.gateway.embedded.demo.stream import EXAMPLES

CONTRACTS = sorted(EXAMPLES.glob("*/contract.yaml"))
RECORDS = sorted(file for kind in ("pass", "warn", "fail") for file in EXAMPLES.glob(f"*/*.{kind}.json"))


def _plan(contract_file: Path) -> EnforcementPlan:
    return compile_plan(lint(contract_file).contract)


def test_both_streams_of_the_demo_have_a_contract() -> None:
    assert [file.parent.name for file in CONTRACTS] == ["admissions", "flights"]


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_an_example_record_gets_the_verdict_that_its_name_says(file: Path) -> None:
    code, kind, _ = file.name.rsplit(".", 2)
    verdict = _plan(file.parent / "contract.yaml").explain(file.read_bytes())
    codes = {violation.code for violation in verdict.violations}
    match kind:
        case "pass":
            assert (verdict.disposition, codes) == (Disposition.ACCEPTED, set())
        case "warn":
            assert (verdict.disposition, codes) == (Disposition.WARNED, {code})
        case "fail":
            assert verdict.disposition is Disposition.QUARANTINED
            assert code in codes


@pytest.mark.parametrize("contract_file", CONTRACTS, ids=lambda file: file.parent.name)
def test_every_rule_has_an_example_that_breaks_it(contract_file: Path) -> None:
    rules = {rule.id for rule in lint(contract_file).contract.rules}
    broken = {file.name.rsplit(".", 2)[0] for file in RECORDS if file.parent == contract_file.parent}
    assert rules - broken == set()
