"""The report as JSON. New releases only add fields; docs/reference/check-reports.md describes them."""

from __future__ import annotations

import base64
import json
from typing import Any

from tidegate.contracts.compatibility.finding import FindingSeverity
from tidegate.contracts.inclusion.answer import Counterexample
from tidegate.gateway.checks.results import CheckFinding, CheckReport, ContractCheck

CHECK_FORMAT = "tidegate/check/v1"
DIFF_FORMAT = "tidegate/diff/v1"


def json_text(document: dict[str, Any] | list[Any]) -> str:
    """Write JSON that is valid UTF-8: a lone surrogate of a counterexample stays an escape."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    return text.encode(errors="backslashreplace").decode() + "\n"


def check_json(report: CheckReport) -> str:
    """Write a report as one JSON object."""
    counts = report.counts
    return json_text(
        {
            "format": CHECK_FORMAT,
            "against": report.against,
            "fail_on": report.fail_on,
            "failed": report.failed,
            "summary": {
                "contracts": len(report.contracts),
                **{severity.value: counts[severity] for severity in FindingSeverity},
            },
            "contracts": [_contract(contract) for contract in report.contracts],
        }
    )


def diff_json(contract: ContractCheck) -> str:
    """Write one comparison as one JSON object."""
    return json_text({"format": DIFF_FORMAT, **_contract(contract)})


def _contract(contract: ContractCheck) -> dict[str, Any]:
    base = contract.base
    return {
        "file": contract.file,
        "id": contract.contract_id,
        "version": contract.version,
        "base": None if base is None else {"version": base.version, "origin": base.origin},
        "suggested_version": contract.suggested_version,
        "affected": contract.affected,
        "unaffected": contract.unaffected,
        "findings": [_finding(finding) for finding in contract.findings],
    }


def _finding(finding: CheckFinding) -> dict[str, Any]:
    return {
        "severity": finding.severity,
        "code": finding.code,
        "sentence": finding.sentence,
        "file": finding.spot.file,
        "line": finding.spot.line,
        "column": finding.spot.column,
        "pointer": finding.pointer,
        "base_pointer": finding.base_pointer,
        "field": finding.field,
        "outcome": finding.outcome,
        "direction": finding.direction,
        "counterexample": _counterexample(finding.counterexample),
        "consumers": finding.consumers,
    }


def _counterexample(example: Counterexample | None) -> dict[str, str | None] | None:
    if example is None:
        return None
    encoded = None if example.encoded is None else base64.b64encode(example.encoded).decode()
    return {"text": example.text, "avro_base64": encoded}
