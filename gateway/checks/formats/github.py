"""The report for GitHub Actions: annotations at the changed lines, and a summary with the consumers to ask.

Source: GitHub Docs, "Workflow commands for GitHub Actions"; the escapes are those of its own toolkit.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

from tidegate.contracts.compatibility.finding import FindingSeverity
from tidegate.contracts.words import counted, seen
from tidegate.gateway.checks.places import from_root
from tidegate.gateway.checks.results import CheckFinding, CheckReport, ContractCheck, message

_COMMANDS = {
    FindingSeverity.BREAKING: "error",
    FindingSeverity.WARNING: "warning",
    FindingSeverity.INFO: "notice",
}
_MARKS = {
    FindingSeverity.BREAKING: "🔴 breaking",
    FindingSeverity.WARNING: "🟡 warning",
    FindingSeverity.INFO: "info",
}
_MAX_SUMMARY_BYTES = 900_000  # GitHub drops a summary above 1 MiB


def check_annotations(report: CheckReport, root: Path | None) -> str:
    """Write one workflow command for each finding; paths are relative to `root`, the repository's top folder.

    GitHub shows ten of each severity for a step, so breaking ones come first.
    """
    order = list(FindingSeverity)
    findings = [finding for contract in report.contracts for finding in contract.findings]
    findings.sort(key=lambda finding: order.index(finding.severity))
    return "".join(f"{_annotation(finding, root)}\n" for finding in findings)


def step_summary(report: CheckReport) -> str:
    """Write the summary of the run in GitHub's Markdown, within its size limit."""
    counts = report.counts
    head = (
        f"### Contracts: {counts[FindingSeverity.BREAKING]} breaking, "
        f"{counted(counts[FindingSeverity.WARNING], 'warning')}\n\n"
        f"{counted(len(report.contracts), 'contract')} compared with {cell(report.against)}.\n"
    )
    written, size = [head], len(head.encode())
    for contract in report.contracts:
        part = "".join(_section(contract))
        size += len(part.encode())
        if size > _MAX_SUMMARY_BYTES:
            written.append("\nThere is more; `--format json` has all of it.\n")
            break
        written.append(part)
    return "".join(written)


def _annotation(finding: CheckFinding, root: Path | None) -> str:
    place = {
        "file": from_root(finding.spot.file, root),
        "line": str(finding.spot.line),
        "col": str(finding.spot.column),
        "title": f"{finding.code} ({finding.severity})",
    }
    properties = ",".join(f"{name}={_property(value)}" for name, value in place.items())
    return f"::{_COMMANDS[finding.severity]} {properties}::{_data(message(finding))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _section(contract: ContractCheck) -> Iterator[str]:
    if not contract.findings:
        return
    name = contract.contract_id or contract.file
    change = (
        f" {contract.base.version} → {contract.version or 'deleted'}" if contract.base is not None else ""
    )
    yield f"\n#### {cell(name)}{change}\n\n"
    if contract.suggested_version is not None:
        yield f"Suggested version: **{contract.suggested_version}**\n\n"
    if contract.affected:
        yield f"Ask before merging: **{cell(', '.join(contract.affected))}**"
        yield (
            f" · not affected: {cell(', '.join(contract.unaffected))}\n\n" if contract.unaffected else "\n\n"
        )
    yield "| | what | where | example | consumers |\n|---|---|---|---|---|\n"
    for finding in contract.findings:
        example = finding.counterexample.text if finding.counterexample is not None else ""
        yield (
            f"| {_MARKS[finding.severity]} | {cell(finding.sentence)} `{finding.code}` | {cell(str(finding.spot))} "
            f"| {_code(example)} | {cell(', '.join(finding.consumers))} |\n"
        )


def cell(text: str) -> str:
    """Escape text for a table cell in Markdown."""
    escaped = html.escape(seen(text), quote=False)
    return "".join(f"&#{ord(char)};" if char in "|*_`[]\\~#!@" else char for char in escaped)


def _code(text: str) -> str:
    return f"<code>{cell(text)}</code>" if text else ""
