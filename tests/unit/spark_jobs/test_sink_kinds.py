"""A sink is one line in SINKS and its own module: a toy is added from outside, and nothing else names sinks."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast, get_args

import pytest

import tidegate.spark_jobs
from tests.documents import plan_with
from tests.unit.spark_jobs import toy_sink
from tidegate.contracts.document.model import Retention
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.stream.decide import Decision
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.contracts.stream.sink_names import SinkName
from tidegate.gateway.cli.up import SinkOption
from tidegate.spark_jobs.kafka.topics import TopicDescription
from tidegate.spark_jobs.options import read_settings
from tidegate.spark_jobs.settings import SINKS, JobSettings, SinkRules
from tidegate.spark_jobs.sinks.adoption import AdoptableSink
from tidegate.spark_jobs.sinks.kind import SinkContext, SinkKind, kind_of
from tidegate.spark_jobs.sinks.sink import MicroBatch, Sink, StreamStart
from tidegate.spark_jobs.steps import Stopwatch, ignore_steps

PLAN = plan_with({})
STREAM = PLAN.contract.id
SOURCE = TopicDescription(PLAN.contract.topic, "id", 2, 1_000_000)
PACKAGE = Path(tidegate.spark_jobs.__file__).parent


def settings(sink: str, **others: Any) -> JobSettings:
    given = {"bootstrap_servers": "b:1", "registry_url": "http://r", "warehouse": "w", "checkpoints": "c"}
    return read_settings({**given, "sink": sink, **others}, JobSettings)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The toy in the list of sinks."""
    monkeypatch.setitem(SINKS, "toy", SinkRules(toy_sink.__name__, is_table=False, required="spark_jars"))
    yield
    toy_sink.LEDGERS.clear()
    toy_sink.WRITTEN.clear()


@pytest.mark.usefixtures("toy")
def test_a_toy_sink_is_opened_by_the_settings_and_its_positions_are_read() -> None:
    chosen = settings("toy", spark_jars="j")
    kind = kind_of(chosen)
    nothing: Any = None  # the toy asks neither Spark nor the broker
    sink = kind.open(SinkContext(nothing, chosen, nothing, STREAM, SOURCE, Retention()))
    watch = Stopwatch(STREAM, ignore_steps)
    claimed = sink.start(StreamStart(PLAN, SOURCE, {0: 0, 1: 4}, watch))
    judged = sink.judge(MicroBatch(nothing, {0: 0, 1: 4}, {0: 2, 1: 5}, PLAN, {}, watch))
    published = sink.publish(judged, Decision(3, 0, 0, 0, 0))
    judged.release()

    assert (claimed.epoch, claimed.n) == (1, 0)
    assert (published.ledger.n, published.ledger.end) == (1, {0: 2, 1: 5})
    assert published.ledger.totals == BatchTotals(written=3)
    with ExitStack() as open_files:
        found = kind.read_outputs(chosen, STREAM, lambda: None, open_files)
    assert found.ledger == published.ledger
    assert list(found.written.seen) == [(0, 0), (0, 1), (1, 4)]
    adoptable = kind.adoptable(chosen, PLAN)
    assert adoptable.read() == published.ledger
    assert adoptable.written() == found.written


def members(protocol: type) -> dict[str, list[str] | None]:
    """Return the public members of a protocol: methods with the names of their parameters."""
    found: dict[str, list[str] | None] = dict.fromkeys(vars(protocol).get("__annotations__", {}))
    for name, member in vars(protocol).items():
        found[name] = [*inspect.signature(member).parameters] if inspect.isfunction(member) else None
    return {name: parameters for name, parameters in found.items() if not name.startswith("_")}


@pytest.mark.parametrize("protocol", [Sink, AdoptableSink])
@pytest.mark.usefixtures("toy")
def test_the_toy_has_every_member_of_a_sink(protocol: type) -> None:
    chosen, nothing = settings("toy", spark_jars="j"), cast("Any", None)
    kind = kind_of(chosen)
    toy = (
        kind.open(SinkContext(nothing, chosen, nothing, STREAM, SOURCE, Retention()))
        if protocol is Sink
        else kind.adoptable(chosen, PLAN)
    )
    for name, parameters in members(protocol).items():
        assert hasattr(toy, name), name
        if parameters is not None:
            assert [*inspect.signature(getattr(type(toy), name)).parameters] == parameters, name


@pytest.mark.usefixtures("toy")
def test_an_adoptable_toy_gives_up_the_records_that_it_finds() -> None:
    adoptable = kind_of(settings("toy", spark_jars="j")).adoptable(settings("toy", spark_jars="j"), PLAN)
    start = StreamStart(PLAN, SOURCE, {0: 0}, Stopwatch(STREAM, ignore_steps))
    held = start.new_ledger(adoptable.own_ledger, {}, 1)
    toy_sink.WRITTEN[STREAM] = [(0, 0), (0, 1), (1, 4), (1, 5)]
    adoptable.retract(adoptable.written_with("offset", ["1", "4"]), held, held)
    assert toy_sink.WRITTEN[STREAM] == [(0, 0), (1, 5)]
    adoptable.retract({1: 5}, held, held)
    assert toy_sink.WRITTEN[STREAM] == [(0, 0)]


@pytest.mark.usefixtures("toy")
def test_the_settings_know_a_toy_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_SPARK_JARS", raising=False)  # a verb that ran in this process sets it
    assert settings("toy", spark_jars="j").batch_seconds == 0.5
    with pytest.raises(SettingsError, match="sink toy needs TIDEGATE_SPARK_JARS"):
        settings("toy")
    with pytest.raises(SettingsError, match="write-mode upsert is for tables"):
        settings("toy", spark_jars="j", write_mode="upsert")
    with pytest.raises(
        SettingsError, match="Input should be 'iceberg', 'delta', 'postgresql', 'kafka' or 'toy'"
    ):
        settings("paper")


@pytest.mark.parametrize("name", SINKS)
def test_each_sink_declares_its_kind(name: str) -> None:
    chosen = settings(name, postgresql_url="postgresql://u@h/d")
    assert isinstance(kind_of(chosen), SinkKind)
    assert chosen.batch_seconds == (0.5 if name == "kafka" else 5.0)


def test_the_embedded_run_offers_the_same_sinks() -> None:
    assert get_args(SinkOption)[0] is SinkName
    assert [each.value for each in SinkName] == [*SINKS]


def test_nothing_of_the_job_asks_for_a_sink_by_its_name() -> None:
    """A branch for each name would be another list, in which a new sink can be forgotten."""
    asked = []
    for module in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Compare | ast.MatchValue):
                names = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)} & {*SINKS}
                asked += [f"{module.relative_to(PACKAGE)}:{node.lineno} {name}" for name in sorted(names)]
    assert asked == []


def test_a_quarantine_table_needs_a_sink_with_tables() -> None:
    assert not settings("iceberg").quarantine_table
    assert settings("delta", quarantine_table="true").quarantine_table  # as a variable has it
    with pytest.raises(
        SettingsError, match=r"quarantine-table needs a sink with tables, and kafka has none.*--sink iceberg"
    ):
        settings("kafka", quarantine_table=True)


def test_the_proof_run_is_off_by_default() -> None:
    assert settings("iceberg").expectations_proof_every == 0
