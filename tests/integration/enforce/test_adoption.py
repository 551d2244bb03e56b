"""`tidegate adopt`: the ledger rebuilt from what was written, and the stream going on with every record once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from annotated_types import Le
from psycopg import sql
from pyspark.sql import SparkSession

from tests.integration.enforce.adopting import Adopting, run_command
from tests.integration.enforce.checker import CLEAN, account, require_exactly_once
from tests.integration.enforce.job import DEADLINE_SECONDS, Publish
from tests.integration.enforce.line import KNOWN, Line, Sent, row
from tests.integration.enforce.losing import lose_ledger
from tests.integration.enforce.registry import Registry, back_up, put_back
from tests.integration.enforce.running import running
from tests.integration.enforce.test_source_changes import (
    PowerCutError,
    add_partitions,
    cut_after_quarantine,
    forget,
)
from tests.marks import full
from tidegate.contracts.errors import ConflictError, Fenced, NotFoundError, StreamStopped, Unavailable
from tidegate.contracts.stream.adoption import EPOCH_GAP
from tidegate.contracts.stream.bounds import MOST_SLOTS
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.contracts.stream.output_topics import accepted_topic, quarantine_topic
from tidegate.contracts.stream.positions import Positions
from tidegate.spark_jobs.adopt.adopt import Adopter, Look
from tidegate.spark_jobs.kafka.kafka_ledger import transactional_id
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.sinks.postgresql.table import qualified_name
from tidegate.spark_jobs.steps import Step

SINKS = ("iceberg", *full("kafka", "delta", "postgresql"))


@pytest.fixture(params=SINKS)
def any_line(request: pytest.FixtureRequest, published_line: Callable[..., Line]) -> Line:
    """A line into each sink."""
    return published_line(request.param)


def test_an_adopted_stream_continues_with_every_record_once(any_line: Line, adopting: Adopting) -> None:
    """Before the ledger was lost a batch was cut off whose refused records were written already."""
    line = any_line
    line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(20)))
    line.enforce(max_offsets=7)
    line.produce(row(20), row(21, 999), row(22), row(24, 999), row(26))
    if line.settings.sink != "kafka":
        with pytest.raises(PowerCutError):
            line.enforce(cut_after_quarantine)
        assert len(line.quarantined()) == 7
    before = line.ledger()
    lose_ledger(line)
    with pytest.raises(StreamStopped, match=r"no ledger says how far.*tidegate adopt"):
        line.enforce()
    adopted = adopting.rebuild(line)
    (look,) = adopting.shown
    assert isinstance(look, Look)
    assert (look.proposal.holes, len(look.proposal.twice)) == (0, 0)
    assert adopted.name == before.name
    assert adopted.epoch >= EPOCH_GAP
    assert line.ledger() == adopted
    line.produce(*(row(n, 999 if n % 3 == 0 else n) for n in range(30, 40)))
    line.enforce()
    require_exactly_once(line)
    assert line.ledger().totals.offsets == 35
    (kept,) = adopting.kept(line)
    assert kept["by"] == "anonymous"
    assert (kept["adoption"]["id"], kept["adoption"]["accepted_loss"]) == (line.ledger().adopted, 0)
    assert {int(p): offset for p, offset in kept["adoption"]["end"].items()} == adopted.end
    with pytest.raises(ConflictError, match="nothing is to be adopted"):
        adopting.rebuild(line)


@pytest.mark.full
def test_records_that_tasks_wrote_ahead_of_a_lost_ledger_are_left_out(
    published_line: Callable[..., Line], adopting: Adopting
) -> None:
    line = published_line("kafka", accepted_slots=2)
    line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(12)))
    line.enforce()
    line.produce(row(12), row(13, 999), row(14), row(15), row(16, 999), row(18))

    def cut_after_tasks(_stream: str, step: Step) -> None:
        if step is Step.SLOT:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        line.enforce(cut_after_tasks)
    assert (len(line.accepted()), len(line.quarantined())) == (13, 3)
    lose_ledger(line)
    adopted = adopting.rebuild(line)
    assert adopted.end == {0: 8, 1: 6}
    assert adopted.totals.unproven == 0
    line.enforce()
    require_exactly_once(line)


@pytest.mark.full
@pytest.mark.parametrize("sink", ["iceberg", *full("delta", "postgresql", "kafka")])
def test_an_instance_that_still_runs_is_fenced_by_an_adoption(
    published_line: Callable[..., Line], adopting: Adopting, sink: str
) -> None:
    """It judged a batch while the ledger was lost and rebuilt."""
    line = published_line(sink)
    line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(10)))
    line.enforce()
    line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(10, 20)))

    def adopt_meanwhile(_stream: str, step: Step) -> None:
        if step is Step.DECIDE and not adopting.shown:
            lose_ledger(line)
            adopting.rebuild(line)

    with pytest.raises(Fenced):
        line.enforce(adopt_meanwhile)
    line.enforce()
    require_exactly_once(line)


@pytest.mark.full
def test_dropped_records_cannot_be_proven_and_have_to_be_accepted(
    published_line: Callable[..., Line], adopting: Adopting
) -> None:
    line = published_line("iceberg")
    line.contracts.plan = line.plan(rules=[{**KNOWN, "on_violation": "drop"}])
    line.produce(*(row(2 * n, 999 if n in {1, 3} else n) for n in range(6)))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=4, dropped=2)
    lose_ledger(line)

    def refuse(look: Look) -> None:
        adopting.shown.append(look)
        raise ConflictError("no")

    with Adopter.opened(adopting.settings(line), line.contract_id) as found, pytest.raises(ConflictError):
        found.rebuild(None, refuse)
    (look,) = adopting.shown
    assert isinstance(look, Look)
    assert (look.proposal.holes, look.proposal.unanswered) == (2, {(0, 1), (0, 3)})
    with pytest.raises(StreamStopped, match="tidegate adopt"):
        line.enforce()
    assert adopting.kept(line) == []
    adopting.rebuild(line)
    assert adopting.kept(line)[0]["adoption"]["accepted_loss"] == 2
    line.produce(row(20), row(22, 999))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=5, dropped=1, unproven=2)
    found = line.reconcile()
    assert (found.lost, found.twice, found.unverifiable) == (0, 0, 2)


@pytest.mark.full
def test_an_upserted_table_is_adopted_and_continues(
    make_line: Callable[..., Line], publish: Publish, adopting: Adopting
) -> None:
    """Superseded records leave no trace; what is there is not written twice."""
    line = make_line(sink="iceberg", write_mode="upsert")
    publish(line.document(primary_key=["id"]))
    line.contracts.plan = line.plan(primary_key=["id"])
    line.produce(*(row(2 * (n % 3), n) for n in range(6)), row(1, 999))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=3, superseded=3, quarantined=1)
    line.spark.sql(f"ALTER TABLE lake.{line.contract_id} UNSET TBLPROPERTIES ('tidegate.ledger')")
    with pytest.raises(StreamStopped, match="tidegate adopt"):
        line.enforce()
    adopted = adopting.rebuild(line)
    # Partition 1 has no row: its refused record is ahead of the ledger, and the next start finds it.
    assert (adopted.end, adopted.totals) == ({0: 6, 1: 0}, BatchTotals(written=3, unproven=3))
    line.produce(row(0, 7), row(8))
    line.enforce()
    assert account(line) == CLEAN
    assert (len(line.rows()), len(line.quarantined())) == (4, 1)
    assert line.ledger().totals == BatchTotals(written=4, quarantined=1, superseded=1, unproven=3)


def test_a_partition_whose_first_records_are_gone_continues_without_them(
    any_line: Line, adopting: Adopting
) -> None:
    line = any_line
    line.produce(*(row(n) for n in range(4)))
    line.enforce()
    add_partitions(line, 3)
    line.produce(*(Sent(row(n, 999 if n == 4 else n).value, b"k", 2) for n in range(5)))
    forget(line, line.topic, 2, 3)
    with pytest.raises(StreamStopped, match="--partition 2 --from 3 --accept-loss"):
        line.enforce()
    with pytest.raises(ConflictError, match="--from 3"):
        adopting.skip(line, 2, 2)
    with pytest.raises(ConflictError, match="nothing is missing of partition 1"):
        adopting.skip(line, 1, 2)
    with pytest.raises(NotFoundError, match="has no partition 7"):
        adopting.skip(line, 7, 2)
    adopting.skip(line, 2, 3)
    line.enforce()
    require_exactly_once(line)
    assert (line.ledger().begin[2], line.ledger().end[2]) == (3, 5)
    (kept,) = adopting.kept(line)
    assert (kept["adoption"]["partition"], kept["adoption"]["accepted_loss"]) == (2, 3)


@pytest.mark.full
@pytest.mark.parametrize(
    ("sink", "setting", "output"),
    [("iceberg", "quarantine_slots", quarantine_topic), ("kafka", "accepted_slots", accepted_topic)],
)
def test_the_last_slot_that_settings_allow_is_fenced_before_a_ledger_is_rebuilt(
    published_line: Callable[..., Line],
    adopting: Adopting,
    sink: str,
    setting: str,
    output: Callable[[str], str],
) -> None:
    """The number of slots was in the ledger that is lost."""
    (most,) = [each.le for each in JobSettings.model_fields[setting].metadata if isinstance(each, Le)]
    line = published_line(sink)
    line.produce(row(0), row(1, 999))  # the refused record names the ledger of the table
    line.enforce(**{setting: most})
    ledger = line.ledger()
    assert ledger.slots == MOST_SLOTS
    zombie = TransactionalProducer(line.settings.kafka, transactional_id(ledger.name, ledger.slots - 1))
    zombie.fence()
    lose_ledger(line)
    adopting.rebuild(line)
    with pytest.raises(Fenced):
        zombie.write([(output(line.topic), b"{}", None, 0, 1, [])])


def cut_after_slot(_stream: str, step: Step) -> None:
    if step is Step.SLOT:
        raise PowerCutError


@pytest.mark.full
@pytest.mark.parametrize(("sink", "output"), [("iceberg", quarantine_topic), ("kafka", accepted_topic)])
def test_a_stream_continues_past_deleted_records_of_its_output(
    published_line: Callable[..., Line], adopting: Adopting, sink: str, output: Callable[[str], str]
) -> None:
    """An attempt was killed after its transaction was committed, and retention deleted its records before the next start."""
    line = published_line(sink, accepted_slots=2)
    line.produce(*(row(2 * n, 999 if n % 2 else 1) for n in range(4)))
    with pytest.raises(PowerCutError):
        line.enforce(cut_after_slot)
    with pytest.raises(ConflictError, match="no record is missing"):
        adopting.forget_deleted(line)
    topic = output(line.topic)
    end = Topics(line.settings.kafka).latest(topic)[0]
    forget(line, topic, 0, end)
    with pytest.raises(StreamStopped, match=f"tidegate adopt {line.contract_id} --forget-deleted"):
        line.enforce()
    adopting.forget_deleted(line)
    line.enforce()
    require_exactly_once(line)
    assert line.ledger().totals == BatchTotals(written=2, quarantined=2)
    (kept,) = adopting.kept(line)
    assert (kept["adoption"]["forgotten"], kept["adoption"]["accepted_loss"]) == (end, 0)


@pytest.mark.full
def test_a_partition_that_retention_has_passed_continues_and_says_what_is_missing(
    published_line: Callable[..., Line], adopting: Adopting
) -> None:
    """Also when retention moves on between the adoption and the start: it may be adopted again."""
    line = published_line("iceberg")
    line.produce(*(row(2 * n) for n in range(4)))
    line.enforce()
    line.produce(*(row(2 * n) for n in range(10, 20)))
    forget(line, line.topic, 0, 6)
    adopting.skip(line, 0, 6)
    forget(line, line.topic, 0, 9)
    with pytest.raises(StreamStopped, match="--partition 0 --from 9 --accept-loss"):
        line.enforce()
    adopting.skip(line, 0, 9)
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=9, unproven=5)
    assert len(line.rows()) == 9
    assert [each["adoption"]["accepted_loss"] for each in adopting.kept(line)] == [3, 2]


@pytest.mark.full
def test_a_registry_restored_without_an_adoption_lets_the_stream_go_on(
    line: Line, spark: SparkSession, make_registry: Callable[..., Registry], tmp_path: Path
) -> None:
    """The ledger keeps the id of the adoption, and the offsets that cannot be proven."""
    registry = make_registry()
    httpx.post(f"{registry.url}/api/v1/contracts", json=line.document(), timeout=60).raise_for_status()
    back_up(tmp_path)
    line.produce(*(row(2 * n) for n in range(4)))
    line.enforce()
    line.produce(*(row(2 * n) for n in range(4, 10)))
    forget(line, line.topic, 0, 6)
    adopted = Adopting(registry).skip(line, 0, 6).adopted
    registry.stop()
    put_back(tmp_path)
    registry = make_registry()
    assert Adopting(registry).kept(line) == []
    with running(spark, line, registry.url, available_now=True) as stream:
        stream.join(DEADLINE_SECONDS)
    assert stream.failure is None
    assert (line.ledger().adopted, line.ledger().totals) == (adopted, BatchTotals(written=8, unproven=2))
    found = line.reconcile()
    assert (found.lost, found.twice, found.unverifiable) == (0, 0, 2)


@pytest.mark.full
def test_nothing_is_adopted_without_the_registry(
    published_line: Callable[..., Line], make_registry: Callable[..., Registry]
) -> None:
    line, registry = published_line("postgresql"), make_registry()
    httpx.post(f"{registry.url}/api/v1/contracts", json=line.document(), timeout=60).raise_for_status()
    line.produce(row(0), row(1))
    line.enforce()
    lose_ledger(line)
    settings = line.settings.model_copy(update={"registry_url": registry.url})
    with (
        Adopter.opened(settings, line.contract_id) as found,
        pytest.raises(Unavailable, match="does not answer"),
    ):
        found.rebuild(None, lambda _look: registry.stop())
    with pytest.raises(StreamStopped, match="tidegate adopt"):
        line.enforce()


@pytest.mark.full
def test_rows_that_come_while_somebody_decides_stop_the_adoption(
    published_line: Callable[..., Line], adopting: Adopting
) -> None:
    line = published_line("postgresql")
    line.produce(row(0), row(1))
    line.enforce()
    lose_ledger(line)

    def write_meanwhile(_look: Look) -> None:
        with line.database() as connection:
            table = sql.Identifier(*qualified_name(line.contract_id))
            connection.execute(sql.SQL("INSERT INTO {0} SELECT * FROM {0} LIMIT 1").format(table))

    asked = pytest.raises(StreamStopped, match="the outputs changed before you confirmed")
    with Adopter.opened(adopting.settings(line), line.contract_id) as found, asked:
        found.rebuild(None, write_meanwhile)
    assert adopting.kept(line) == []
    with pytest.raises(StreamStopped, match="tidegate adopt"):
        line.enforce()


@pytest.mark.full
def test_records_that_retention_deletes_while_the_source_is_read_are_a_loss(
    published_line: Callable[..., Line], adopting: Adopting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not offsets that never had a record."""
    line = published_line("iceberg")
    line.contracts.plan = line.plan(rules=[{**KNOWN, "on_violation": "drop"}])
    line.produce(*(row(2 * n, 999 if n in {1, 3} else n) for n in range(6)))
    line.enforce()
    lose_ledger(line)
    present = Adopter._present

    def delete_meanwhile(self: Adopter, holes: Positions) -> Positions:
        forget(line, line.topic, 0, 5)
        return present(self, holes)

    monkeypatch.setattr(Adopter, "_present", delete_meanwhile)
    adopting.rebuild(line)
    (look,) = adopting.shown
    assert isinstance(look, Look)
    assert (look.proposal.holes, look.proposal.totals.absent, look.proposal.totals.unproven) == (2, 0, 2)


def test_a_stream_that_has_written_nothing_has_nothing_to_adopt(
    published_line: Callable[..., Line], adopting: Adopting
) -> None:
    with pytest.raises(NotFoundError, match="there is nothing to adopt"):
        adopting.rebuild(published_line("kafka"))


@pytest.mark.full
def test_the_command_asks_and_says_what_it_did(
    published_line: Callable[..., Line], adopting: Adopting
) -> None:
    line = published_line("kafka")
    line.produce(*(row(n, 999 if n == 3 else n) for n in range(6)))
    line.enforce()
    lose_ledger(line)

    def adopt(*more: str) -> tuple[int, str]:
        return run_command(line, adopting.url, "adopt", *more)

    code, told = adopt()
    assert code == 2, told
    assert "there is no terminal to ask on" in told
    assert "partition 0: written 0 to 2, quarantined nothing; ledger 0 to 2; holes: none" in told
    code, told = adopt("--yes")
    assert code == 0, told
    assert "it goes on at 0: 3, 1: 3" in told
    assert adopt("--yes")[0] == 1
    line.enforce()
    require_exactly_once(line)
