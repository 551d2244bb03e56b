"""Problems: groups of refused records with a common cause, with counts from the index and decisions of people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from tidegate.contracts.document.semver import precedence
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ConflictError
from tidegate.gateway.access.principal import ANONYMOUS, Principal, Role, require
from tidegate.gateway.registry.subject_scope import subject_of_contract
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.problems import ProblemComment, StoredProblem
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.streams.problem_states import Mute, ProblemDecision, ProblemState
from tidegate.gateway.streams.quarantine_index.closures import ClosureCounts, closure_counts
from tidegate.gateway.streams.quarantine_index.columns import Integers
from tidegate.gateway.streams.quarantine_index.facets import OTHER, ProblemKey, described, problem_id
from tidegate.gateway.streams.quarantine_index.filters import StreamIndex, from_minute, to_minute
from tidegate.gateway.streams.quarantine_index.similarity import joined_problems
from tidegate.gateway.streams.quarantine_index.trends import Slices, counted, first_and_last

MOST_COMMENTS: Final = 200
MOST_COMMENT_CHARACTERS: Final = 2_000
MOST_STREAMS: Final = 50
"""Maximum streams in a list of all problems: those whose index changed last."""
_USUAL_HOURS = 7 * 24
_LEAST_SURGE = 20
_SURGE_FACTOR = 4.0
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class StreamProblem:
    """One problem of a stream; joined problems count as one. Counts are of the records that are still in the topic.

    `records` counts those in the requested span. `share` is their share of the stream's refused records in it.
    `record_share` is their share of all records of the batches in it, None if unknown. `trend` has a count for each
    slice. `message` is that of one violation. `kept` counts all records, whatever the span, and `closures` the closed
    ones among them by closure. `known_since` is None until the first decision is stored. `members` are the ids of
    joined problems, () for a single one.
    """

    id: str
    stream: str
    key: ProblemKey
    message: str
    kept: int
    closures: ClosureCounts
    decision: ProblemDecision
    known_since: datetime | None
    comments: int
    records: int
    share: float
    record_share: float | None
    first_seen: datetime
    last_seen: datetime
    is_surging: bool
    trend: tuple[int, ...]
    members: tuple[str, ...]

    @property
    def left(self) -> int:
        """Return the number of its records that are not closed."""
        return self.kept - sum(self.closures.values())

    @property
    def title(self) -> str:
        """Return a title of one line."""
        if self.key.stage == OTHER:
            return "other problems, too many to tell apart"
        if self.key.is_noise:
            return f"{self.key.code}: {self.key.sentence}"
        place = f" at {self.key.field}" if self.key.field else ""
        return f"{self.key.code}{place}" + (f": {self.key.shape}" if self.key.shape else "")


@dataclass(frozen=True, slots=True)
class ProblemList:
    """A page of a stream's problems, most records first.

    `total` counts all problems that match, `refused` the stream's refused records in the span.
    """

    problems: tuple[StreamProblem, ...]
    total: int
    refused: int
    slices: Slices


@dataclass(frozen=True, slots=True)
class ProblemQuery:
    """A query of problems, and the span [since, until) in which their records count; without both, all records count.

    Without `states`, problems in every state match.
    """

    states: frozenset[ProblemState] = frozenset()
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None
    buckets: int = 48
    limit: int = 100
    offset: int = 0


class ProblemService:
    """A service that lists problems and stores decisions about them. Every change is an entry in the audit log."""

    def __init__(self, database: Database, now: Callable[[], datetime], by: Principal = ANONYMOUS) -> None:
        self._database = database
        self._now = now
        self._by = by

    def list(self, stream: str, query: ProblemQuery) -> ProblemList:
        """List problems of a stream. Raises NotFoundError for one without a contract."""
        with self._database.reading() as stores:
            subject_of_contract(stores, stream)
            return _listed(stores, stream, query, self._now())

    def newest(self, query: ProblemQuery) -> tuple[StreamProblem, ...]:
        """List the problems of all visible streams, most records in the span (by default the last 24 hours) first."""
        now = self._now()
        with self._database.reading() as stores:
            topics = stores.contracts.topics()
            changed = stores.quarantine.last_changes()
            seen = [each for each in changed if each in topics and self._by.sees(subject_of(topics[each]))]
            streams = sorted(seen, key=lambda each: (changed[each], each), reverse=True)[:MOST_STREAMS]
            found = [each for stream in streams for each in _listed(stores, stream, query, now).problems]
        found.sort(key=lambda each: (-sum(each.trend), -each.records, each.stream, each.id))
        return tuple(found[: query.limit])

    def get(self, stream: str, problem: str, query: ProblemQuery) -> StreamProblem:
        """Return one problem, by its id or the id of a problem that is joined with it. Raises NotFoundError."""
        with self._database.reading() as stores:
            subject_of_contract(stores, stream)
            return _one(stores, stream, problem, query, self._now())

    def comments(self, stream: str, problem: str) -> tuple[ProblemComment, ...]:
        """List the comments about a problem, oldest first. Raises NotFoundError."""
        with self._database.reading() as stores:
            index = StreamIndex(stores, stream, joined_problems)
            return stores.problems.comments(stream, _member_ids(index, index.head_of(problem)))

    def change_state(
        self,
        stream: str,
        problem: str,
        state: ProblemState,
        *,
        mute: Mute | None = None,
        resolved_in: str | None = None,
    ) -> StreamProblem:
        """Change the state of a problem; return it afterwards.

        To mute a problem takes the role approver of the subject, other changes the role producer. A version that is not
        published yet takes the role approver too, because until then the problem cannot come back. Raises NotFoundError
        and Forbidden; ConflictError for a state that only Tidegate sets.
        """
        if state is ProblemState.REGRESSED:
            raise ConflictError(
                "a problem regresses by itself: when its records come again after it was resolved"
            )
        at = self._now()
        with self._database.writing() as stores:
            is_silent = state is ProblemState.MUTED or _is_ahead(stores, stream, resolved_in)
            subject = self._permit(stores, stream, Role.APPROVER if is_silent else Role.PRODUCER)
            found = _one(stores, stream, problem, ProblemQuery(), at)
            after = found.decision.changed(
                state, self._by.name, at, mute=mute, resolved_in=resolved_in, records=found.records
            )
            self._keep(stores, found, after, "problem.state-changed", subject)
            return _one(stores, stream, problem, ProblemQuery(), at)

    def assign(self, stream: str, problem: str, assignee: str | None) -> StreamProblem:
        """Set the assignee of a problem; None removes it. Raises NotFoundError and Forbidden."""
        at = self._now()
        with self._database.writing() as stores:
            subject = self._permit(stores, stream, Role.PRODUCER)
            found = _one(stores, stream, problem, ProblemQuery(), at)
            after = found.decision.model_copy(update={"assignee": assignee})
            self._keep(stores, found, after, "problem.assigned", subject)
            return _one(stores, stream, problem, ProblemQuery(), at)

    def comment(self, stream: str, problem: str, text: str) -> ProblemComment:
        """Add a comment. Raises NotFoundError and Forbidden; ConflictError if the problem has MOST_COMMENTS."""
        at = self._now()
        with self._database.writing() as stores:
            subject = self._permit(stores, stream, Role.PRODUCER)
            found = _one(stores, stream, problem, ProblemQuery(), at)
            if found.comments >= MOST_COMMENTS:
                raise ConflictError(f"the problem has {MOST_COMMENTS} comments, the most that are kept")
            comment = ProblemComment(found.id, at, self._by.name, text)
            stores.problems.add_comment(stream, comment)
            self._audit(
                stores, "problem.commented", f"{subject}#{found.id}", (None, content_hash({"text": text}))
            )
            return comment

    def _permit(self, stores: Stores, stream: str, role: Role) -> str:
        subject = subject_of_contract(stores, stream)
        require(self._by, role, subject)
        return subject

    def _keep(
        self, stores: Stores, problem: StreamProblem, after: ProblemDecision, action: str, subject: str
    ) -> None:
        put_decision(stores, problem, after, self._now())
        hashes = decision_hashes(problem.decision, after)
        self._audit(stores, action, f"{subject}#{problem.id}", hashes)

    def _audit(self, stores: Stores, action: str, what: str, hashes: tuple[str | None, ...]) -> None:
        stores.audit.append(AuditedAction(self._now(), self._by.name, action, what, *hashes))


def decision_hashes(before: ProblemDecision, after: ProblemDecision | None) -> tuple[str, str | None]:
    """Return the hashes of a decision, before and after, for the audit log; `after` is None for a removed one."""
    removed = None if after is None else content_hash(after.model_dump(mode="json"))
    return content_hash(before.model_dump(mode="json")), removed


def put_decision(stores: Stores, problem: StreamProblem, after: ProblemDecision, now: datetime) -> None:
    """Store the decision about a problem, under the problem's id."""
    known = problem.known_since or min(now, problem.first_seen)
    stores.problems.put(
        StoredProblem(problem.stream, problem.id, after.state.value, known, now, after.model_dump_json())
    )


def _one(stores: Stores, stream: str, problem: str, query: ProblemQuery, now: datetime) -> StreamProblem:
    index = StreamIndex(stores, stream, joined_problems)
    return _Facts(stores, index, query, now).problem(index.head_of(problem))


def _is_ahead(stores: Stores, stream: str, version: str | None) -> bool:
    """Return whether a version is higher than all versions of the stream's contract."""
    highest = stores.contracts.highest_name(stream)
    return version is not None and (highest is None or precedence(version) > precedence(highest))


def _listed(stores: Stores, stream: str, query: ProblemQuery, now: datetime) -> ProblemList:
    index = StreamIndex(stores, stream, joined_problems)
    facts = _Facts(stores, index, query, now)
    heads = [
        head
        for head in set(index.heads.values())
        if facts.records(head)
        and (not query.states or facts.decision(head).state in query.states)
        and facts.matches(head, query.text)
    ]
    heads.sort(key=lambda head: (-facts.records(head), head))
    chosen = heads[query.offset : query.offset + query.limit]
    return ProblemList(tuple(facts.problem(head) for head in chosen), len(heads), facts.refused, facts.slices)


def all_problems(
    stores: Stores, index: StreamIndex, query: ProblemQuery, now: datetime
) -> tuple[StreamProblem, ...]:
    """Return every problem of a stream that has a record in the span of a query, in no particular order."""
    facts = _Facts(stores, index, query, now)
    return tuple(facts.problem(head) for head in sorted(set(index.heads.values())) if facts.records(head))


class _Facts:
    """The data behind a stream's list of problems; each part is read once."""

    def __init__(self, stores: Stores, index: StreamIndex, query: ProblemQuery, now: datetime) -> None:
        self._index = index
        self._now = now
        stream = index.stream
        self.slices = Slices.of(query.since, query.until, query.buckets, now)
        self._trends = counted(stores, stream, None, self.slices)
        has_span = query.since is not None or query.until is not None
        sums = {facet: int(trend.sum()) for facet, trend in self._trends.items()}
        self._kept = stores.quarantine.counts(stream)
        self._sums = sums if has_span else self._kept
        self._closures = closure_counts(index, index.keys)
        self.refused = self._sums.get(index.all, 0)
        starts = self.slices.starts
        self._judged = stores.reports.records_between(stream, starts[0], starts[-1]) if has_span else 0
        self._seen = first_and_last(stores, stream, index.keys)
        self._states = stores.problems.states(stream)
        self._comments = stores.problems.comment_counts(stream)
        self._surging = surging(stores, index, now)
        self._members: dict[bytes, list[bytes]] = {}
        for facet, head in index.heads.items():
            self._members.setdefault(head, []).append(facet)

    def records(self, head: bytes) -> int:
        """Return how many records a problem has in the span."""
        return sum(self._sums.get(each, 0) for each in self._members[head])

    def decision(self, head: bytes) -> ProblemDecision:
        """Return the decision about a problem: the newest one of joined problems."""
        kept = self._stored(head)
        newest = max(kept, key=lambda each: each.changed_at, default=None)
        return ProblemDecision() if newest is None else ProblemDecision.model_validate_json(newest.document)

    def matches(self, head: bytes, text: str) -> bool:
        """Return whether the description of a problem contains a text, ignoring case."""
        wanted = text.casefold()
        return not wanted or any(
            wanted in part.casefold()
            for facet in self._members[head]
            for part in described(self._index.facets[facet]).values()
        )

    def problem(self, head: bytes) -> StreamProblem:
        """Return a problem with its counts and its decision."""
        members = sorted(self._members[head])
        spans = [self._seen[each] for each in members if each in self._seen]
        records = self.records(head)
        trend: Integers = sum(
            (self._trends[each] for each in members if each in self._trends), self.slices.none()
        )
        ids = [problem_id(each) for each in members]
        decision = self.decision(head)
        known_since = min((each.known_since for each in self._stored(head)), default=None)
        # A problem of the last hour is new, and has no usual number.
        can_surge = known_since is not None and known_since < self._now - _HOUR
        return StreamProblem(
            id=problem_id(head),
            stream=self._index.stream,
            key=self._index.keys[head],
            message=described(self._index.facets[head])["message"],
            kept=sum(self._kept.get(each, 0) for each in members),
            closures=self._closed(members),
            decision=decision,
            known_since=known_since,
            comments=sum(self._comments.get(each, 0) for each in ids),
            records=records,
            share=records / self.refused if self.refused else 0.0,
            record_share=records / self._judged if self._judged else None,
            first_seen=from_minute(min(first for first, _ in spans)),
            last_seen=from_minute(max(last for _, last in spans)),
            is_surging=can_surge and head in self._surging and decision.state is not ProblemState.RESOLVED,
            trend=tuple(trend.tolist()),
            members=tuple(ids) if len(ids) > 1 else (),
        )

    def _closed(self, members: Iterable[bytes]) -> ClosureCounts:
        found: ClosureCounts = {}
        for each in members:
            for closure, count in self._closures.get(each, {}).items():
                found[closure] = found.get(closure, 0) + count
        return found

    def _stored(self, head: bytes) -> Iterable[StoredProblem]:
        ids = (problem_id(each) for each in self._members[head])
        return [self._states[each] for each in ids if each in self._states]


def surging(stores: Stores, index: StreamIndex, now: datetime) -> Collection[bytes]:
    """Return the problems that had far more records than usual in the last 60 minutes.

    Usual is the mean of an hour of the seven days before. Far more is four times that, at least 20, and more than chance
    explains (three standard deviations of a Poisson distribution).
    """
    last_hour = _last_hour(now)
    recent = counted(stores, index.stream, None, last_hour)
    if not any(counts.sum() >= _LEAST_SURGE for counts in recent.values()):
        return frozenset()
    week = _USUAL_HOURS * 60  # in whole hours, for which the counts by hour suffice
    usual = counted(stores, index.stream, None, Slices(last_hour.first // 60 * 60 - week, week, 1))
    sums = {head: np.zeros(2) for head in index.heads.values()}
    for facet, head in index.heads.items():
        for place, counts in enumerate((recent, usual)):
            if facet in counts:
                sums[head][place] += counts[facet].sum()
    return frozenset(head for head, (last, before) in sums.items() if _is_surge(last, before / _USUAL_HOURS))


def _last_hour(now: datetime) -> Slices:
    return Slices(to_minute(now) - 59, 60, 1)


def _is_surge(last: float, usual: float) -> bool:
    return bool(last >= max(_LEAST_SURGE, _SURGE_FACTOR * usual, usual + 3 * usual**0.5))


def _member_ids(index: StreamIndex, head: bytes) -> list[str]:
    return [problem_id(each) for each in index.members(head)]


def hourly_ratio(stores: Stores, stream: str, facets: Iterable[bytes], now: datetime) -> float | None:
    """Return the share of problems in the records of the last hour; None if its batches had no records."""
    judged = stores.reports.records_between(stream, now - _HOUR, now)
    counts = counted(stores, stream, list(facets), _last_hour(now))
    return sum(int(each.sum()) for each in counts.values()) / judged if judged else None
