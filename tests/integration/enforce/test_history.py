"""`enforce --from-files` and `--from-table`: a history is judged exactly once, as one more partition of the ledger."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import col

from tests.integration.enforce.adopting import Adopting
from tests.integration.enforce.faults import Publish, StartJob, fill, kill_after
from tests.integration.enforce.job import RunningJob
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.losing import lose_ledger
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.replaying import MENDED
from tests.integration.enforce.replaying import request as request_replay
from tests.integration.enforce.test_archive import Archiving
from tests.integration.enforce.test_erase import Erasing
from tests.integration.enforce.test_faults import SINKS
from tests.integration.enforce.test_rewind import Rewinding
from tests.integration.enforce.test_source_changes import PowerCutError
from tests.marks import full
from tidegate.contracts.errors import ConflictError, SettingsError, StreamStopped
from tidegate.contracts.stream.evidence import ORIGIN_HEADER, read_evidence
from tidegate.contracts.stream.history import HISTORY_PARTITION
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer
from tidegate.spark_jobs.adopt.erase import Subject
from tidegate.spark_jobs.history.folder import HistoryFolder
from tidegate.spark_jobs.history.request import HistoryRequest
from tidegate.spark_jobs.job.record_source import BoundedQuery
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import ReplayStep, Step

APPENDED = [name for name in SINKS if "upsert" not in name]
Records = Iterable[dict[str, Any]]


def records(first: int, count: int) -> list[dict[str, Any]]:
    """Return records of a history; every fifth is refused."""
    return [{"id": f"h{n}", "amount": 999 if n % 5 == 0 else n} for n in range(first, first + count)]


def as_lines(path: Path, found: Records) -> Path:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in found))
    return path


def ids(line: Line) -> Counter[str]:
    """Count the ids of the accepted records, in whatever the sink is."""
    if line.settings.sink == "kafka":
        return Counter(json.loads(each.value or b"")["id"] for each in line.accepted())
    return Counter(each["id"] for each in line.rows())


def refused(line: Line) -> Counter[str]:
    return Counter(json.loads(each.value or b"")["id"] for each in line.quarantined())


def fates(history: Records, sent: int) -> list[tuple[str, int]]:
    """Return id and amount of the records of a history, and of a topic with `sent` records; an amount of 999 is refused."""
    return [
        *((each["id"], each["amount"]) for each in history),
        *((f"r{n}", 999 if n % 5 == 0 else 1) for n in range(sent)),
    ]


def require_once(line: Line, history: Records, sent: int) -> None:
    """Require that each record of a history and of a topic with `sent` records (`row`) has one fate, and a proof."""
    names = fates(history, sent)
    assert ids(line) == Counter(name for name, amount in names if amount != 999)
    assert refused(line) == Counter(name for name, amount in names if amount == 999)
    found = line.reconcile()
    assert (found.answer, found.not_kept) == (ReconciliationAnswer.HOLDS, set()), found


def produce(line: Line, count: int, first: int = 0) -> None:
    line.produce(*(row(n, 999 if n % 5 == 0 else 1) for n in range(first, first + count)))


def power_cut_after(step: Step, times: int = 1) -> Callable[[str, Step | ReplayStep], None]:
    left = times

    def cut(_stream: str, finished: Step | ReplayStep) -> None:
        nonlocal left
        left -= finished == step
        if left == 0 and finished == step:
            raise PowerCutError

    return cut


@pytest.mark.full
@pytest.mark.parametrize("sink", full(*APPENDED))
def test_a_history_and_a_topic_take_turns(sink: str, make_line: Callable[..., Line], tmp_path: Path) -> None:
    """Each is cut off between quarantine and ledger while the other one goes on, and a second load follows."""
    line = make_line(**SINKS[sink])
    folder = tmp_path / "history"
    folder.mkdir()
    first, second = records(0, 30), records(30, 20)
    as_lines(folder / "a.jsonl", first)
    request = HistoryRequest((str(folder),))
    produce(line, 20)
    cut = Step.SLOT if sink == "kafka-tasks" else Step.QUARANTINE if "kafka" not in sink else Step.PUBLISH
    with pytest.raises(PowerCutError):
        line.enforce(power_cut_after(cut), max_offsets=10)
    with pytest.raises(PowerCutError):
        line.enforce(power_cut_after(cut, 2), history=request, max_offsets=10)
    line.enforce(max_offsets=10)
    as_lines(folder / "b.jsonl", second)
    line.enforce(history=request, max_offsets=10)
    require_once(line, first + second, 20)
    held = line.ledger()
    line.enforce(history=request, max_offsets=10)
    again = line.ledger()  # nothing new is in the folder
    assert (again.n, again.end, again.totals) == (held.n, held.end, held.totals)
    assert (again.history, again.pending_history) == (held.history, 0)
    produce(line, 10, first=20)
    line.enforce()
    require_once(line, first + second, 30)


def test_what_refused_records_say_of_their_origin(line: Line, tmp_path: Path) -> None:
    """JSON Lines, CSV and Parquet of one folder; rows become the JSON that they stand for."""
    folder = tmp_path / "two words"
    folder.mkdir()
    as_lines(folder / "a[1].jsonl", [{"id": "h0", "amount": 999}, {"id": "h1", "amount": 1}])
    (folder / "b.csv").write_text('id,amount,day\n"h,2",2,2020-01-01\n"say ""h3""",999,NA\n')
    table = pa.table({"id": ["h4", "h5"], "amount": pa.array([4, 999], pa.int32())})
    pq.write_table(table, folder / "c.parquet")
    (folder / "_SUCCESS").write_text("")
    line.enforce(history=HistoryRequest((str(folder),), nulls=("NA",)))
    assert ids(line) == Counter(["h1", "h,2", "h4"])
    found = {}
    for each in line.quarantined():
        evidence = read_evidence(each.headers)
        assert evidence is not None
        assert (evidence.source.topic, evidence.source.partition) == (line.topic, HISTORY_PARTITION)
        assert evidence.rules == ("amount-is-known",)
        found[(dict(each.headers)[ORIGIN_HEADER] or b"").decode().rpartition("/")[2]] = each.value
    assert found == {
        "a%5B1%5D.jsonl": b'{"id": "h0", "amount": 999}',
        "b.csv": b'{"id":"say \\"h3\\"","amount":999}',
        "c.parquet": b'{"id":"h5","amount":999}',
    }
    assert {each["_source"]["partition"] for each in line.rows()} == {HISTORY_PARTITION}
    assert line.reconcile().answer is ReconciliationAnswer.HOLDS


def test_what_has_changed_is_refused(line: Line, tmp_path: Path) -> None:
    """A loaded file that changes, a copy that is damaged, lost or another one; a deleted copy of judged records is no fault."""
    history = records(0, 10)
    file = as_lines(tmp_path / "a.jsonl", history)
    request = HistoryRequest((str(file),))
    with pytest.raises(PowerCutError):
        line.enforce(power_cut_after(Step.CLAIM), history=request)
    file.touch()
    as_lines(file, [*history, {"id": "late", "amount": 1}])
    with pytest.raises(ConflictError, match=r"a\.jsonl changed after .* archive"):
        line.enforce(history=request)
    as_lines(file, history)  # another time, and the same bytes
    root = HistoryFolder(line.settings, line.contract_id).path
    (part,) = root.glob("load-*/*/*.parquet")
    content = part.read_bytes()
    part.write_bytes(content[:-1])
    with pytest.raises(StreamStopped, match=r"has another size: .* not judged yet"):
        line.enforce(history=request)
    part.write_bytes(content)
    manifest = max(root.glob("manifest-*.json"))
    text = manifest.read_bytes()
    manifest.write_bytes(text[:-1])
    with pytest.raises(StreamStopped, match="cannot be read as the manifest of a history"):
        line.enforce(history=request)
    manifest.write_bytes(text)
    line.enforce(history=request)
    require_once(line, history, 0)
    root.rename(kept := tmp_path / "kept")
    proof = line.reconcile()
    assert (proof.answer, proof.past_retention) == (ReconciliationAnswer.HOLDS, 10)
    for _ in range(2):  # a copy of the same file has another identity
        with pytest.raises(StreamStopped, match="it was deleted, replaced, or restored from an older moment"):
            line.enforce(history=request)
    shutil.rmtree(root)
    kept.rename(root)
    line.enforce(history=request)
    require_once(line, history, 0)


@pytest.mark.parametrize("sink", full("iceberg", "delta", "postgresql"))
def test_a_history_begins_again_in_an_empty_table(
    sink: str, make_line: Callable[..., Line], publish: Publish, registry: Registry, tmp_path: Path
) -> None:
    """The way out of a changed file and of lost copies: delete them, and put the table away."""
    line = make_line(sink=sink)
    publish(line.document())
    produce(line, 10)
    line.enforce()
    file = as_lines(tmp_path / "a.jsonl", records(0, 10))
    request = HistoryRequest((str(file),))
    line.enforce(history=request)
    history = records(0, 15)
    as_lines(file, history)
    with pytest.raises(ConflictError, match=r"delete .*tidegate-history/.*, and tidegate archive"):
        line.enforce(history=request)
    shutil.rmtree(HistoryFolder(line.settings, line.contract_id).path)
    with pytest.raises(StreamStopped, match="the folder of copies lacks"):
        line.enforce(history=request)
    name = f"{line.contract_id.rpartition('.')[2]}_put_away"  # all tests share the namespace
    Archiving(registry).archive(line, name)
    line.enforce(history=request)
    line.enforce()
    assert ids(line) == Counter(name for name, amount in fates(history, 10) if amount != 999)
    assert line.reconcile().answer is ReconciliationAnswer.HOLDS


@pytest.mark.full
def test_other_commands_know_a_history(
    make_line: Callable[..., Line], publish: Publish, registry: Registry, tmp_path: Path
) -> None:
    """Its refused records are kept in the table and replayed, its rows rewound and erased, its ledger rebuilt."""
    line = make_line(quarantine_table=True)
    publish(line.document())
    produce(line, 10)
    line.enforce()
    history = records(0, 10)
    request = HistoryRequest((str(as_lines(tmp_path / "a.jsonl", history)),))
    line.enforce(history=request)
    require_once(line, history, 10)
    before = line.ledger()
    Rewinding(registry).to(line, "0:0,1:0")  # the topic alone
    assert ids(line) == Counter(name for name, amount in fates(history, 0) if amount != 999)
    line.enforce()
    Rewinding(registry).to(line, f"{HISTORY_PARTITION}:5")
    assert line.ledger().pending_history == 5
    line.enforce(history=request)
    assert (line.ledger().end, line.ledger().totals) == (before.end, before.totals)
    assert ids(line) == Counter(name for name, amount in fates(history, 10) if amount != 999)
    assert line.reconcile().answer is ReconciliationAnswer.HOLDS
    request_replay(line, fix=MENDED)
    line.enforce()
    assert ids(line) == Counter(name for name, _ in fates(history, 10))
    assert line.reconcile().answer is ReconciliationAnswer.HOLDS
    erasing, folder = Erasing(registry), HistoryFolder(line.settings, line.contract_id).path
    with pytest.raises(ConflictError, match=r"holds the records .* delete its folders load-\*"):
        erasing.erase(line, Subject("h1", "id"))
    for each in folder.glob("load-*"):
        shutil.rmtree(each)
    erasing.erase(line, Subject("h1", "id"))
    assert ids(line) == Counter(name for name, _ in fates(history, 10) if name != "h1")
    proof = line.reconcile()
    assert (proof.answer, proof.past_retention) == (ReconciliationAnswer.HOLDS, 10)


@pytest.mark.full
@pytest.mark.parametrize("sink", ["iceberg", "kafka", "delta", "postgresql"])
def test_a_lost_ledger_is_rebuilt_with_its_history(
    sink: str, make_line: Callable[..., Line], publish: Publish, registry: Registry, tmp_path: Path
) -> None:
    line = make_line(sink=sink)
    publish(line.document())
    produce(line, 10)
    line.enforce()
    folder = tmp_path / "history"
    folder.mkdir()
    request, history = HistoryRequest((str(folder),)), records(0, 20)
    as_lines(folder / "a.jsonl", history[:10])
    line.enforce(history=request)
    before = line.ledger()
    lose_ledger(line)
    with pytest.raises(StreamStopped, match=r"no ledger says how far"):
        line.enforce(history=request)
    copies = HistoryFolder(line.settings, line.contract_id).path
    kept = copies.rename(tmp_path / "kept")
    with pytest.raises(StreamStopped, match=r"is gone, and the outputs hold records of the stream's history"):
        Adopting(registry).rebuild(line)
    kept.rename(copies)
    adopted = Adopting(registry).rebuild(line)
    assert (adopted.end, adopted.totals, adopted.history) == (before.end, before.totals, before.history)
    as_lines(folder / "b.jsonl", history[10:])
    line.enforce(history=request)
    require_once(line, history, 10)


def test_what_a_history_is_not_loaded_for(make_line: Callable[..., Line], tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"id": "h0", "amount": 1}]')
    (tmp_path / "a.xlsx").write_text("")
    line = make_line()
    for name, reason in {
        "a.json": "is a JSON array",
        "a.xlsx": "a history has files .jsonl",
        "none.csv": "there is no file or folder",
        "*.avro": "has no files",
    }.items():
        with pytest.raises(SettingsError, match=reason):
            line.enforce(history=HistoryRequest((str(tmp_path / name),)))
    (tmp_path / "ragged.csv").write_text("id,amount\nh0,1,secret\n")
    for name, records in {"short.jsonl.gz": 100, "cut.jsonl.gz": 10_000}.items():
        packed = gzip.compress(b'{"id": "h0", "amount": 1}\n' * records)
        (tmp_path / name).write_bytes(packed[:-20])
    amounts = pa.array([[({"n": 1}, "EUR")]], pa.map_(pa.struct({"n": pa.int32()}), pa.string()))
    pq.write_table(pa.table({"id": ["h0"], "amount": amounts}), tmp_path / "keyed.parquet")
    for name, reason in {
        "ragged.csv": r"reading file file:.*/ragged\.csv",
        "short.jsonl.gz": r"short\.jsonl\.gz cannot be read: Truncated",
        "cut.jsonl.gz": r"reading file file:.*/cut\.jsonl\.gz",
        "keyed.parquet": "/amount",
    }.items():
        with pytest.raises(SettingsError, match=reason) as found:
            line.enforce(history=HistoryRequest((str(tmp_path / name),)))
        assert "secret" not in str(found.value)
    with pytest.raises(SettingsError, match=r"lake\.none\.such cannot be read"):
        line.enforce(history=HistoryRequest(tables=("lake.none.such",)))
    with pytest.raises(SettingsError, match="upserted into"):
        line.enforce(history=HistoryRequest((str(tmp_path),)), write_mode="upsert")


@pytest.mark.usefixtures("spark")
def test_an_error_between_two_batches_ends_a_run() -> None:
    handled = []

    def handle(number: int) -> None:
        handled.append(number)
        if number == 1:
            raise FileNotFoundError("part")

    query = BoundedQuery(3, handle)
    with pytest.raises(FileNotFoundError, match="part"):
        query.awaitTermination()
    assert handled == [0, 1]


def test_a_table_is_a_history(line: Line) -> None:
    """Rows that were appended since are the next load; after any other change the table is refused."""
    name = f"lake.raw.{line.contract_id.rpartition('.')[2]}"
    line.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.raw")
    schema = "id string, amount int, day date"
    line.spark.sql(f"CREATE TABLE {name} ({schema}) USING iceberg")
    request = HistoryRequest(tables=(name,))
    with pytest.raises(SettingsError, match="no rows yet"):
        line.enforce(history=request)
    rows = line.spark.createDataFrame([("h0", 999, None), ("h1", 1, date(2020, 1, 1))], schema)
    rows.writeTo(name).append()
    line.enforce(history=request)
    topics, topic = Topics(line.settings.kafka), quarantine_topic(line.topic)
    assert line.reconcile().answer is ReconciliationAnswer.HOLDS
    topics.delete_before(topic, topics.latest(topic))  # as a retention does until the next load
    line.spark.createDataFrame([("h2", 2, None)], schema).writeTo(name).append()
    line.enforce(history=request)
    assert ids(line) == Counter(["h1", "h2"])
    assert line.reconcile().answer is ReconciliationAnswer.UNPROVEN
    line.spark.createDataFrame([("h3", 3, None)], schema).writeTo(name).overwrite(col("id") == "h2")
    with pytest.raises(ConflictError, match=f"{name} changed after"):
        line.enforce(history=request)


@pytest.mark.full
def test_a_delta_table_is_a_history_once(make_line: Callable[..., Line], tmp_path: Path) -> None:
    line = make_line(sink="delta")
    rows = line.spark.createDataFrame([("h0", 999), ("h1", 1)], "id string, amount int")
    rows.write.format("delta").save(str(tmp_path / "raw"))
    for name in ("raw", "../" + tmp_path.name + "/raw"):  # one table by two names
        line.enforce(history=HistoryRequest(tables=(f"delta:{tmp_path}/{name}",)))
    assert (ids(line), refused(line)) == (Counter(["h1"]), Counter(["h0"]))
    assert line.reconcile().answer is ReconciliationAnswer.HOLDS
    rows.write.format("delta").mode("append").save(str(tmp_path / "raw"))
    with pytest.raises(ConflictError, match="raw changed after"):
        line.enforce(history=HistoryRequest(tables=(f"delta:{tmp_path}/raw",)))


@pytest.mark.full
@pytest.mark.parametrize(
    ("sink", "step"),
    [
        ("iceberg", Step.QUARANTINE),
        *(
            (sink, step)
            for sink in APPENDED
            for step in (Step.CLAIM, Step.JUDGE, Step.SLOT, Step.PUBLISH, Step.COMMITTED)
            if sink != "kafka" or step is not Step.SLOT
        ),
    ],
)
def test_a_killed_run_goes_on(  # noqa: PLR0913, PLR0917 - one for each part of a job
    sink: str,
    step: Step,
    make_line: Callable[..., Line],
    publish: Publish,
    job: StartJob,
    start: Callable[..., RunningJob],
    registry: Registry,
    tmp_path: Path,
) -> None:
    line = make_line(**SINKS[sink])
    fill(line, publish, 20)
    history = records(0, 30)
    file = as_lines(tmp_path / "a.jsonl", history)
    kill_after(job, line, step, 1 if step is Step.CLAIM else 2, HISTORY_FILES=str(file))
    if step is Step.QUARANTINE:
        again = start(registry.url, [line], "--from-files", str(file))
        assert again.exit_code() == 0, "".join(again.lines)
        again.await_event("stream_started", behind=20)
    else:
        line.enforce(history=HistoryRequest((str(file),)))
    line.enforce()
    require_once(line, history, 20)
