"""Preview of a replay by ledger and table: records are read, fixed and judged as in the job, but not written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidegate.contracts.errors import NotFoundError
from tidegate.contracts.fix.model import Fix
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import ReplayAction, ReplayTerms, Untouched
from tidegate.contracts.stream.replay_preview import JudgedAgain, ReplayPreview, fix_for, primary_keys
from tidegate.contracts.words import counted
from tidegate.spark_jobs.job.replay_chunk import messages_at, read_chunk
from tidegate.spark_jobs.kafka.marks import read_marks
from tidegate.spark_jobs.kafka.replayed import require_closed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks.kind import kind_of
from tidegate.spark_jobs.sinks.recovery_scan import require_own
from tidegate.spark_jobs.sinks.store import RECORDS_OF_KEY, LedgerStore

if TYPE_CHECKING:
    from tidegate.spark_jobs.settings import JobSettings

_AT_A_TIME: Final = 20_000
"""Maximum records that are read per chunk; fewer if they are long."""
_KEYS_AT_A_TIME: Final = 200_000
"""Keys per look-up. Each look-up may read the whole table, so it is for many keys."""
_KEY_BYTES: Final = 32 * 1024 * 1024


class ReplayPreviewer:
    """Previewer of the replays of one stream, by the present ledger and table."""

    def __init__(self, settings: JobSettings, plan: EnforcementPlan, topics: Topics, topic: str) -> None:
        self._kafka = settings.kafka
        self._plan = plan
        self._topics = topics
        self._topic = topic
        kind = kind_of(settings)
        self._sink = kind.adoptable(settings, plan)
        self._store = None if kind.open_store is None else kind.open_store(settings, plan.contract.id)

    def preview(self, positions: Positions, fix: Fix | None, terms: ReplayTerms) -> ReplayPreview:
        """Return the preview of a replay; a discard judges no record.

        Raises NotFoundError for a stream without a ledger, ConflictError.
        """
        held = self.ledger()
        compiled = None if fix is None else fix_for(fix, self._plan)
        closed, since = require_closed(self._kafka, held), read_marks(self._kafka, held).since
        plan, present = self._plan, None
        if terms.writes_rows and self._store is not None:
            plan = plan.for_table(self._store.limits(plan))
            present = PresentKeys(self._store, plan) if plan.contract.primary_key else None
        preview, done = ReplayPreview(), 0
        has_topic = self._topics.identity(self._topic) is not None
        while wanted := positions.chunk(done, _AT_A_TIME):
            messages = messages_at(self._kafka, self._topics, self._topic, wanted) if has_topic else iter(())
            chunk = read_chunk(terms, held, closed, since, wanted, messages)
            if terms.writes_rows:
                self._sink.require_replayable(has_keys=chunk.has_keys, append_late=terms.append_late)
            preview.untouched.update(chunk.untouched)
            done += chunk.taken
            if terms.action is ReplayAction.DISCARD:
                preview.passing += len(chunk.records)
                continue
            passing = preview.add(chunk.records.values(), plan, compiled)
            if present is not None:
                present.add(passing)
        preview.present = None if present is None else present.total()
        return preview

    def ledger(self) -> Ledger:
        """Return the present ledger. Raises NotFoundError for a stream without one, StreamStopped for another stream's."""
        held, stream = self._sink.ledger_if_there(), self._plan.contract.id
        if held is None:
            raise NotFoundError(f"{self._sink.name} has no ledger of {stream}: no record of it was refused")
        require_own(held, stream, self._sink.name)
        return held


class PresentKeys:
    """Counter of passing records whose primary key is already in the table. It holds a bounded number of keys."""

    def __init__(self, store: LedgerStore, plan: EnforcementPlan) -> None:
        self._store = store
        self._plan = plan
        self._waiting: list[pa.Table] = []
        self._found = 0

    def add(self, passing: list[JudgedAgain]) -> None:
        """Add passing records; look up their keys when enough are collected."""
        if passing:
            self._waiting.append(primary_keys(passing, self._plan))
        rows, size = (sum(of(each) for each in self._waiting) for of in (len, lambda each: each.nbytes))
        if rows >= _KEYS_AT_A_TIME or size >= _KEY_BYTES:
            self._count()

    def total(self) -> int:
        """Return the number of added records whose key is in the table."""
        self._count()
        return self._found

    def _count(self) -> None:
        if not self._waiting:
            return
        keys, self._waiting = pa.concat_tables(self._waiting), []
        names = keys.column_names
        grouped = keys.drop_null().group_by(names).aggregate([([], "count_all")])
        if grouped.num_rows:
            counted = grouped.select([*names, "count_all"]).rename_columns([*names, RECORDS_OF_KEY])
            self._found += self._store.records_present(counted)


def preview_text(preview: ReplayPreview, records: int, action: ReplayAction = ReplayAction.REPLAY) -> str:
    """Return the preview of a replay as lines of text."""
    lines = [f"{preview.passing:,} of {counted(records, 'record')} would be {_OUTCOMES[action]}"]
    if preview.changed:
        lines[0] += f"; the fix changes {preview.changed:,}"
    if preview.present is not None:
        has = "has" if preview.present == 1 else "have"
        lines.append(f"{preview.present:,} {has} a primary key that is in the table already")
    if preview.failing:
        lines.append(f"{preview.failing:,} would stay refused:")
        lines += [
            f"  {count:,} with {code} ({stage.value})"
            for (stage, code, _), count in sorted(preview.reasons.items(), key=lambda each: -each[1])
        ]
    lines += [f"{count:,} would be left: {_LEFT[why]}" for why, count in preview.untouched.items()]
    return "\n".join(lines)


_OUTCOMES: Final = {
    ReplayAction.REPLAY: "written",
    ReplayAction.DISCARD: "discarded",
    ReplayAction.TO_SOURCE: "sent to the source topic",
}
_LEFT: Final[dict[Untouched, str]] = {
    Untouched.MISSING: "they are no longer in the quarantine topic",
    Untouched.FOREIGN: "they were refused by another ledger",
    Untouched.OVERRULED: "they were judged again after a rewind",
    Untouched.AHEAD: "their batch was not published yet",
    Untouched.REPLAYED: "they were replayed before",
    Untouched.DISCARDED: "they were discarded",
    Untouched.RESENT: "they were sent to the source topic before",
    Untouched.SENT_BACK: "they were sent to the source topic before, and refused again",
    Untouched.UNORDERED: "whether their key was deleted since is not known",
    Untouched.OMITTED: "they were set aside without their bytes",
    Untouched.BATCH: "they are valid, and their batch was refused; --accept-batches writes them",
}
