"""Table audits: the last one of each table for the page of the contract, and the page of one audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode
from uuid import UUID

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.contracts.stream.table_audit import KeptTableAudit, TableAudit
from tidegate.contracts.verdict import Severity, Stage
from tidegate.gateway.access.principal import Principal
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.contract_views import expectation_row, published_contract, rule_words
from tidegate.gateway.http.desk.stream_sections import about_expectation, expectation_figure
from tidegate.gateway.http.desk.wording import THIN_SPACE, keyword_words, percent
from tidegate.gateway.storage.table_audits import AuditSummary
from tidegate.gateway.streams.problems import ProblemQuery
from tidegate.gateway.streams.table_audits import AuditedTable

MOST_TABLES: Final = 20
MOST_AUDITS: Final = 20
MOST_RULES: Final = 500
_MOST_PROBLEMS: Final = 1_000
_OUTCOMES: Final = {
    ExpectationOutcome.MET: ("met", "met"),
    ExpectationOutcome.SKIPPED: ("muted", "skipped"),
    ExpectationOutcome.WARNED: ("warned", "warning"),
}
"""CSS class and label of an outcome; other outcomes are `not met`."""

_Key = tuple[Stage, str, Severity]


@dataclass(frozen=True, slots=True)
class Trend:
    """The share of refused rows compared with the previous audit, in words; `is_worse`: it is larger."""

    words: str
    is_worse: bool


@dataclass(frozen=True, slots=True)
class TableAuditLine:
    """One audit in a list. `trend` is None if the table has no rows."""

    summary: AuditSummary
    address: str
    trend: Trend | None


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One rule or keyword that rows violate in this audit or in the previous one.

    `rows` and `share` are of this audit, `before` is the share in the previous one. `words` is the requirement; None if
    unknown. `rule_address` is the URL of the rule in the contract; None for a keyword. `problems` is the number of the
    stream's problems with the same code, `problems_address` the URL of their list.
    """

    stage: Stage
    code: str
    severity: Severity
    words: str | None
    rows: int
    share: float | None
    before: float | None
    rule_address: str | None
    problems: int
    problems_address: str


@dataclass(frozen=True, slots=True)
class ExpectationLine:
    """One expectation of this audit: its outcome, and that of the previous audit; None if there is none."""

    expectation: str
    about: str
    bounds: tuple[tuple[str, str], ...]
    style: str
    label: str
    why: str
    observed: str | None
    before: str | None


@dataclass(frozen=True, slots=True)
class TableAuditView:
    """The page of one audit. `compared` is the previous audit, None for the first one.

    `audits` are those of the table, newest first. `more_rules` is the number of rules that are not listed.
    """

    kept: KeptTableAudit
    share: float | None
    trend: Trend | None
    compared: KeptTableAudit | None
    rules: tuple[RuleLine, ...]
    more_rules: int
    expectations: tuple[ExpectationLine, ...]
    audits: tuple[TableAuditLine, ...]
    contract_address: str


def audited_tables(factory: Factory, contract_id: str) -> tuple[TableAuditLine, ...]:
    """Return the last audit of each table, newest first. Raises NotFoundError."""
    tables = factory.table_audits().tables(contract_id)[:MOST_TABLES]
    return tuple(_row(contract_id, each, each.last) for each in tables)


def table_audit_view(
    factory: Factory, principal: Principal, contract_id: str, audit_id: UUID
) -> TableAuditView:
    """Return the page of one table audit. Raises NotFoundError."""
    seen = factory.table_audits().seen(contract_id, audit_id)
    audit, before = seen.kept.audit, seen.before
    contract = published_contract(factory, audit.contract)
    earlier = None if before is None else before.audit
    rules = _rule_lines(audit, earlier, contract, _problems(factory, principal, audit))
    rows = [_row(contract_id, seen.table, each) for each in seen.table.audits]
    own = next(each for each in rows if each.summary.id == str(audit_id))
    return TableAuditView(
        seen.kept,
        own.summary.share,
        own.trend,
        before,
        rules[:MOST_RULES],
        max(0, len(rules) - MOST_RULES),
        _expectation_lines(audit, earlier, contract),
        tuple(rows[:MOST_AUDITS]),
        _contract_address(audit),
    )


def _contract_address(audit: TableAudit) -> str:
    return f"/desk/contracts/{audit.contract_id}?{urlencode({'version': audit.contract_version})}"


def _row(contract_id: str, table: AuditedTable, summary: AuditSummary) -> TableAuditLine:
    address = f"/desk/contracts/{contract_id}/table-audits/{summary.id}"
    return TableAuditLine(summary, address, _trend(summary, table.before(summary.id)))


def _trend(summary: AuditSummary, before: AuditSummary | None) -> Trend | None:
    share = summary.share
    if share is None:
        return None
    if before is None or before.share is None:
        return Trend("first audit", is_worse=False)
    shown = f"{percent(before.share)}{THIN_SPACE}%"
    if percent(share) == percent(before.share):
        return Trend("as before", is_worse=False)
    is_worse = share > before.share
    return Trend(f"{'up' if is_worse else 'down'} from {shown}", is_worse)


def _problems(factory: Factory, principal: Principal, audit: TableAudit) -> Mapping[tuple[str, str], int]:
    """Count the problems of the stream by stage and code."""
    if not audit.violations:
        return {}
    found = factory.problems(principal).list(audit.contract_id, ProblemQuery(buckets=1, limit=_MOST_PROBLEMS))
    return Counter((each.key.stage, each.key.code) for each in found.problems)


def _counts(audit: TableAudit | None) -> dict[_Key, int]:
    counts = () if audit is None else audit.violations
    return {(each.stage, each.code, each.severity): each.records for each in counts}


def _rule_lines(
    audit: TableAudit,
    before: TableAudit | None,
    contract: DataContract | None,
    problems: Mapping[tuple[str, str], int],
) -> tuple[RuleLine, ...]:
    """Return the violations of this audit and the previous one, those with most rows in this audit first."""
    counts, earlier, words = _counts(audit), _counts(before), rule_words(contract)
    base = _contract_address(audit)
    lines = []
    for key in counts | earlier:
        stage, code, severity = key
        is_rule = (stage, code) in words
        lines.append(
            RuleLine(
                stage,
                code,
                severity,
                words.get((stage, code)) or keyword_words(stage, code),
                counts.get(key, 0),
                counts.get(key, 0) / audit.rows if audit.rows else None,
                None if before is None else earlier.get(key, 0) / before.rows,
                f"{base}#rule-{quote(code)}" if is_rule else None,
                problems.get((stage, code), 0),
                f"/desk/streams/{audit.contract_id}/problems?{urlencode({'state': 'all', 'q': code[:200]})}",
            )
        )
    return tuple(sorted(lines, key=lambda line: (-line.rows, -(line.before or 0), line.code)))


def _expectation_lines(
    audit: TableAudit, before: TableAudit | None, contract: DataContract | None
) -> tuple[ExpectationLine, ...]:
    bounds = (
        {each.id: expectation_row(contract, each).bounds for each in contract.expectations}
        if contract
        else {}
    )
    earlier = {} if before is None else {each.id: each for each in before.expectations}
    lines = []
    for each in audit.expectations:
        style, label = _outcome(each)
        lines.append(
            ExpectationLine(
                each.id,
                about_expectation(each),
                bounds.get(each.id, ()),
                style,
                label,
                _why_skipped(each),
                expectation_figure(each),
                _shown_before(earlier.get(each.id)),
            )
        )
    return tuple(sorted(lines, key=lambda line: (line.label != "not met", line.expectation)))


def _outcome(result: ExpectationResult) -> tuple[str, str]:
    return _OUTCOMES.get(result.outcome, ("refused", "not met"))


def _why_skipped(result: ExpectationResult) -> str:
    if result.outcome is not ExpectationOutcome.SKIPPED:
        return ""
    is_foreign = result.judged_by == "great_expectations"
    return "only a job computes it, with Great Expectations" if is_foreign else "too few rows"


def _shown_before(result: ExpectationResult | None) -> str | None:
    if result is None:
        return None
    figure = expectation_figure(result)
    return _outcome(result)[1] + (f", {figure}" if figure is not None else "")
