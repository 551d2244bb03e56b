"""The report as SARIF, which code hosts and editors show beside the lines.

Source: Static Analysis Results Interchange Format 2.1.0 (OASIS), sections 3.14 (run), 3.27 (result), 3.49 (rule).
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tidegate.contracts.compatibility.finding import Direction, FindingSeverity
from tidegate.gateway.checks.codes import MEANINGS
from tidegate.gateway.checks.formats.json_report import json_text
from tidegate.gateway.checks.places import from_root
from tidegate.gateway.checks.results import CheckFinding, CheckReport, ContractCheck, message

_OF_READERS = ("schema.", "avro.")
_FORWARD = "/forward"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {
    FindingSeverity.BREAKING: "error",
    FindingSeverity.WARNING: "warning",
    FindingSeverity.INFO: "note",
}


def check_sarif(report: CheckReport, root: Path | None) -> str:
    """Write a report as a SARIF log of one run; paths are relative to `root`, the repository's top folder."""
    found = [(contract, finding) for contract in report.contracts for finding in contract.findings]
    rules = sorted({_rule(finding) for _, finding in found})
    run = {
        "tool": {
            "driver": {
                "name": "Tidegate",
                "version": version("tidegate"),
                "rules": [{"id": rule, "shortDescription": {"text": _description(rule)}} for rule in rules],
            }
        },
        # Columns count characters; SARIF's default is UTF-16 code units.
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "exitCode": int(report.failed)}],
        "results": [
            _result(contract, finding, rules.index(_rule(finding)), root) for contract, finding in found
        ],
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json_text(log)


def _result(contract: ContractCheck, finding: CheckFinding, rule: int, root: Path | None) -> dict[str, Any]:
    file = from_root(finding.spot.file, root)
    return {
        "ruleId": _rule(finding),
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": message(finding)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(file), "uriBaseId": "%SRCROOT%"}
                    if not Path(file).is_absolute()
                    else {"uri": Path(file).as_uri()},
                    "region": {"startLine": finding.spot.line, "startColumn": finding.spot.column},
                }
            }
        ],
        "partialFingerprints": {"tidegate/v1": fingerprint_of(contract, finding)},
        "properties": _properties(contract, finding),
    }


def _properties(contract: ContractCheck, finding: CheckFinding) -> dict[str, Any]:
    properties = {
        "contract": contract.contract_id,
        "pointer": finding.pointer,
        "field": finding.field,
        "outcome": finding.outcome,
        "direction": finding.direction,
        "counterexample": finding.counterexample and finding.counterexample.text,
        "consumers": finding.consumers,
        "suggestedVersion": contract.suggested_version,
    }
    return {name: value for name, value in properties.items() if value}


def fingerprint_of(contract: ContractCheck, finding: CheckFinding) -> str:
    """Return a hash of a finding's subject, without its line, so that it stays the same when lines move."""
    about = (contract.contract_id or contract.file, finding.code, finding.pointer, finding.field)
    return hashlib.sha256("\n".join(about).encode(errors="backslashreplace")).hexdigest()


def _rule(finding: CheckFinding) -> str:
    """Return the rule of a finding: its code, with the suffix `/forward` for readers with the earlier version.

    The code of a schema's change describes the reading schema compared with the writing one. So for readers with the
    earlier version, a raised maximum has the code of a lowered one. Source: SARIF 2.1.0, section 3.27.5 (hierarchical
    names).
    """
    is_of_readers = finding.direction is Direction.FORWARD and finding.code.startswith(_OF_READERS)
    return f"{finding.code}{_FORWARD}" if is_of_readers else finding.code


def _description(rule: str) -> str:
    code = rule.removesuffix(_FORWARD)
    meaning = MEANINGS.get(code, code)
    if code != rule:
        return f"Read with the earlier version: {meaning}."
    return f"{meaning[:1].upper()}{meaning[1:]}."
