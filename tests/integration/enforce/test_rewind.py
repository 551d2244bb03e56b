"""`tidegate rewind`: rows and refusals of a bad contract go, and the mended contract judges the records again."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import httpx
import pytest
from psycopg import sql

from tests.integration.enforce.adopting import run_command
from tests.integration.enforce.job import Publish
from tests.integration.enforce.line import KNOWN, Line, Sent, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.test_maintenance import newest_version
from tests.integration.enforce.test_rolled_back import snapshots
from tests.integration.enforce.test_source_changes import PowerCutError, cut_after_quarantine, forget
from tests.marks import full
from tidegate.contracts.errors import ConflictError, Fenced, NotFoundError, StreamStopped
from tidegate.contracts.stream.evidence import GENERATION_HEADER, SOURCE_HEADER
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, Position
from tidegate.gateway.exits import ExitCode
from tidegate.spark_jobs.adopt.adopt import Adopter
from tidegate.spark_jobs.adopt.rewind import Rewinder, RewindLook, RewindStep, RewindTo
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.sinks.postgresql.table import qualified_name
from tidegate.spark_jobs.steps import Step

BAD, GOOD = 7, 999
"""Amounts: the bad contract lets the one in and refuses the other; the mended contract does the opposite."""
SINKS = ("iceberg", *full("delta", "postgresql"))


def record(number: int, **more: object) -> Sent:
    """A record; one of four is good and refused by the bad contract, one of four is bad and let in."""
    return row(number, {1: GOOD, 2: BAD}.get(number % 4, 1), **more)


class Rewinding:
    """Rewinds lines with a real registry; keeps what was shown before the last confirmation."""

    def __init__(self, registry: Registry) -> None:
        self.url = registry.url
        self.shown: list[RewindLook] = []

    def settings(self, line: Line) -> JobSettings:
        return line.settings.model_copy(update={"registry_url": self.url})

    def open(
        self, line: Line, told: Callable[[RewindStep], None] = lambda _: None
    ) -> AbstractContextManager[Rewinder]:
        return Rewinder.opened(self.settings(line), line.contract_id, told)

    def to(self, line: Line, text: str, told: Callable[[RewindStep], None] = lambda _: None) -> Ledger:
        with self.open(line, told) as found:
            return found.rewind(RewindTo.parse(text), self.shown.append)

    def kept(self, line: Line) -> list[dict[str, Any]]:
        answer = httpx.get(f"{self.url}/api/v1/streams/{line.contract_id}/adoptions")
        answer.raise_for_status()
        return [each["adoption"] for each in answer.json()["adoptions"]]


@pytest.fixture
def rewinding(registry: Registry) -> Rewinding:
    return Rewinding(registry)


def mended(line: Line) -> None:
    """Let the mended contract judge from now on."""
    line.contracts.plan = line.plan(version="1.2.0", rules=[{**KNOWN, "values": [BAD]}])


def spoilt(line: Line) -> None:
    """Let the bad contract judge from now on."""
    line.contracts.plan = line.plan(version="1.1.0", rules=[{**KNOWN, "values": [GOOD]}])


def with_a_bad_contract(line: Line) -> None:
    """Write 8 records by a good contract and 12 more by a bad one. Its next batch is cut off after the quarantine."""
    mended(line)
    line.produce(*map(record, range(8)))
    line.enforce()
    spoilt(line)
    line.produce(*map(record, range(8, 20)))
    line.enforce()
    line.produce(*map(record, range(20, 28)))
    with pytest.raises(PowerCutError):
        line.enforce(cut_after_quarantine)
    assert line.ledger().end == {0: 10, 1: 10}


def refusals(line: Line) -> dict[tuple[Position, int], int]:
    """Count the refused records by source position and generation, from their last headers."""
    found: dict[tuple[Position, int], int] = {}
    for each in line.quarantined():
        last = dict(each.headers)
        _, partition, offset = (last[SOURCE_HEADER] or b"").decode().rsplit("/", 2)
        key = (int(partition), int(offset)), int(last.get(GENERATION_HEADER) or b"0")
        found[key] = found.get(key, 0) + 1
    return found


def require_mended(line: Line, records: int, point: int = 4, generation: int = 1) -> None:
    """Require that table and quarantine hold exactly what the mended contract says, and the ledger and `reconcile` the same."""
    ledger = line.ledger()
    assert ledger.end == Topics(line.settings.kafka).latest(line.topic)
    kept = [number for number in range(records) if number % 4 != 2]
    assert sorted(each["id"] for each in line.rows()) == sorted(f"r{number}" for number in kept)
    wanted = {(number % 2, number // 2) for number in range(records) if number % 4 == 2}
    found = refusals(line)
    counting = {
        position: count
        for (position, of), count in found.items()
        if of == (generation if position[1] >= point else 0)
    }
    assert counting == dict.fromkeys(wanted, 1)
    assert ledger.generation == generation
    assert ledger.totals == BatchTotals(written=len(kept), quarantined=len(wanted))
    answer = line.reconcile()
    assert answer.holds, answer
    assert sum(each.end - each.begin for some in ledger.segments.values() for each in some) == records


@pytest.mark.full
def test_the_command_previews_asks_and_says_what_it_did(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    line = published_line("postgresql")
    with_a_bad_contract(line)
    before = line.ledger()
    mended(line)

    def rewind(*options: str) -> tuple[int, str]:
        return run_command(line, rewinding.url, "rewind", *options)

    assert rewind("--to", "yesterday")[0] == ExitCode.USAGE
    preview = "partition 0: from 10 back to 4 (6 offsets)", "deleted: 9 rows; judged again: 5 refusals"
    code, told = rewind("--to", "0:4,1:4", "--dry-run")
    assert code == 0, told
    assert all(each in told for each in preview), told
    code, told = rewind("--to", "0:4,1:4")
    assert code == ExitCode.USAGE, told
    assert "there is no terminal to ask on" in told
    assert all(each in told for each in preview), told
    assert (line.ledger(), rewinding.kept(line)) == (before, [])
    code, told = rewind("--to", "0:4,1:4", "--yes")
    assert code == 0, told
    assert "is rewound as generation 1" in told
    assert "it goes on at 0: 4, 1: 4" in told
    line.enforce()
    require_mended(line, 28)


@pytest.mark.parametrize("sink", SINKS)
def test_a_bad_contract_is_undone(
    published_line: Callable[..., Line], rewinding: Rewinding, sink: str
) -> None:
    line = published_line(sink)
    with_a_bad_contract(line)
    before = line.ledger()
    assert before.totals == BatchTotals(written=15, quarantined=5)
    mended(line)
    with rewinding.open(line) as found:
        look = found.look(RewindTo.parse("0:4,1:4"))
    assert (line.ledger(), rewinding.kept(line)) == (before, [])
    assert (look.rewind.rows, look.rewind.rejudged) == (9, 5)
    ledger = rewinding.to(line, "0:4,1:4")
    assert line.ledger() == ledger
    assert (ledger.end, ledger.totals) == ({0: 4, 1: 4}, BatchTotals(written=6, quarantined=2))
    assert len(line.rows()) == 6
    assert line.reconcile().holds
    line.enforce()
    require_mended(line, 28)
    (kept,) = rewinding.kept(line)
    assert (kept["kind"], kept["generation"], kept["deleted"], kept["rejudged"]) == ("rewind", 1, 9, 5)
    assert kept["rewound_from"] == {"0": 10, "1": 10}
    assert kept["id"] == line.ledger().adopted


@pytest.mark.parametrize("sink", ["iceberg", *full("delta")])
def test_rows_are_deleted_in_the_version_that_moves_the_ledger(
    published_line: Callable[..., Line], rewinding: Rewinding, sink: str
) -> None:
    """Of the versions that a rewind adds, exactly one changes what readers see."""
    line = published_line(sink)
    with_a_bad_contract(line)
    before = line.states()
    mended(line)
    rewinding.to(line, "0:4,1:4")
    after = line.states()[len(before) - 1 :]
    changes = [(old, new) for old, new in pairwise(after) if old != new]
    assert changes == [((15, {0: 10, 1: 10}), (6, {0: 4, 1: 4}))]


@pytest.mark.full
@pytest.mark.parametrize("step", RewindStep)
@pytest.mark.parametrize("sink", ["iceberg", "delta", "postgresql"])
def test_a_rewind_that_was_cut_off_is_run_again(
    published_line: Callable[..., Line], rewinding: Rewinding, sink: str, step: RewindStep
) -> None:
    line = published_line(sink)
    with_a_bad_contract(line)
    mended(line)

    def cut(finished: RewindStep) -> None:
        if finished is step:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        rewinding.to(line, "0:4,1:4", cut)
    assert line.reconcile().holds
    if step is RewindStep.COMMIT:
        with pytest.raises(ConflictError, match="nothing is to be judged again"):
            rewinding.to(line, "0:4,1:4")
    else:
        assert len(line.rows()) == 15
        rewinding.to(line, "0:4,1:4")
    line.enforce()
    require_mended(line, 28)


@pytest.mark.full
def test_a_stream_continues_after_a_rewind_that_was_cut_off(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    """Nothing was rewound: the first verdicts stand, also those of the unpublished batch."""
    line = published_line("iceberg")
    with_a_bad_contract(line)
    mended(line)

    def cut(finished: RewindStep) -> None:
        if finished is RewindStep.DROPPED:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        rewinding.to(line, "0:4,1:4", cut)
    line.enforce()
    assert line.reconcile().holds
    assert {of for _, of in refusals(line)} == {0}
    assert set(refusals(line).values()) == {1}


@pytest.mark.parametrize("sink", full("iceberg", "delta", "postgresql"))
def test_an_instance_that_still_runs_cannot_publish_after_a_rewind(
    published_line: Callable[..., Line], rewinding: Rewinding, sink: str
) -> None:
    """It judged a batch by the bad contract, and the rewind came before it wrote anything."""
    line = published_line(sink)
    with_a_bad_contract(line)

    def rewind_meanwhile(_stream: str, step: Step) -> None:
        if step is Step.DECIDE and not rewinding.shown:
            rewinding.to(line, "0:4,1:4")

    with pytest.raises(Fenced):
        line.enforce(rewind_meanwhile)
    assert len(line.rows()) == 6
    mended(line)
    line.enforce()
    require_mended(line, 28)


@pytest.mark.full
def test_a_stream_is_rewound_again_and_again(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    """To a later point, which leaves two generations that count, and then to an earlier one, which swallows both."""
    line = published_line("iceberg")
    with_a_bad_contract(line)
    rewinding.to(line, "0:4,1:4")
    line.enforce()
    rewinding.to(line, "0:6,1:6")
    assert line.reconcile().holds
    line.enforce()
    assert line.reconcile().holds
    (first, second) = line.ledger().rewinds[1]
    assert (first, second) == ((4, 1), (6, 2))
    mended(line)
    rewinding.to(line, "0:2,1:4")
    assert line.ledger().rewinds[1] == ((4, 3),)
    line.enforce()
    assert line.reconcile().holds
    assert sorted(each["id"] for each in line.rows()) == sorted(f"r{n}" for n in range(28) if n % 4 != 2)


@pytest.mark.full
def test_partitions_that_are_not_named_stay(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    """Refusals of theirs that no batch has published stay final."""
    line = published_line("iceberg")
    with_a_bad_contract(line)
    mended(line)
    rewinding.to(line, "0:4")
    assert line.ledger().end == {0: 4, 1: 10}
    line.enforce()
    assert line.reconcile().holds
    of_partition_1 = {key: count for key, count in refusals(line).items() if key[0][0] == 1}
    assert {of for _, of in of_partition_1} == {0}
    assert set(of_partition_1.values()) == {1}


@pytest.mark.full
@pytest.mark.parametrize("sink", ["iceberg", *full("delta")])
def test_a_stream_is_rewound_to_a_snapshot(
    published_line: Callable[..., Line], rewinding: Rewinding, sink: str
) -> None:
    line = published_line(sink)
    mended(line)
    line.produce(*map(record, range(8)))
    line.enforce()
    if sink == "delta":
        name = f"delta.`file://{line.delta().name}`"
        at = line.spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0]["version"]
    else:
        at = snapshots(line)[-1]
    spoilt(line)
    line.produce(*map(record, range(8, 20)))
    line.enforce()
    mended(line)
    with pytest.raises(ConflictError, match="nothing was changed"):
        rewinding.to(line, "1234567")
    rewinding.to(line, str(at))
    assert line.ledger().end == {0: 4, 1: 4}
    line.enforce()
    require_mended(line, 20)


@pytest.mark.full
def test_a_stream_is_rewound_to_a_time(published_line: Callable[..., Line], rewinding: Rewinding) -> None:
    line = published_line("iceberg")
    mended(line)
    moment = datetime(2026, 7, 1, 12, tzinfo=UTC)
    late = int(moment.timestamp() * 1000)
    line.produce(*map(record, range(8)))
    line.enforce()
    spoilt(line)
    line.produce(*(replace(record(n), timestamp_ms=late + n) for n in range(8, 20)))
    line.enforce()
    mended(line)
    with pytest.raises(ConflictError, match="nothing is to be judged again"):
        rewinding.to(line, "2027-07-01T12:00:00Z")
    rewinding.to(line, "2026-07-01T14:00:00+02:00")
    assert line.ledger().end == {0: 4, 1: 4}
    line.enforce()
    require_mended(line, 20)


@pytest.mark.full
def test_dropped_records_are_judged_again_and_the_others_stay_proven(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    line = published_line("iceberg")
    line.contracts.plan = line.plan(rules=[{**KNOWN, "values": [GOOD], "on_violation": "drop"}])
    line.produce(*map(record, range(20)))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=15, dropped=5)
    rewinding.to(line, "0:4,1:4")
    assert line.ledger().totals == BatchTotals(written=6, dropped=2)
    assert line.reconcile().holds
    line.contracts.plan = line.plan(rules=[{**KNOWN, "values": [BAD], "on_violation": "drop"}])
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=15, dropped=5)
    answer = line.reconcile()
    assert (answer.holds, len(answer.unaccounted)) == (True, 0)


def test_what_cannot_be_rewound_is_refused_with_a_way_out(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    line = published_line("iceberg")
    with pytest.raises(NotFoundError, match="nothing to rewind"):
        rewinding.to(line, "0:4")
    line.produce(*map(record, range(20)))
    line.enforce()
    before, rows = line.ledger(), len(line.rows())
    for text, reason in (
        ("0:11", "the ledger covers 0 to 9"),
        ("7:1", "the ledger does not know it"),
        ("0:10,1:10", "nothing is to be judged again"),
        ("12", "snapshot 12 has expired"),
    ):
        with pytest.raises(ConflictError, match=reason):
            rewinding.to(line, text)
    forget(line, line.topic, 0, 5)
    with pytest.raises(ConflictError, match=r"it begins at 5.*Rewind to 0:5 or later"):
        rewinding.to(line, "0:4,1:4")
    assert (line.ledger(), len(line.rows()), rewinding.kept(line)) == (before, rows, [])
    rewinding.to(line, "0:5,1:4")
    line.enforce()
    assert len(line.rows()) == rows


@pytest.mark.full
def test_a_rewind_that_was_refused_is_not_noted_as_made(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    """After one, a lost ledger could not be adopted."""
    line = published_line("iceberg")
    line.produce(row(0), row(2))
    line.enforce()
    line.produce(row(4))
    with rewinding.open(line) as found, pytest.raises(Fenced):
        found.rewind(RewindTo.parse("0:1"), lambda _: line.enforce())
    assert rewinding.kept(line) == []


@pytest.mark.full
def test_a_topic_cannot_be_taken_back(published_line: Callable[..., Line], rewinding: Rewinding) -> None:
    line = published_line("kafka")
    line.produce(*map(record, range(8)))
    line.enforce()
    before = line.ledger(), line.accepted()
    for point in ("0:1", "2026-07-01T12:00:00Z", "7"):
        with pytest.raises(
            ConflictError, match=r"cannot be taken back.*--sink iceberg.*tidegate archive .* --repeat-records"
        ):
            rewinding.to(line, point)
    assert (line.ledger(), line.accepted(), rewinding.kept(line)) == (*before, [])


@pytest.mark.full
@pytest.mark.parametrize("sink", ["iceberg", "delta", "postgresql"])
def test_merged_rows_cannot_be_taken_back(
    make_line: Callable[..., Line], publish: Publish, rewinding: Rewinding, sink: str
) -> None:
    line = make_line(sink=sink, write_mode="upsert")
    publish(line.document(primary_key=["id"]))
    line.contracts.plan = line.plan(primary_key=["id"])
    line.produce(*map(record, range(8)))
    line.enforce()
    before = line.ledger(), line.rows()
    for point in ("0:1", "2026-07-01T12:00:00Z", "7" if sink == "postgresql" else str(newest_version(line))):
        with pytest.raises(ConflictError, match=r"upserted into.*tidegate archive"):
            rewinding.to(line, point)
    assert (line.ledger(), line.rows(), rewinding.kept(line)) == (*before, [])


@pytest.mark.full
def test_lost_rows_come_back_when_their_records_are_judged_again(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    """A row that was lost before the point stays lost, and visible."""
    line = published_line("postgresql")
    mended(line)
    line.produce(*map(record, range(20)))
    line.enforce()
    with line.database() as connection:
        table = sql.Identifier(*qualified_name(line.contract_id))
        gone = sql.SQL("DELETE FROM {} WHERE _source_partition = 1 AND _source_offset = 6").format(table)
        assert connection.execute(gone).rowcount == 1
    assert line.reconcile().lost == 1
    rewinding.to(line, "0:4,1:4")
    assert line.reconcile().holds
    line.enforce()
    require_mended(line, 20)


@pytest.mark.full
def test_a_rewound_stream_whose_ledger_is_replaced_keeps_its_generation(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    line = published_line("postgresql")
    with_a_bad_contract(line)
    mended(line)
    rewinding.to(line, "0:4,1:4")
    line.enforce()
    before = line.ledger()
    with Adopter.opened(rewinding.settings(line), line.contract_id) as found:
        adopted = found.rebuild(None, lambda _: None, replace=True)
    assert (adopted.generation, adopted.rewinds) == (before.generation, before.rewinds)
    line.enforce()
    assert line.reconcile().holds
    with line.database() as connection:
        connection.execute("UPDATE tidegate.ledger SET ledger = NULL, epoch = 0, n = 0")
    with (
        Adopter.opened(rewinding.settings(line), line.contract_id) as found,
        pytest.raises(ConflictError, match="was rewound, and its ledger is lost"),
    ):
        found.rebuild(None, lambda _: None)


@pytest.mark.full
def test_a_topic_that_was_created_again_is_not_rewound(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    line = published_line("iceberg")
    line.produce(*map(record, range(8)))
    line.enforce()
    text = json.loads(line.ledger().text)
    text["topic_id"] = "another"
    name = f"lake.{line.contract_id}"
    line.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('tidegate.ledger' = '{json.dumps(text)}')")
    with pytest.raises(StreamStopped, match="created again"):
        rewinding.to(line, "0:1")
