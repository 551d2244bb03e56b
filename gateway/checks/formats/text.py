"""The report as text: one line per finding with its evidence below, and a summary line at the end."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from tidegate.contracts.compatibility.finding import FindingSeverity
from tidegate.contracts.words import counted, seen
from tidegate.gateway.checks.results import CheckFinding, CheckReport, ContractCheck, shown_example

_STYLES = {
    FindingSeverity.BREAKING: "bold red",
    FindingSeverity.WARNING: "yellow",
    FindingSeverity.INFO: "cyan",
}


def check_text(report: CheckReport) -> str:
    """Write a report as plain text, without colours."""
    return "".join(f"{line.plain}\n" for line in report_lines(report))


def report_lines(report: CheckReport) -> Iterator[Text]:
    """Yield the lines of a report."""
    for contract in report.contracts:
        yield from contract_lines(contract, several=len(report.contracts) > 1)
    yield _sum(report)


def contract_lines(contract: ContractCheck, *, several: bool) -> Iterator[Text]:
    """Yield the lines of one contract's findings; with `several`, also a line with the suggested version."""
    for finding in contract.findings:
        yield from _finding_lines(finding)
    if contract.unaffected and contract.affected:
        yield _detail("not affected", ", ".join(contract.unaffected))
    if several and contract.findings and contract.suggested_version is not None and contract.base is not None:
        yield Text.assemble(
            "  ",
            (contract.contract_id or contract.file, "bold"),
            f" {contract.base.version} -> {contract.version} · suggested version ",
            (contract.suggested_version, "bold"),
        )


def _finding_lines(finding: CheckFinding) -> Iterator[Text]:
    sentence = Text(seen(finding.sentence))
    sentence.highlight_regex(r"`[^`]*`", "cyan")
    severity = (finding.severity.upper(), _STYLES[finding.severity])
    yield Text.assemble(
        (str(finding.spot), "bold"), "  ", severity, "  ", sentence, (f"  [{finding.code}]", "dim")
    )
    if (example := shown_example(finding)) is not None:
        introduction, text = example
        yield _detail(introduction, seen(text))
    if finding.consumers:
        reading = f"consumers reading {seen(finding.field)}" if finding.field else "consumers"
        yield _detail(reading, ", ".join(finding.consumers))


def _detail(name: str, value: str) -> Text:
    return Text.assemble("    ", (f"{name}:  ", "dim"), value)


def _sum(report: CheckReport) -> Text:
    counts = report.counts
    breaking = counts[FindingSeverity.BREAKING]
    parts = [
        Text(f"{breaking} breaking", "bold red" if breaking else ""),
        Text(counted(counts[FindingSeverity.WARNING], "warning")),
    ]
    line = Text(", ").join(parts)
    if len(report.contracts) == 1 and report.contracts[0].suggested_version is not None:
        head = Text.assemble("suggested version ", (report.contracts[0].suggested_version, "bold"), " · ")
    else:
        head = Text(f"{counted(len(report.contracts), 'contract')} against {seen(report.against)} · ")
    return Text.assemble(head, line, f" · exit {int(report.failed)}")
