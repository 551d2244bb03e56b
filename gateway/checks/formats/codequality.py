"""The report as a Code Quality report of GitLab, which merge requests show; one entry for each finding.

Source: GitLab, `app/validators/json_schemas/codeclimate.json` and "Code Quality report format". Severities are its own.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tidegate.contracts.compatibility.finding import FindingSeverity
from tidegate.gateway.checks.formats.json_report import json_text
from tidegate.gateway.checks.formats.sarif import fingerprint_of
from tidegate.gateway.checks.places import from_root
from tidegate.gateway.checks.results import CheckReport, message

_SEVERITIES = {
    FindingSeverity.BREAKING: "blocker",
    FindingSeverity.WARNING: "minor",
    FindingSeverity.INFO: "info",
}


def check_codequality(report: CheckReport, root: Path | None) -> str:
    """Write a report as a Code Quality report; paths are relative to `root`, the repository's top folder."""
    seen: Counter[str] = Counter()
    entries: list[dict[str, Any]] = []
    for contract in report.contracts:
        for finding in contract.findings:
            fingerprint = fingerprint_of(contract, finding)
            # GitLab shows only one of several entries with the same fingerprint.
            number = seen[fingerprint]
            seen[fingerprint] += 1
            entries.append(
                {
                    "description": message(finding),
                    "check_name": finding.code,
                    "fingerprint": f"{fingerprint}-{number}" if number else fingerprint,
                    "severity": _SEVERITIES[finding.severity],
                    "location": {
                        "path": from_root(finding.spot.file, root),
                        "lines": {"begin": finding.spot.line},
                    },
                }
            )
    return json_text(entries)
