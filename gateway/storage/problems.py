"""Storage of decisions about problems of quarantined records, and of comments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Index, Integer, Text, delete, func, insert, select
from sqlalchemy.orm import Mapped, mapped_column

from tidegate.gateway.storage.tables import Instant, Name, Store, Table, fields_of


class ProblemStateRow(Table):
    """The stored decision about one problem. `document` is JSON; `known_since` outlives the problem's records."""

    __tablename__ = "problem_states"

    stream: Mapped[str] = mapped_column(Name, primary_key=True)
    problem: Mapped[str] = mapped_column(Name, primary_key=True)
    state: Mapped[str] = mapped_column(Text)
    known_since: Mapped[datetime] = mapped_column(Instant)
    changed_at: Mapped[datetime] = mapped_column(Instant)
    document: Mapped[str] = mapped_column(Text)


class ProblemCommentRow(Table):
    """One comment about a problem."""

    __tablename__ = "problem_comments"
    __table_args__ = (Index("ix_problem_comments_problem", "stream", "problem", "key"),)

    key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    stream: Mapped[str] = mapped_column(Name)
    problem: Mapped[str] = mapped_column(Name)
    at: Mapped[datetime] = mapped_column(Instant)
    by: Mapped[str] = mapped_column(Text)
    text: Mapped[str] = mapped_column(Text)


@dataclass(frozen=True, slots=True)
class StoredProblem:
    """The stored decision about one problem."""

    stream: str
    problem: str
    state: str
    known_since: datetime
    changed_at: datetime
    document: str


@dataclass(frozen=True, slots=True)
class ProblemComment:
    """A comment on a problem."""

    problem: str
    at: datetime
    by: str
    text: str


class ProblemStore(Store):
    """Decisions about problems, as `stores.problems`. They outlive the index, which can be rebuilt."""

    def states(self, stream: str) -> dict[str, StoredProblem]:
        """Return the decisions about the problems of a stream, by problem."""
        rows = self._session.scalars(select(ProblemStateRow).where(ProblemStateRow.stream == stream))
        return {row.problem: StoredProblem(**fields_of(row, StoredProblem)) for row in rows}

    def streams(self, state: str | None = None) -> set[str]:
        """Return the streams that have a problem (in a state, if given)."""
        rows = select(ProblemStateRow.stream).distinct()
        if state is not None:
            rows = rows.where(ProblemStateRow.state == state)
        return set(self._session.scalars(rows))

    def state_counts(self) -> dict[str, dict[str, int]]:
        """Return how many problems of each stream are in each state."""
        columns = (ProblemStateRow.stream, ProblemStateRow.state)
        found: dict[str, dict[str, int]] = {}
        for row in self._session.execute(select(*columns, func.count()).group_by(*columns)):
            found.setdefault(row[0], {})[row[1]] = row[2]
        return found

    def put(self, problem: StoredProblem) -> None:
        """Store the decision about a problem, replacing the previous one."""
        self._session.merge(ProblemStateRow(**fields_of(problem, StoredProblem)))

    def remove(self, stream: str, problem: str) -> None:
        """Delete the decision about a problem, and the comments about it."""
        for table in (ProblemStateRow, ProblemCommentRow):
            self._session.execute(delete(table).where(table.stream == stream, table.problem == problem))

    def comments(self, stream: str, problems: list[str]) -> tuple[ProblemComment, ...]:
        """List the comments about some problems, oldest first."""
        query = select(ProblemCommentRow).where(
            ProblemCommentRow.stream == stream, ProblemCommentRow.problem.in_(problems)
        )
        rows = self._session.scalars(query.order_by(ProblemCommentRow.key))
        return tuple(ProblemComment(**fields_of(row, ProblemComment)) for row in rows)

    def comment_counts(self, stream: str) -> dict[str, int]:
        """Return how many comments each problem of a stream has."""
        query = select(ProblemCommentRow.problem, func.count()).where(ProblemCommentRow.stream == stream)
        return {row[0]: row[1] for row in self._session.execute(query.group_by(ProblemCommentRow.problem))}

    def add_comment(self, stream: str, comment: ProblemComment) -> None:
        """Store a comment."""
        values = {"stream": stream, **fields_of(comment, ProblemComment)}
        self._session.execute(insert(ProblemCommentRow).values(**values))
