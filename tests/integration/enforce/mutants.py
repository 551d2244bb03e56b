"""The code without one part of the protocol: a line of its source is replaced, and all the rest is as it is."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import pytest

from tests.integration.enforce.schedule import STORES, Order
from tests.model import one_transaction
from tests.model.parts import Part
from tidegate.contracts.stream.ledger import Ledger
from tidegate.spark_jobs.job import record_source, stream
from tidegate.spark_jobs.kafka import kafka_ledger, outputs
from tidegate.spark_jobs.sinks import recovery_scan, staged
from tidegate.spark_jobs.sinks.kafka import sink as kafka_sink
from tidegate.spark_jobs.sinks.staged import StagedSink
from tidegate.spark_jobs.steps import Step

Apply = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Source:
    """A function whose source is changed: each text of `changes` is there once, and becomes the other."""

    owner: Any
    name: str
    changes: tuple[tuple[str, str], ...]

    def __call__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        function = getattr(self.owner, self.name)
        source = textwrap.dedent(inspect.getsource(function))
        for old, new in self.changes:
            assert source.count(old) == 1, f"{self.name} has changed: {old}"
            source = source.replace(old, new)
        made: dict[str, Any] = {}
        code = compile(f"from __future__ import annotations\n{source}", f"<mutant of {self.name}>", "exec")
        exec(code, inspect.unwrap(function).__globals__, made)  # noqa: S102 - our own source, with a line changed
        monkeypatch.setattr(self.owner, self.name, made[self.name])


def all_of(*changes: Apply) -> Apply:
    """Return what makes several changes."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        for change in changes:
            change(monkeypatch)

    return apply


def ids_of_their_own(module: Any) -> Apply:
    """Give each producer a transactional.id that no other has: to fence it has no effect on others."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        numbers, real = count(), module.transactional_id
        monkeypatch.setattr(
            module, "transactional_id", lambda ledger, slot: f"{real(ledger, slot)}/{next(numbers)}"
        )

    return apply


def comparing_only(field: str) -> Apply:
    """Compare one field of the ledger at a publication, and not the whole of it."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        for store in STORES:
            monkeypatch.setattr(store, "publish", _lenient(store.publish, field))

    return apply


def _lenient(publish: Callable[..., Ledger | None], field: str) -> Callable[..., Ledger | None]:
    def lenient(table: Any, mark: str, held: Ledger | None, new: Ledger, **options: Any) -> Ledger | None:
        found = table.read()
        if held is not None and found is not None and getattr(found, field) == getattr(held, field):
            held = found
        return publish(table, mark, held, new, **options)

    return lenient


def reading_what_was_aborted(module: Any) -> Apply:
    """Let one module read records of aborted transactions, and no other."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        reset = '"auto.offset.reset": "earliest"'
        with pytest.MonkeyPatch.context() as meanwhile:
            change = (reset, f'"isolation.level": "read_uncommitted", {reset}')
            Source(outputs, "read_committed", (change,))(meanwhile)
            mutated = outputs.read_committed
        monkeypatch.setattr(module, "read_committed", mutated)

    return apply


_CLAIMED = """claimed = start.claimable(before).claim(slots, uuid4().hex[:8])
    self._take(held, claimed)"""
_UNCLAIMED = """if held is not None:
        return held, held
    claimed = before.claim(slots)
    self._take(held, claimed)"""
_WATERMARK = "end = self._topics.latest(self._quarantine.name)"
_COMMIT = "published = self._table.publish(mark, held, new)"
_DATA = "self._table.publish(mark, held, held)"
_LEDGER = "self._table.publish(self._table.stage([], new), held, new)"
_EVIDENCE = "evidence = self._write_refused(judged.results.refused, batch)"
_PUBLISHED = "published = CommittedBatch(self._commit(parts, mark, batch, changes), evidence)"
_SHOWN = """self._table.publish(self._table.stage(results.parts()), self._held, self._held)
    return JudgedBatch(batch, results, TableParts(self._table, []))"""
_INDENT = "\n" + 12 * " "

_JUDGE_SETTLED = Source(
    StagedSink, "judge", (("settled = self._settled.within(batch.start, batch.end)", "settled = {}"),)
)
_COUNT_NO_SETTLED = Source(
    stream.StreamAttempt,
    "_judge",
    (("results.first_failed, settled, context)", "results.first_failed, {}, context)"),),
)

STAGED_MUTANTS: dict[Part, Apply] = {
    Part.CLAIM: all_of(
        Source(StagedSink, "_claim", ((_CLAIMED, _UNCLAIMED),)),
        # Two jobs have a Spark session each: here their queries must not have one name.
        Source(
            record_source.ContractTopic,
            "start",
            (("{settings.sink} epoch {ledger.epoch}", "{settings.sink} {id(self)}"),),
        ),
    ),
    Part.CLAIM_COMPARES: Source(
        staged, "move_ledger", (("table.publish(table.stage([], new), held,", "table.publish(table.stage([], new), table.read(),"),)
    ),
    Part.FENCE: ids_of_their_own(staged),
    Part.FENCE_OLD_SLOTS: Source(
        StagedSink, "start", (("range(claimed.slots)", "range(self._settings.quarantine_slots)"),)
    ),
    Part.VERIFY: Source(StagedSink, "start", (("if self._table.read() != claimed:", "if False:"),)),
    Part.WATERMARK_AFTER_FENCE: Source(
        StagedSink,
        "start",
        (
            (_WATERMARK, "pass"),
            ("self._ledger = claimed", f"self._ledger = claimed; {_WATERMARK}"),
        ),
    ),
    Part.SCAN: Source(
        StagedSink,
        "start",
        (("settled_in(self._settings.kafka, self._quarantine.name, before, end, quarantined)", "{}"),),
    ),
    Part.SCAN_COMMITTED: reading_what_was_aborted(recovery_scan),
    Part.START_AT_LEDGER: all_of(
        Source(
            record_source.ContractTopic,
            "resume",
            (
                (
                    "resume(ledger, self._topic, {**dict.fromkeys(latest, 0), **self._earliest}, latest)",
                    "ledger.begin",
                ),
            ),
        ),
        Source(
            stream.StreamAttempt,
            "_read",
            (("self._judged_end = self._ledger.end", "self._judged_end = self._ledger.begin"),),
        ),
    ),
    Part.LEAVE_SETTLED_OUT_OF_QUARANTINE: all_of(_JUDGE_SETTLED, _COUNT_NO_SETTLED),
    Part.LEAVE_SETTLED_OUT_OF_TABLE: all_of(_JUDGE_SETTLED, _COUNT_NO_SETTLED),
    Part.COUNT_SETTLED: _COUNT_NO_SETTLED,
    Part.TRANSACTIONS: all_of(
        Source(
            outputs.TransactionalProducer,
            "__init__",
            (
                ('"transactional.id": transactional_id,', ""),
                ('"transaction.timeout.ms": timeout_seconds * 1000,', ""),
            ),
        ),
        Source(outputs.TransactionalProducer, "fence", (("_with_callbacks(self._producer.init_transactions, _INIT_SECONDS)", "pass"),)),
        Source(
            outputs.TransactionalProducer,
            "transaction",
            (
                ("self._producer.begin_transaction()", "pass"),
                ("_with_callbacks(self._producer.commit_transaction, _COMMIT_SECONDS)", "pass"),
            ),
        ),
    ),
    Part.QUARANTINE_BEFORE_PUBLISH: Source(
        StagedSink,
        "publish",
        (
            (_EVIDENCE, "evidence = Counter()"),
            (_PUBLISHED, "ledger = self._commit(parts, mark, batch, changes)\n    published = CommittedBatch(ledger, self._write_refused(judged.results.refused, batch))"),
        ),
    ),
    Part.ALL_SLOTS: Source(
        StagedSink,
        "_write_refused",
        (("sorted({partition % slots for partition in refused.partitions()})", "sorted({partition % slots for partition in refused.partitions()})[:1]"),),
    ),
    Part.SCAN_FROM_SETTLED: Source(
        StagedSink,
        "publish",
        (("self._settled.after(batch.end).scan_from({self._quarantine.name: end})", "{self._quarantine.name: end}"),),
    ),
    Part.STAGE: Source(
        StagedSink,
        "judge",
        (
            (
                "return JudgedBatch(batch, results, TableParts(self._table, results.parts()))",
                _SHOWN,
            ),
        ),
    ),
    Part.PUBLISH_COMPARES_EPOCH: comparing_only("n"),
    Part.PUBLISH_COMPARES_N: comparing_only("epoch"),
    Part.ONE_COMMIT_DATA_FIRST: Source(
        StagedSink, "_commit", ((_COMMIT, f"{_DATA}{_INDENT}published = {_LEDGER}"),)
    ),
    Part.ONE_COMMIT_LEDGER_FIRST: Source(
        StagedSink,
        "_commit",
        ((_COMMIT, f"published = {_LEDGER}{_INDENT}self._table.publish(mark, new, new)"),),
    ),
}  # fmt: skip
"""What takes out each part of the protocol of the sinks with a table, where the code has a line for it."""

WITHOUT_MUTANT: dict[Part, str] = {
    Part.CLAIM_IS_MARKED: "matters only to a claim whose outcome is unknown: the store must lose its answer",
    Part.ONE_CONTRACT: "the workers hand refused records over: no line of the code could choose them again",
}
"""Parts that no change of a line takes out, and why."""

STANDS_WITHOUT: dict[Part, str] = {
    Part.PUBLISH_COMPARES_N: "a commit uses up what was staged: the same request lands once, whatever is compared",
}
"""Parts without which the schedule does no harm, because another line holds as well."""

STOPPED: Final = {
    "iceberg": "is of epoch 2, batch 1, but the ledger is at epoch 2, batch 0",
    "postgresql": "has rows of batches after batch 0, the last of its ledger",
}
"""How the next instance stops, by sink, without `Part.ONE_COMMIT_DATA_FIRST`. Iceberg names the newest snapshot of the stream."""

_READ = "self._ledger = read_ledger(kafka, self._ledger_name)"
_OF_SLOT_0 = "with start.watch(Step.FENCE):  # slot 0: from here on, no other instance can change the ledger"
_IN_TRANSACTION = "self._producer.write(records)"
_LEDGER_RECORD = "self._producer.write([ledger_record(new)])"
_NO_LEDGER = ("[ledger_record(new)],", "")

KAFKA_MUTANTS: dict[one_transaction.Part, Apply] = {
    one_transaction.Part.FENCE: ids_of_their_own(kafka_sink),
    one_transaction.Part.READ_AFTER_FENCE: Source(
        kafka_sink.KafkaSink,
        "start",
        (
            (
                _OF_SLOT_0,
                f"with start.watch(Step.VERIFY):\n        {_READ}\n    with start.watch(Step.FENCE):",
            ),
            (f"with start.watch(Step.VERIFY):\n        {_READ}\n        if", "if True:\n        if"),
        ),
    ),
    one_transaction.Part.READ_COMMITTED: reading_what_was_aborted(kafka_ledger),
    one_transaction.Part.LEDGER_IN_TRANSACTION: Source(
        kafka_sink.KafkaSink,
        "publish",
        (_NO_LEDGER, (_IN_TRANSACTION, f"{_IN_TRANSACTION}; {_LEDGER_RECORD}")),
    ),
    one_transaction.Part.LEDGER_NOT_FIRST: Source(
        kafka_sink.KafkaSink,
        "publish",
        (_NO_LEDGER, (_IN_TRANSACTION, f"{_LEDGER_RECORD}; {_IN_TRANSACTION}")),
    ),
}
"""The same of the Kafka sink."""

READ_FIRST = Order(
    (Step.VERIFY, Step.FENCE, Step.CLAIM), (Step.JUDGE, Step.PUBLISH), (Step.CLAIM, Step.PUBLISH)
)
"""The order of the Kafka sink that reads its ledger before the fence."""
