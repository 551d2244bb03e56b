"""The content of alerts. It never contains a value of a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from tidegate.contracts.stream.control import EventKind, StreamControl, StreamEvent, Trip
from tidegate.contracts.stream.counts import RuleCount
from tidegate.contracts.stream.reconciliation import Findings, ReconciliationResult
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.verdict import Severity
from tidegate.contracts.words import is_visible

_MOST_RULES = 5
_MOST_PARTITIONS = 8


class AlertKind(StrEnum):
    """The kinds of alerts. The rate limit of alerts applies to each kind and stream separately."""

    RULE = "rule-alert"
    BUDGET = "budget-spent"
    PAUSED = "stream-paused"
    STOPPED = "stream-stopped"
    FAILED = "stream-failed"
    RECONCILIATION = "reconciliation"
    PROBLEM_NEW = "problem-new"
    PROBLEM_REGRESSED = "problem-regressed"
    PROBLEM_SURGING = "problem-surging"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    `sentence` says what happened; `page` is the URL of the stream or problem. `rules` has pairs of rule code and number
    of records; for problems, their title and number of records. `first_offsets` has pairs of partition and first offset
    of the batch. `answer`, `lost` and `twice` are the result and record counts of a reconciliation; None for other
    alerts. `held_back` counts the alerts of this kind and stream that were suppressed since the last one. `channel` is
    the name of the team's channel, which also gets the alert; None for none.
    """

    kind: AlertKind
    stream: str
    at: datetime
    sentence: str
    page: str
    contract: str | None = None
    topic: str | None = None
    rules: tuple[tuple[str, int], ...] = ()
    first_offsets: tuple[tuple[int, int], ...] = ()
    answer: str | None = None
    lost: int | None = None
    twice: int | None = None
    held_back: int = 0
    channel: str | None = None

    @property
    def subject(self) -> str:
        """Return the subject line: the stream and the kind of the alert."""
        words = self.kind.value.replace("-", " ")
        return f"Tidegate: {self.stream}: {words}"

    @property
    def text(self) -> str:
        """Return the whole message as plain text of several lines."""
        lines = [self.sentence]
        if self.contract is not None:
            lines.append(f"contract: {self.contract}")
        if self.rules:
            lines.append("rules: " + ", ".join(f"{code} ({records} records)" for code, records in self.rules))
        if self.first_offsets:
            places = ", ".join(
                f"partition {partition} offset {first}" for partition, first in self.first_offsets
            )
            lines.append(f"batch of {self.topic} from {places}")
        lines.append(f"at: {self.at:%Y-%m-%d %H:%M:%S} UTC")
        if self.held_back:
            lines.append(f"not sent since the last one: {self.held_back} more of this kind")
        lines.append(self.page)
        return "\n".join(lines)

    @property
    def document(self) -> dict[str, Any]:
        """Return the message as a JSON object."""
        return {
            "kind": self.kind.value,
            "stream": self.stream,
            "at": self.at.isoformat(),
            "message": self.sentence,
            "contract": self.contract,
            "topic": self.topic,
            "rules": [{"code": code, "records": records} for code, records in self.rules],
            "first_offsets": {str(partition): first for partition, first in self.first_offsets},
            "answer": self.answer,
            "lost": self.lost,
            "twice": self.twice,
            "held_back": self.held_back,
            "page": self.page,
        }


@dataclass(frozen=True, slots=True)
class ProblemSummary:
    """The problems of one stream in one alert.

    `counts` has the title and the number of refused records of each problem, at least one. `first` is the id of the
    first. `channel` is the name of the team's channel; None for none.
    """

    kind: AlertKind
    stream: str
    at: datetime
    topic: str
    first: str
    counts: tuple[tuple[str, int], ...]
    channel: str | None

    @property
    def titles(self) -> tuple[str, ...]:
        """Return the title of each problem."""
        return tuple(title for title, _ in self.counts)


_PROBLEMS = {
    AlertKind.PROBLEM_NEW: "a new problem refuses records",
    AlertKind.PROBLEM_REGRESSED: "a resolved problem has come back",
    AlertKind.PROBLEM_SURGING: "a problem refuses far more records than usual",
}


class AlertWriter:
    """The builder of alerts from the reports that the gateway gets; `page_url` is the base URL of its pages."""

    def __init__(self, page_url: str) -> None:
        self._page_url = page_url

    def of_event(self, event: StreamEvent | Trip | StreamControl) -> Alert | None:
        """Build the alert about a spent budget, a stop, a failure or a pause; None for other events."""
        match event:
            case Trip():
                return Alert(
                    AlertKind.BUDGET,
                    event.stream,
                    event.at,
                    f"{event.sentence}; {_AFTER_TRIP[event.action].format(stream=event.stream)}",
                    self._page(event.stream),
                    event.contract,
                    event.topic,
                    _most(event.rules),
                    _first(event.start, event.end),
                )
            case StreamEvent(kind=EventKind.STOPPED | EventKind.FAILED):
                kind = AlertKind.STOPPED if event.kind is EventKind.STOPPED else AlertKind.FAILED
                sentence = _line(event.message or f"the stream has {event.kind.value}")
                return Alert(kind, event.stream, event.at, sentence, self._page(event.stream))
            case StreamControl(is_paused=True, at=datetime() as at):
                sentence = _line(f"paused by {event.by}: {event.reason}")
                return Alert(AlertKind.PAUSED, event.stream, at, sentence, self._page(event.stream))
            case _:
                return None

    def of_report(self, report: BatchReport) -> Alert | None:
        """Build the alert about written records that violate a rule with `on_violation: alert`; None without such."""
        if report.alerted == 0:
            return None
        return Alert(
            AlertKind.RULE,
            report.stream,
            report.committed_at,
            f"{report.alerted} of {report.records} records were written that violate a rule which alerts",
            self._page(report.stream),
            report.contract,
            report.topic,
            _most(report.alerts or report.rules),  # a job of an earlier release reports no `alerts`
            _first(report.start, report.end),
        )

    def of_reconciliation(self, result: ReconciliationResult) -> Alert | None:
        """Build the alert about a reconciliation that does not hold; None if it holds or has no findings."""
        match result.findings:
            case Findings(holds=False) as found:
                return Alert(
                    AlertKind.RECONCILIATION,
                    found.stream,
                    result.at,
                    found.verdict,
                    self._page(found.stream),
                    answer=found.answer.value,
                    lost=found.lost,
                    twice=found.twice,
                )
        return None

    def of_problems(self, news: ProblemSummary) -> Alert:
        """Build the alert about problems that are new, have regressed, or surge."""
        first, *others = (_line(title) for title in news.titles)
        more = f" (and {len(others)} more)" if others else ""
        return Alert(
            news.kind,
            news.stream,
            news.at,
            f"{_PROBLEMS[news.kind]}: {first}{more}",
            f"{self._page(news.stream)}/problems/{news.first}",
            topic=news.topic,
            rules=tuple((_line(title), records) for title, records in news.counts[:_MOST_RULES]),
            channel=news.channel,
        )

    def _page(self, stream: str) -> str:
        return f"{self._page_url}/desk/streams/{quote(stream, safe='')}"


_AFTER_TRIP = {
    "pause": "the stream is paused: tidegate resume {stream}, with --accept-batch to let the batch through",
    "fail": "the stream has stopped",
}


def _most(rules: Sequence[RuleCount]) -> tuple[tuple[str, int], ...]:
    errors = (rule for rule in rules if rule.severity is Severity.ERROR)
    ordered = sorted(errors, key=lambda rule: (-rule.records, rule.code))
    return tuple((_line(rule.code), rule.records) for rule in ordered[:_MOST_RULES])


def _line(text: str) -> str:
    """Return untrusted text as one line, so that it cannot imitate further lines of the message."""
    return " ".join("".join(each if is_visible(each) else " " for each in text).split())


def _first(start: dict[int, int], end: dict[int, int]) -> tuple[tuple[int, int], ...]:
    """Return (partition, first offset) for the partitions with records in the batch, at most _MOST_PARTITIONS."""
    found = ((partition, start.get(partition, 0)) for partition in sorted(end))
    return tuple((partition, first) for partition, first in found if end[partition] > first)[
        :_MOST_PARTITIONS
    ]
