"""The report of `tidegate judge` for the producer of the records: one HTML page that loads no other files.

The standard library writes the page and escapes every text, because records are untrusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tidegate.contracts.explain.account import Explanation
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.contracts.words import counted, plain_sentence, seen

_MOST_FINDINGS: Final = 500
_MOST_EXAMPLES: Final = 5
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = Path(__file__).with_name("judge_report.css")


@dataclass(slots=True)
class ViolatedRule:
    """One rule that one field violates: the number of records, and the first ones with their places."""

    violation: Violation
    records: int = 0
    examples: list[tuple[str, Explanation]] = field(default_factory=list)


@dataclass(slots=True)
class JudgeFindings:
    """Findings by stage, rule and field. `others` counts the records of findings beyond the first _MOST_FINDINGS."""

    found: dict[tuple[Stage, str, str], ViolatedRule] = field(default_factory=dict)
    others: int = 0

    def add(
        self,
        verdicts: Sequence[Verdict],
        explained: Callable[[int], tuple[Explanation, ...]],
        place: Callable[[int], str],
    ) -> None:
        """Count the violations of records. A record counts once for each finding.

        For the record at an index, `explained` returns its explanations and `place` its place.
        """
        for index, verdict in enumerate(verdicts):
            fresh = {}
            violated = {(each.stage, each.code, each.pointer): each for each in reversed(verdict.violations)}
            for key, violation in violated.items():
                finding = self.found.get(key)
                if finding is None:
                    if len(self.found) >= _MOST_FINDINGS:
                        self.others += 1
                        continue
                    finding = self.found[key] = ViolatedRule(violation)
                fresh[key] = finding
                finding.records += 1
            if any(len(finding.examples) < _MOST_EXAMPLES for finding in fresh.values()):
                _keep_examples(fresh, explained(index), place(index))

    def merge(self, later: JudgeFindings) -> None:
        """Add the findings of later records."""
        self.others += later.others
        for key, finding in later.found.items():
            known = self.found.get(key)
            if known is not None:
                known.records += finding.records
                known.examples += finding.examples[: _MOST_EXAMPLES - len(known.examples)]
            elif len(self.found) < _MOST_FINDINGS:
                self.found[key] = finding
            else:
                self.others += finding.records


def _keep_examples(
    fresh: Mapping[tuple[Stage, str, str], ViolatedRule], explanations: Sequence[Explanation], place: str
) -> None:
    kept = set()
    for each in explanations:
        key = each.violation.stage, each.violation.code, each.violation.pointer
        finding = fresh.get(key)
        if finding is not None and key not in kept and len(finding.examples) < _MOST_EXAMPLES:
            kept.add(key)
            finding.examples.append((place, each))


@dataclass(frozen=True, slots=True)
class Totals:
    """The number of records by disposition, and of unreadable records, which have none."""

    dispositions: Mapping[Disposition, int]
    unreadable: int = 0


def report_page(
    plan: EnforcementPlan, title: str, totals: Totals, findings: JudgeFindings, now: datetime
) -> bytes:
    """Return the report as HTML in UTF-8. `title` names the data, `now` is the time of the report in UTC."""
    contract = plan.contract
    page = Element("html", lang="en")
    head = SubElement(page, "head")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    _text(head, "title", f"{contract.id} {contract.version}: {title}")
    SubElement(head, "style").text = _STYLE.read_text(encoding="utf-8")
    body = SubElement(page, "body")
    _text(body, "h1", title)
    _text(body, "p", f"judged by the contract {contract.id}, version {contract.version}")
    if contract.description:
        _text(body, "p", contract.description, "muted")
    _totals(body, totals)
    records = sum(totals.dispositions.values())
    ordered = sorted(findings.found.values(), key=lambda each: -each.records)
    _text(body, "h2", "What was found" if ordered else "Nothing was found")
    for each in ordered:
        _finding(body, each, records, most=ordered[0].records)
    if findings.others:
        _text(body, "p", f"{counted(findings.others, 'more violation')} of other rules and fields.")
    footer = SubElement(body, "footer")
    _text(
        footer,
        "p",
        "A record counts once for each rule and field; the longest bar is the most frequent of them. Values of classified fields are not shown.",
    )
    _text(footer, "p", f"{now:%Y-%m-%d %H:%M} UTC · contract {plan.name} · fingerprint {plan.fingerprint}")
    indent(body)
    return f"<!doctype html>\n{tostring(page, encoding='unicode', method='html')}\n".encode()


def _totals(body: Element, found: Totals) -> None:
    dispositions = found.dispositions
    records = sum(dispositions.values())
    bar = SubElement(body, "div", {"class": "bar total", "aria-hidden": "true"})
    totals = SubElement(body, "ul", {"class": "totals"})
    _total(totals, None, "records", f"{records:,}")
    for disposition in Disposition:
        if count := dispositions.get(disposition, 0):
            share = count / records
            SubElement(bar, "i", {"class": _colour(disposition), "style": f"width: {share:.4%}"})
            _total(
                totals, disposition, f"{disposition.name.lower()} · {_share(count, records)}", f"{count:,}"
            )
    if found.unreadable:
        _total(totals, None, "cannot be read, and have no verdict", f"{found.unreadable:,}")


def _total(totals: Element, disposition: Disposition | None, name: str, count: str) -> None:
    item = SubElement(totals, "li")
    _text(item, "b", count)
    if disposition is not None:
        SubElement(item, "span", {"class": f"dot {_colour(disposition)}"})
    _text(item, "span", name, "muted")


def _finding(body: Element, finding: ViolatedRule, records: int, most: int) -> None:
    violation = finding.violation
    card = SubElement(body, "article")
    header = SubElement(card, "header")
    _text(header, "h3", f"{violation.code} {violation.pointer}".rstrip())
    kind = "" if violation.severity is Severity.ERROR else " · a warning"
    _text(
        header,
        "span",
        f"{counted(finding.records, 'record')} · {_share(finding.records, records)}{kind}",
        "muted",
    )
    bar = SubElement(card, "div", {"class": "bar", "aria-hidden": "true"})
    colour = "refused" if violation.severity is Severity.ERROR else "warned"
    SubElement(bar, "i", {"class": colour, "style": f"width: {finding.records / most:.4%}"})
    _text(card, "p", plain_sentence(violation))
    first = finding.examples[0][1] if finding.examples else None
    if first is not None and first.description:
        _text(card, "p", first.description)
    if first is not None and first.passes:
        _text(card, "p", f"passes with {first.passes}", "muted")
    table = SubElement(card, "table")
    row = SubElement(table, "tr")
    _text(row, "th", "first at")
    _text(row, "th", "what is there")
    for place, explanation in finding.examples:
        row = SubElement(table, "tr")
        _text(row, "td", place, "place")
        _text(row, "td", explanation.sentence)


def _colour(disposition: Disposition) -> str:
    if not disposition.is_written:
        return "refused"
    return "clear" if disposition is Disposition.ACCEPTED else "warned"


def _share(count: int, records: int) -> str:
    share = count / records
    return f"{share:.2%}" if share >= 0.0001 else "< 0.01%"


def _text(parent: Element, name: str, text: str, style: str | None = None) -> None:
    SubElement(parent, name, {} if style is None else {"class": style}).text = seen(text)
