"""The report of a backtest: for people, as JSON, and as Markdown for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

from tidegate.contracts.words import seen
from tidegate.gateway.checks.backtest import COLUMNS_NOTE, BacktestReport, ChangeCause
from tidegate.gateway.checks.formats.github import cell
from tidegate.gateway.checks.formats.json_report import json_text

BACKTEST_FORMAT = "tidegate/backtest/v1"
_NO_RECORD = "--allow-empty takes that for a success"
_MOST_ROWS = 100
"""Maximum rows of a table in a comment, because code hosts limit its size."""


def backtest_text(report: BacktestReport) -> str:
    """Write a report as plain text."""
    return "".join(f"{seen(line)}\n" for line in _lines(report))


def backtest_json(report: BacktestReport) -> str:
    """Write a report as one JSON object."""
    found = report.backtest
    return json_text(
        {
            "format": BACKTEST_FORMAT,
            "candidate": report.candidate,
            "base": report.base,
            "source": report.source,
            "records": found.records,
            "unread": report.unread,
            "refused_by_base": found.refused_by_base,
            "refused_by_candidate": found.refused_by_candidate,
            "newly_refused": found.newly_refused.records.count,
            "newly_refused_share": report.newly_refused_share,
            "max_newly_refused": report.max_newly_refused,
            "newly_passing": found.newly_passing.records.count,
            "failed": report.failed,
            "newly_refused_by": [asdict(each) for each in report.newly_refused],
            "newly_passing_by": [asdict(each) for each in report.newly_passing],
        }
    )


def backtest_markdown(report: BacktestReport) -> str:
    """Write a report as Markdown."""
    return "".join(_markdown(report))


FORMATS: dict[str, Callable[[BacktestReport], str]] = {
    "text": backtest_text,
    "json": backtest_json,
    "markdown": backtest_markdown,
}


def _lines(report: BacktestReport) -> Iterator[str]:
    found = report.backtest
    yield f"{report.candidate} against {report.base} on {found.records:,} records of {report.source}"
    if report.unread is not None:
        yield f"  not all records were judged: {report.unread}"
    yield ""
    yield f"  newly refused  {found.newly_refused.records.count:>8,}  {report.newly_refused_share:.3%}"
    yield from _rows(report.newly_refused)
    yield f"  newly passing  {found.newly_passing.records.count:>8,}"
    yield from _rows(report.newly_passing)
    yield f"  refused        {found.refused_by_candidate:>8,}  before: {found.refused_by_base:,}"
    if report.has_column_causes:
        yield f"  {COLUMNS_NOTE}"
    if report.is_empty:
        yield ""
        yield f"failed: no record was judged; {_NO_RECORD}"
    if report.refuses_too_many:
        yield ""
        yield f"failed: more is newly refused than --max-newly-refused {report.max_newly_refused:.3%} allows"


def _rows(rows: tuple[ChangeCause, ...]) -> Iterator[str]:
    for each in rows:
        yield f"    {each.records:>19,}  {each.stage} {each.code}  {each.pointer}  {each.first}"


def _markdown(report: BacktestReport) -> Iterator[str]:
    found = report.backtest
    mark = "🔴" if report.failed else "🟢"
    yield f"### {mark} Backtest: {report.newly_refused_share:.3%} newly refused\n\n"
    yield (
        f"{cell(report.candidate)} against {cell(report.base)} on {found.records:,} records of {cell(report.source)}: "
        f"**{found.newly_refused.records.count:,}** newly refused, **{found.newly_passing.records.count:,}** newly passing.\n"
    )
    if report.unread is not None:
        yield f"\nNot all records were judged: {cell(report.unread)}.\n"
    if report.is_empty:
        yield f"\nNo record was judged; {_NO_RECORD}.\n"
    if report.refuses_too_many:
        yield f"\nAllowed: {report.max_newly_refused:.3%} newly refused.\n"
    for title, rows in (("Newly refused", report.newly_refused), ("Newly passing", report.newly_passing)):
        if not rows:
            continue
        yield f"\n| {title} by | field | records | first at |\n|---|---|---:|---|\n"
        for each in rows[:_MOST_ROWS]:
            yield f"| {cell(each.code)} ({each.stage}) | {cell(each.pointer)} | {each.records:,} | {cell(each.first)} |\n"
        if len(rows) > _MOST_ROWS:
            yield f"\n{len(rows) - _MOST_ROWS:,} more are in `--format json`.\n"
    if report.has_column_causes:
        yield f"\n{COLUMNS_NOTE}\n"
