"""Automatic changes of problems. People are notified of problems that are new, regressed or surging."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import structlog

from tidegate.contracts.crash import described as described_error
from tidegate.contracts.document.semver import precedence
from tidegate.contracts.document.terms import is_version
from tidegate.contracts.errors import NotFoundError
from tidegate.gateway.alerts.alert import AlertKind, ProblemSummary
from tidegate.gateway.registry.subject_scope import enforced_contract, subject_of_contract, topic_of_contract
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.problems import StoredProblem
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.streams.problem_states import BY_ITSELF, ProblemDecision, ProblemState
from tidegate.gateway.streams.problems import (
    ProblemQuery,
    StreamProblem,
    all_problems,
    decision_hashes,
    hourly_ratio,
    put_decision,
)
from tidegate.gateway.streams.quarantine_index.facets import OTHER, FacetKind, described, problem_id
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter, StreamIndex, count
from tidegate.gateway.streams.quarantine_index.similarity import joined_problems

_log = structlog.get_logger()

_EVERY: Final = timedelta(seconds=15)
_MUTED_EVERY: Final = timedelta(minutes=1)
_EXPIRED_EVERY: Final = timedelta(hours=1)
_CHECK_SECONDS: Final = 2.0
"""Maximum time for the checks of one call: the index reads nothing meanwhile, and its leases lapse after 30 s."""
_REST: Final = 4
"""Pause between two calls that check, as a multiple of the time of the checks."""
_MOST_LOGGED: Final = 10
"""Maximum number of failed checks that one call logs: without the database, every check fails."""
_RECENT: Final = timedelta(hours=1)
"""Maximum age of the first record of a problem that is reported as new: indexing an old topic sends no alerts."""
_QUIET_AFTER_SURGE: Final = timedelta(hours=24)
_KEPT_WITHOUT_RECORDS: Final = timedelta(days=90)
"""Time after which the decision about a problem without records is removed."""
_MOST_ENTRIES: Final = 20
"""Maximum number of problems that one check names in the audit log; one entry counts the others."""
_UNRESOLVED: Final = frozenset(ProblemState) - {ProblemState.RESOLVED}
_REPORTS_SURGES: Final = frozenset({ProblemState.OPEN, ProblemState.ACKNOWLEDGED, ProblemState.REGRESSED})
"""States in which a surge is reported; muted and resolved problems stay silent."""


class NewsKind(StrEnum):
    """The events of problems that people are notified of."""

    NEW = "new"
    REGRESSED = "regressed"
    SURGING = "surging"


@dataclass(frozen=True, slots=True)
class ProblemNews:
    """Problems of one stream to notify people of.

    `channel` is the name of the owning team's alert channel; None without one.
    """

    kind: NewsKind
    stream: str
    at: datetime
    problems: tuple[StreamProblem, ...]
    topic: str
    channel: str | None


@dataclass(frozen=True, slots=True)
class _Change:
    """An automatic change of a decision, and the event to notify people of; None for no notification."""

    problem: StreamProblem
    after: ProblemDecision
    news: NewsKind | None


@dataclass(frozen=True, slots=True)
class _Expiry:
    """A change of the decision about a problem that has no record in the topic; `after` is None if it is removed."""

    stored: StoredProblem
    before: ProblemDecision
    after: ProblemDecision | None


class ProblemWatch:
    """The automatic changes of problems, checked for streams with new records, muted problems or expired records.

    `announce` must neither block nor raise.
    """

    def __init__(
        self, database: Database, now: Callable[[], datetime], announce: Callable[[ProblemNews], None]
    ) -> None:
        self._database = database
        self._now = now
        self._announce = announce
        # In the order of their checks, so that a busy stream keeps no other waiting.
        self._changed: dict[str, None] = {}
        self._check_at = self._check_muted_at = self._check_expired_at = now()

    def notify(self, streams: Collection[str]) -> None:
        """Record that streams have new records, and check them if a check is due.

        Streams for which a call has no time are checked by the next ones. A stream whose check fails is checked again
        after the others. Raises Unavailable if the database does not tell which streams are due.
        """
        self._add(streams)
        now = self._now()
        if now >= self._check_muted_at:
            self._check_muted_at = now + _MUTED_EVERY
            self._add(self._database.read(lambda stores: stores.problems.streams(ProblemState.MUTED.value)))
        if now >= self._check_expired_at:
            self._check_expired_at = now + _EXPIRED_EVERY
            self._add(self._database.read(lambda stores: stores.problems.streams()))
        if self._changed and now >= self._check_at:
            self._check_some(now)

    def _add(self, streams: Collection[str]) -> None:
        self._changed |= dict.fromkeys(sorted(streams))

    def _check_some(self, now: datetime) -> None:
        """Check the streams that have waited longest, until _CHECK_SECONDS have passed. Failures are logged."""
        failures = 0
        begin = time.monotonic()
        spent = 0.0
        for stream in tuple(self._changed):
            del self._changed[stream]
            try:
                self.check(stream)
            except Exception as error:  # noqa: BLE001 - the other streams are checked all the same
                self._changed[stream] = None
                failures += 1
                if failures <= _MOST_LOGGED:
                    _log.warning("problem_check_failed", stream=stream, error=described_error(error))
            spent = time.monotonic() - begin
            if spent >= _CHECK_SECONDS:
                break
        self._check_at = now + max(_EVERY, timedelta(seconds=spent * _REST))

    def check(self, stream: str) -> None:
        """Make the automatic changes of a stream's problems, and notify at most once per event. Raises Unavailable."""
        now = self._now()
        try:
            if not self._database.read(
                lambda stores: _changes(stores, stream, now) or _expiries(stores, stream, now)
            ):
                return
            with self._database.writing() as stores:
                # Computed again, because another process may have stored some meanwhile.
                changes = _changes(stores, stream, now)
                _keep(stores, stream, changes, now)
                _keep_expiries(stores, stream, _expiries(stores, stream, now), now)
                topic, channel = topic_of_contract(stores, stream), _channel(stores, stream)
        except NotFoundError:
            return  # the contract was deleted
        for kind in NewsKind:
            reported = tuple(each.problem for each in changes if each.news is kind)
            if reported:
                self._announce(ProblemNews(kind, stream, now, reported, topic, channel))


def resolve_emptied(stores: Stores, stream: str, now: datetime) -> None:
    """Resolve each problem of a stream whose own records are all closed. Raises NotFoundError without a contract."""
    found = _changes(stores, stream, now)
    emptied = [each for each in found if each.after.is_emptied and not each.problem.decision.is_emptied]
    _keep(stores, stream, emptied, now)


def _keep(stores: Stores, stream: str, changes: list[_Change], now: datetime) -> None:
    """Store changes. Raises NotFoundError for a stream without a contract."""
    for change in changes:
        put_decision(stores, change.problem, change.after, now)
    _audit(stores, stream, [(each.problem.id, each.problem.decision, each.after) for each in changes], now)


def _keep_expiries(stores: Stores, stream: str, expiries: list[_Expiry], now: datetime) -> None:
    """Store changes of problems without records. Raises NotFoundError for a stream without a contract."""
    for each in expiries:
        if each.after is None:
            stores.problems.remove(stream, each.stored.problem)
        else:
            document = each.after.model_dump_json()
            # `changed_at` stays: joined problems share the newest decision, and an expiry must not make this the newest.
            stores.problems.put(replace(each.stored, state=each.after.state.value, document=document))
    _audit(stores, stream, [(each.stored.problem, each.before, each.after) for each in expiries], now)


def _audit(
    stores: Stores,
    stream: str,
    decisions: list[tuple[str, ProblemDecision, ProblemDecision | None]],
    now: datetime,
) -> None:
    """Add audit entries about changed states and removals. Each item is (problem, before, after); None: removed."""
    moved = [each for each in decisions if each[2] is None or each[2].state is not each[1].state]
    if not moved:
        return
    subject = subject_of_contract(stores, stream)
    for problem, before, after in moved[:_MOST_ENTRIES]:
        action = "problem.removed" if after is None else "problem.state-changed"
        hashes = decision_hashes(before, after)
        stores.audit.append(AuditedAction(now, BY_ITSELF, action, f"{subject}#{problem}", *hashes))
    rest = {
        problem: "removed" if after is None else after.state.value
        for problem, _, after in moved[_MOST_ENTRIES:]
    }
    if rest:
        what = f"{subject}#{len(rest)} more"
        stores.audit.append(
            AuditedAction(now, BY_ITSELF, "problem.states-changed", what, None, content_hash(rest))
        )


def _expiries(stores: Stores, stream: str, now: datetime) -> list[_Expiry]:
    """Return the changes of problems that have no record in the topic.

    They are resolved, muted ones when their mute has ended, and removed _KEPT_WITHOUT_RECORDS later. Until an index has
    been built to its end, it does not know which problems have records.
    """
    partitions = stores.quarantine.partitions(stream)
    if not partitions or any(each.next_offset < each.high for each in partitions):
        return []
    indexed = {problem_id(each.facet) for each in stores.quarantine.facets(stream, FacetKind.PROBLEM)}
    found: list[_Expiry] = []
    for problem, stored in stores.problems.states(stream).items():
        if problem in indexed:
            continue
        before = ProblemDecision.model_validate_json(stored.document)
        # Without records, neither a count nor a ratio can end a mute.
        is_muted = before.state is ProblemState.MUTED and not before.mute_ended(now, 0, None)
        if before.gone_at is None and not is_muted:
            is_resolved = before.state is ProblemState.RESOLVED
            after = before if is_resolved else before.changed(ProblemState.RESOLVED, BY_ITSELF, now)
            found.append(_Expiry(stored, before, after.model_copy(update={"gone_at": now})))
        elif before.gone_at is not None and now - before.gone_at >= _KEPT_WITHOUT_RECORDS:
            found.append(_Expiry(stored, before, None))
    return found


def _changes(stores: Stores, stream: str, now: datetime) -> list[_Change]:
    index = StreamIndex(stores, stream, joined_problems)
    found = (_change(stores, index, each, now) for each in all_problems(stores, index, ProblemQuery(), now))
    return [each for each in found if each is not None]


def _change(stores: Stores, index: StreamIndex, problem: StreamProblem, now: datetime) -> _Change | None:
    """Return the change that is due for a problem; None without one. The first that applies wins."""
    decision = problem.decision
    if problem.left == 0 and decision.state in _UNRESOLVED:
        after = decision.changed(ProblemState.RESOLVED, BY_ITSELF, now, records=problem.kept)
        return _Change(problem, after, None)
    if problem.known_since is None:
        is_recent = problem.first_seen >= now - _RECENT
        return _Change(problem, decision, NewsKind.NEW if is_recent and problem.key.stage != OTHER else None)
    if decision.state is ProblemState.RESOLVED and _has_recurred(index, problem):
        after = decision.changed(ProblemState.REGRESSED, BY_ITSELF, now, resolved_in=decision.resolved_in)
        return _Change(problem, after, NewsKind.REGRESSED)
    if decision.state is ProblemState.MUTED and decision.mute_ended(
        now, problem.records, _ratio(stores, index, problem, now)
    ):
        return _Change(problem, decision.changed(ProblemState.OPEN, BY_ITSELF, now), None)
    is_quiet = decision.alerted_at is not None and now - decision.alerted_at < _QUIET_AFTER_SURGE
    if problem.is_surging and decision.state in _REPORTS_SURGES and not is_quiet:
        return _Change(problem, decision.model_copy(update={"alerted_at": now}), NewsKind.SURGING)
    has_returned = decision.gone_at is not None
    return _Change(problem, decision.model_copy(update={"gone_at": None}), None) if has_returned else None


def _has_recurred(index: StreamIndex, problem: StreamProblem) -> bool:
    """Return whether a resolved problem has new records, judged by the version that resolves it or a later one.

    A problem that was resolved automatically has recurred as soon as one of its records is not closed.
    """
    if problem.decision.is_emptied:
        return problem.left > 0
    resolved_at, resolved_in = problem.decision.changed_at, problem.decision.resolved_in
    if resolved_at is None or problem.last_seen <= resolved_at:
        return False
    # The index knows arrivals by the minute: records of the minute of the resolution may be from before it.
    since = resolved_at + timedelta(minutes=1)
    wanted = QuarantineFilter(problem=problem.id, since=since)
    if resolved_in is None:
        return bool(count(index.offsets(wanted)))
    versions = [described(each)["version"] for each in index.of_kind(FacetKind.VERSION)]
    later = [version for version in versions if _is_at_least(version, resolved_in)]
    filters = (QuarantineFilter(problem=problem.id, since=since, version=version) for version in later)
    return any(count(index.offsets(each)) for each in filters)


def _is_at_least(version: str, least: str) -> bool:
    """Return whether a version is not lower than another; False if it is not semantic, as in forged headers."""
    return is_version(version) and precedence(version) >= precedence(least)


def _ratio(stores: Stores, index: StreamIndex, problem: StreamProblem, now: datetime) -> float | None:
    """Return the share of the records of the last hour in a problem and those joined to it; None if unknown."""
    members = (facet for facet, head in index.heads.items() if problem_id(head) == problem.id)
    return hourly_ratio(stores, index.stream, members, now)


def _channel(stores: Stores, stream: str) -> str | None:
    enforced = enforced_contract(stores, stream)
    return None if enforced is None or enforced.team is None else enforced.team.alert_channel


_ALERTS: Final = {
    NewsKind.NEW: AlertKind.PROBLEM_NEW,
    NewsKind.REGRESSED: AlertKind.PROBLEM_REGRESSED,
    NewsKind.SURGING: AlertKind.PROBLEM_SURGING,
}


def summary_of(news: ProblemNews) -> ProblemSummary:
    """Return the summary of news for an alert, the problem with most records first."""
    problems = sorted(news.problems, key=lambda each: (-each.records, each.id))
    counts = tuple((each.title, each.records) for each in problems)
    return ProblemSummary(
        _ALERTS[news.kind], news.stream, news.at, news.topic, problems[0].id, counts, news.channel
    )
