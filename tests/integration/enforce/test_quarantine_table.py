"""The quarantine table: each refused record that counts is one row, whatever is killed, rewound, erased or deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from confluent_kafka import Message
from structlog.testing import capture_logs

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.faults import Publish, StartJob, fill, kill_after, require_nothing_twice
from tests.integration.enforce.line import Line, Sent, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.running import eventually
from tests.integration.enforce.test_archive import Archiving
from tests.integration.enforce.test_erase import PERSON, Erasing, with_a_person
from tests.integration.enforce.test_history import as_lines, records
from tests.integration.enforce.test_maintenance import data_files
from tests.integration.enforce.test_rewind import Rewinding, mended, record, with_a_bad_contract
from tests.integration.enforce.test_source_changes import PowerCutError, cut_after_quarantine
from tests.marks import full
from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.stream.evidence import headers_of, read_evidence, read_original
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer
from tidegate.spark_jobs.adopt.confirmations import Confirmations
from tidegate.spark_jobs.adopt.erase import Eraser, EraseStep, Subject
from tidegate.spark_jobs.history.request import HistoryRequest
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks import quarantine_table
from tidegate.spark_jobs.sinks.maintain import maintain_table, maintained_text
from tidegate.spark_jobs.sinks.quarantine_table import SUFFIX
from tidegate.spark_jobs.steps import AnyStep, QuarantineTableStep, Step

SINKS = ("iceberg", "delta", "postgresql")
ON: dict[str, Any] = {"quarantine_table": True}


def beside(line: Line) -> Line:
    """The line whose table is the quarantine table."""
    return replace(line, contract_id=line.contract_id + SUFFIX)


def source_of(found: dict[str, Any]) -> tuple[int, int]:
    source = found.get("_source")
    if source is None:
        return found["_source_partition"], found["_source_offset"]
    return source["partition"], source["offset"]


def kept(line: Line) -> list[dict[str, Any]]:
    """The rows, with the names that Spark's tables have, and bytes as such."""
    rows = beside(line).rows()
    for each in rows:
        each["source"] = source_of(each)
        for name in ("key", "value"):
            each[name] = None if each[name] is None else bytes(each[name])
    return rows


def counting(line: Line) -> dict[tuple[int, int], tuple[Any, ...]]:
    """What a row has of each refusal in the topic that counts, by source position: read without the job."""
    ledger, kafka, topic = line.ledger(), line.settings.kafka, quarantine_topic(line.topic)
    found = {}
    for message in read_committed(kafka, topic, {}, Topics(kafka).latest(topic)):
        evidence = read_evidence(headers_of(message))
        assert evidence is not None
        source = evidence.source
        if source.offset >= ledger.end.get(source.partition, 0):  # it has no history before its first batch
            continue
        if ledger.counts(source.partition, source.offset, evidence.generation):
            codes = [each.code for each in evidence.violations]
            at = message.partition(), message.offset()
            found[source.partition, source.offset] = (
                message.key(), message.value(), codes, evidence.generation, evidence.contract, at,
            )  # fmt: skip
    return found


def require_kept(line: Line) -> int:
    """Require that the table has exactly the refusals that count, each once; return their number."""
    rows = kept(line)
    found = {
        each["source"]: (
            each["key"],
            each["value"],
            [reason["code"] for reason in each["reasons"]],
            each["generation"],
            each["_contract"],
            (each["quarantine_partition"], each["quarantine_offset"]),
        )
        for each in rows
    }
    assert len(found) == len(rows)
    assert found == counting(line)
    answer = line.reconcile()
    assert (
        answer.answer is not ReconciliationAnswer.LOST
    )  # where the topic has deleted records, nothing can be proven
    assert (len(answer.not_kept), len(answer.kept_twice)) == (0, 0)
    return len(rows)


@pytest.mark.full
@pytest.mark.parametrize("failure", [Unavailable, OSError])
def test_a_batch_is_reported_although_the_quarantine_table_could_not_follow_it(
    make_line: Callable[..., Line], monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    line = make_line(**ON)
    line.produce(row(0, 999), row(1))

    reads = []

    def be_busy(*_: object) -> None:
        reads.append(1)
        if len(reads) > 1:  # the first one is that of the start
            raise failure("other commits kept moving the table")

    with monkeypatch.context() as patched:
        patched.setattr(quarantine_table.QuarantineTable, "_read_on", be_busy)
        with pytest.raises(Unavailable, match="kept moving"):
            line.enforce()
    line.produce(row(2, 999), row(3))
    line.enforce()
    assert [(report.written, report.quarantined) for report in line.reports] == [(1, 1), (1, 1)]
    assert require_kept(line) == 2


def cut(step: AnyStep, times: int = 1) -> Callable[[str, AnyStep], None]:
    left = [times]

    def observe(_stream: str, passed: AnyStep) -> None:
        left[0] -= passed is step
        if passed is step and left[0] == 0:
            raise PowerCutError

    return observe


@pytest.mark.parametrize("sink", ["iceberg", *full("delta", "postgresql")])
def test_refused_records_are_rows_beside_the_accepted_ones(make_line: Callable[..., Line], sink: str) -> None:
    """Bytes, headers and times are the record's own. The rows of earlier refusals are made when the table is asked for."""
    line = make_line(sink=sink)
    odd = Sent(
        b'\xff{"id"', None, 1, (("trace", b"\x00\xfe"), ("none", None), ("trace", b"")), 1_500_000_000_000
    )
    line.produce(odd, row(1, 999), row(2))
    line.enforce()
    line.produce(Sent(None, b"t"), row(3), row(4, 999, more=1))
    line.enforce(**ON)
    assert require_kept(line) == 4
    first = next(each for each in kept(line) if each["value"] == odd.value)
    (topic,) = [each for each in line.quarantined() if each.value == odd.value]
    headers = first["headers"] if sink != "postgresql" else [
        {"key": each["key"], "value": each["value"]} for each in first["headers"]
    ]  # fmt: skip
    assert [each["key"] for each in headers] == ["trace", "none", "trace"]
    assert headers[0]["value"] == ("AP4=" if sink == "postgresql" else b"\x00\xfe")
    assert headers[1]["value"] is None
    assert (first["is_omitted"], first["reasons_left_out"]) == (False, 0)
    judged_at = read_original(topic.headers).judged_at
    assert judged_at is not None
    assert int(first["judged_at"].timestamp() * 1_000_000) == judged_at // 1000
    assert first["quarantined_at"] >= first["judged_at"]
    two = next(each for each in kept(line) if each["key"] == b"4")
    assert {each["code"] for each in two["reasons"]} == {"amount-is-known", "additionalProperties"}
    assert {each["stage"] for each in two["reasons"]} == {"rule", "schema"}


@pytest.mark.full
def test_the_maintenance_of_the_table_is_in_the_reports_of_the_stream(make_line: Callable[..., Line]) -> None:
    """No record is accepted, so this is the only table with files to merge."""
    line = make_line(**ON)
    line.produce(*(row(n, 999) for n in range(40)))
    commits = 0

    def wait(_stream: str, step: AnyStep) -> None:
        nonlocal commits
        commits += step is Step.COMMITTED
        if step is Step.COMMITTED and commits == 8:
            eventually(lambda: data_files(beside(line)) < 4)

    line.enforce(wait, max_offsets=2, compaction_min_files=4, maintenance_seconds=0.1)
    told = [each.maintenance for each in line.reports if each.maintenance is not None]
    assert max(each.files_compacted for each in told) >= 4
    assert told[-1].failures == 0
    assert line.rows() == []
    assert require_kept(line) == 40


@pytest.mark.parametrize("sink", [*full("iceberg", "delta"), "postgresql"])
def test_an_attempt_that_ends_after_a_step_loses_and_doubles_no_row(
    make_line: Callable[..., Line], sink: str
) -> None:
    """Each step, also of a start that reads on and deletes rows whose records have left the topic."""
    line = make_line(sink=sink)

    def more(first: int) -> None:
        line.produce(*(row(n, 999 if n % 2 else 1) for n in range(first, first + 4)))

    more(0)
    line.enforce(**ON)
    topics, topic = Topics(line.settings.kafka), quarantine_topic(line.topic)
    topics.delete_before(topic, {1: topics.earliest(topic)[1] + 1})  # the first refused record
    steps = (*QuarantineTableStep, Step.PUBLISH, Step.QUARANTINE)
    for number, step in enumerate(steps, start=1):
        more(4 * number)
        with pytest.raises(PowerCutError):
            line.enforce(cut(step), **ON)
        found = [each["source"] for each in kept(line)]
        assert len(found) == len(set(found))
    line.enforce(**ON)
    records = 4 * (1 + len(steps))
    assert (len(line.rows()), require_kept(line)) == (records // 2, records // 2 - 1)


@pytest.mark.full
@pytest.mark.parametrize("sink", ["iceberg", "delta", "postgresql"])
@pytest.mark.parametrize(
    "step", [QuarantineTableStep.WRITE, QuarantineTableStep.STAGE, QuarantineTableStep.PUBLISH, Step.PUBLISH]
)
def test_killed_after_a_step(
    make_line: Callable[..., Line], sink: str, step: AnyStep, job: StartJob, publish: Publish
) -> None:
    line = make_line(sink=sink)
    fill(line, publish)
    kill_after(job, line, step, 2, TIDEGATE_QUARANTINE_TABLE="true")  # type: ignore[arg-type] # it knows every step
    require_nothing_twice(line)
    line.enforce(**ON)
    require_exactly_once(line)
    assert require_kept(line) == 8


@pytest.mark.full
@pytest.mark.parametrize("sink", SINKS)
def test_a_rewind_takes_its_refusals_back(
    make_line: Callable[..., Line], publish: Publish, registry: Registry, sink: str
) -> None:
    """The rows go with the rewind, not with the next start; the records that are judged again have its generation."""
    line = make_line(sink=sink, **ON)
    publish(line.document())
    with_a_bad_contract(line)
    require_kept(line)
    ledger = Rewinding(registry).to(line, "0:4,1:4")
    assert {each["source"] for each in kept(line)} == set(counting(line))
    assert all(offset < 4 for _, offset in counting(line))
    mended(line)
    line.enforce()
    assert ledger.generation == 1
    assert require_kept(line) == 7
    assert {each["generation"] for each in kept(line)} == {0, 1}
    line.produce(*map(record, range(28, 32)))
    line.enforce()
    assert require_kept(line) == 8


@pytest.mark.full
@pytest.mark.parametrize("sink", SINKS)
def test_an_erasure_takes_the_rows_of_the_person(
    make_line: Callable[..., Line], publish: Publish, registry: Registry, sink: str
) -> None:
    """Also when it is cut off before the topic is cut, and the job runs before it is finished."""
    line = make_line(sink=sink, **ON)
    publish(line.document())
    with_a_person(line)
    assert require_kept(line) == 7
    erasing = Erasing(registry)

    def cut_off(step: EraseStep) -> None:
        if step is EraseStep.COPY:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        erasing.erase(line, Subject(PERSON, "id"), cut_off)
    line.enforce()
    assert len({each["source"] for each in kept(line)}) == len(kept(line)) == 7
    erasing.erase(line, Subject(PERSON, "id"))
    assert require_kept(line) == 4
    assert not [each for each in kept(line) if b'"p-4711"' in (each["value"] or b"")]
    line.produce(row(10, 999))
    line.enforce()
    assert require_kept(line) == 5


@pytest.mark.full
@pytest.mark.parametrize("sink", SINKS)
def test_an_erasure_that_ended_before_the_table_followed_is_finished_by_running_it_again(
    make_line: Callable[..., Line], publish: Publish, registry: Registry, sink: str
) -> None:
    """Nothing is left in table and topic then, and the command does not end with that."""
    line = make_line(sink=sink, **ON)
    publish(line.document())
    with_a_person(line)

    def cut_off(step: EraseStep) -> None:
        if step is EraseStep.DELETE:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        Erasing(registry).erase(line, Subject(PERSON, "id"), cut_off)
    assert len(kept(line)) == 7
    settings = line.settings.model_copy(update={"registry_url": registry.url})
    confirm = Confirmations(is_sure=True).confirm_erase
    with Eraser.opened(settings, line.contract_id) as found:
        found.erase(Subject(PERSON, "id"), confirm)
        assert require_kept(line) == 4
        with pytest.raises(typer.Exit):
            found.erase(Subject(PERSON, "id"), confirm)


@pytest.mark.full
@pytest.mark.parametrize("sink", SINKS)
def test_rows_leave_with_their_records_and_the_table_begins_again_with_the_stream(
    make_line: Callable[..., Line],
    publish: Publish,
    registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
    sink: str,
) -> None:
    """In commits of two records each: retention, `maintain`, `archive`, a dropped table, faults that `reconcile` finds."""
    monkeypatch.setattr(quarantine_table, "CHUNK_RECORDS", 2)
    line = make_line(sink=sink, write_mode="upsert")
    line.contracts.plan = line.plan(primary_key=["id"])
    publish(line.document(primary_key=["id"]))
    line.produce(*(row(n, 999) for n in range(9)))
    line.enforce()
    with pytest.raises(PowerCutError):
        line.enforce(cut(QuarantineTableStep.PUBLISH, 2), **ON)
    line.enforce(**ON)
    assert require_kept(line) == 9
    topics, topic = Topics(line.settings.kafka), quarantine_topic(line.topic)
    topics.delete_before(topic, {0: 2, 1: 1})
    line.enforce(**ON)
    assert require_kept(line) == 6
    text = maintained_text(maintain_table(line.settings, line.contract_id))
    assert text.count(": maintained in ") == 2
    archive = f"{line.contract_id.rpartition('.')[2]}_put_away"
    Archiving(registry).archive(line, archive)
    line.enforce(**ON)
    assert require_kept(line) == 9  # the source is judged again, for the new ledger
    old = replace(line, contract_id=f"test.{archive}{SUFFIX}")
    assert len(old.rows()) == 6


@pytest.mark.full
@pytest.mark.parametrize("sink", SINKS)
def test_reconcile_names_rows_that_are_missing_or_there_twice(
    make_line: Callable[..., Line], sink: str
) -> None:
    line = make_line(sink=sink, **ON)
    line.produce(row(0, 999), row(1, 999), row(2, 999))
    line.enforce()
    names = {
        "iceberg": f"lake.test.`{beside(line).contract_id.partition('.')[2]}`",
        "delta": f"delta.`{line.delta().name}{SUFFIX}`",
    }
    offset = "_source_offset" if sink == "postgresql" else "_source.offset"
    table = f'test."{beside(line).contract_id.partition(".")[2]}"' if sink == "postgresql" else names[sink]
    statements = (
        f"INSERT INTO {table} SELECT * FROM {table} WHERE {offset} = 1",  # noqa: S608 - our own names
        f"DELETE FROM {table} WHERE {offset} = 0",  # noqa: S608 - the same
    )
    for each in statements:
        if sink == "postgresql":
            with line.database() as connection:
                connection.execute(each)  # type: ignore[arg-type] # a text of the test
        else:
            line.spark.sql(each).collect()
    found = line.reconcile()
    assert (sorted(found.not_kept), sorted(found.kept_twice)) == ([(0, 0), (1, 0)], [(0, 1)])
    assert not found.holds
    assert not found.lost


@pytest.mark.full
def test_a_table_of_another_stream_is_left_alone(make_line: Callable[..., Line]) -> None:
    """Whichever of the two comes first, the other one stops, and says what the table is."""
    line = make_line(sink="postgresql")
    other = replace(beside(line))
    other.produce(row(1))
    other.enforce()
    with pytest.raises(StreamStopped, match=f"belongs to the stream {other.contract_id}"):
        line.enforce(**ON)
    assert [each["id"] for each in other.rows()] == ["r1"]


@pytest.mark.full
def test_a_batch_that_was_never_published_is_not_in_the_table(make_line: Callable[..., Line]) -> None:
    """Its refused records stay in the topic, and become rows after an attempt has published them."""
    line = make_line(sink="postgresql", **ON)
    line.produce(row(1, 999), row(2))
    line.enforce()
    line.produce(row(3, 999))
    with pytest.raises(PowerCutError):
        line.enforce(cut_after_quarantine)
    with pytest.raises(PowerCutError):
        line.enforce(cut(Step.SCAN))
    assert len(kept(line)) == 1
    line.enforce()
    assert require_kept(line) == 2


@pytest.mark.full
@pytest.mark.parametrize("sink", full("postgresql", "iceberg"))
def test_an_unfinished_history_keeps_no_refusal_of_the_topic_out_of_the_table(
    make_line: Callable[..., Line], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sink: str
) -> None:
    """A batch reads what is new, however long the history waits, and its own refusals if an attempt wrote them before."""
    line = make_line(sink=sink, **ON)
    reads: list[int] = []

    def counted(*arguments: Any) -> Iterator[Message]:
        for message in read_committed(*arguments):
            reads.append(message.offset() or 0)
            yield message

    monkeypatch.setattr(quarantine_table, "read_committed", counted)
    request = HistoryRequest((str(as_lines(tmp_path / "a.jsonl", records(0, 20))),))
    with pytest.raises(PowerCutError):
        line.enforce(cut_after_quarantine, history=request)
    line.produce(*(row(n, 999) for n in range(24)))
    with pytest.raises(PowerCutError):
        line.enforce(cut_after_quarantine, max_offsets=4)
    after: list[int] = []

    def note(_stream: str, step: AnyStep) -> None:
        if step is Step.COMMITTED:
            after.append(len(reads))

    with capture_logs() as logs:
        line.enforce(note, max_offsets=2)
    assert require_kept(line) == 24
    assert max(after[n + 1] - after[n] for n in range(len(after) - 1)) <= 4
    (waiting,) = [each for each in logs if each["event"] == "quarantine_table_waiting"]
    assert waiting["records"] == 20
    line.enforce(history=request, max_offsets=5)
    assert require_kept(line) == 28
    reads.clear()
    with capture_logs() as logs:
        line.enforce()
    assert (reads, [each for each in logs if each["event"] == "quarantine_table_waiting"]) == ([], [])


@pytest.mark.full
def test_a_deletion_that_outlives_its_attempt_does_not_end_the_next_one(
    make_line: Callable[..., Line],
) -> None:
    """The deletion of the maintenance waits for rows that a reader has locked, and the next attempt starts meanwhile."""
    line = make_line(sink="postgresql", **ON)
    topics, topic = Topics(line.settings.kafka), quarantine_topic(line.topic)
    name = beside(line).contract_id.partition(".")[2]
    reader = line.database()

    def waiting() -> int:
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        with line.database() as connection:
            (found,) = connection.execute(query, (f"DELETE %{name}%",)).fetchone() or (0,)
        return found

    def lock(_stream: str, step: AnyStep) -> None:
        if step is Step.COMMITTED:
            query = f'SELECT 1 FROM test."{name}" FOR UPDATE'  # noqa: S608 - our own name
            reader.execute(query)  # type: ignore[arg-type] # a text of the test
            topics.delete_before(topic, {0: 1, 1: 1})
            eventually(lambda: waiting() == 1)

    def release() -> None:
        try:
            eventually(lambda: waiting() == 2)
        finally:
            reader.close()

    line.produce(*(row(n, 999) for n in range(4)))
    line.enforce(lock, maintenance_seconds=0.1)
    line.produce(row(4, 999))
    with ThreadPoolExecutor(1) as pool:
        released = pool.submit(release)
        line.enforce()
        released.result()
    assert require_kept(line) == 3


@pytest.mark.full
def test_a_table_that_somebody_has_changed_is_filled_again(make_line: Callable[..., Line]) -> None:
    """The stream stops, names the way out, and goes on after it."""
    line = make_line(sink="postgresql", **ON)
    line.produce(row(1, 999), row(2))
    line.enforce()
    table = f'test."{beside(line).contract_id.partition(".")[2]}"'
    line.produce(row(3, 999))
    with line.database() as connection:
        connection.execute(f"ALTER TABLE {table} ALTER generation TYPE text")  # type: ignore[arg-type] # a text of the test
    with pytest.raises(StreamStopped, match="This is the table of refused records: it can be dropped"):
        line.enforce()
    with line.database() as connection:
        connection.execute(f"DROP TABLE {table}")  # type: ignore[arg-type] # the same
    line.enforce()
    assert require_kept(line) == 2
