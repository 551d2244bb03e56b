"""`tidegate erase`: the records of one person are removed from the table and the quarantine topic, and no others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from pyarrow.parquet import read_table

from tests.integration.enforce.adopting import run_command
from tests.integration.enforce.job import Publish
from tests.integration.enforce.line import Line, Sent, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.replaying import KEYED, MENDED, refusals, request, sent_back
from tests.integration.enforce.test_rewind import Rewinding
from tests.integration.enforce.test_snapshot_expiry import table_of
from tests.integration.enforce.test_source_changes import PowerCutError, cut_after_quarantine
from tests.marks import full
from tidegate.contracts.errors import ConflictError, Fenced, StreamStopped
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.evidence import SOURCE_HEADER
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, span
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.replay import ReplayState
from tidegate.gateway.exits import ExitCode
from tidegate.spark_jobs.adopt.erase import EraseLook, Eraser, EraseStep, Subject
from tidegate.spark_jobs.kafka.topics import Topics

PERSON = "p-4711"
OTHER = "p-47110"
"""Holds the person's value as a part."""


def of(person: str, number: int, amount: int = 1) -> Sent:
    value = json.dumps({"id": person, "amount": amount}).encode()
    return Sent(value, key=person.encode(), partition=number % 2)


class Erasing:
    """Erases records of lines with a real registry; keeps what was shown before the last confirmation."""

    def __init__(self, registry: Registry) -> None:
        self.url = registry.url
        self.shown: list[EraseLook] = []

    def erase(
        self, line: Line, subject: Subject, told: Callable[[EraseStep], None] = lambda _: None
    ) -> Ledger:
        settings = line.settings.model_copy(update={"registry_url": self.url})
        with Eraser.opened(settings, line.contract_id, told) as found:
            return found.erase(subject, self.shown.append)

    def kept(self, line: Line) -> str:
        answer = httpx.get(f"{self.url}/api/v1/streams/{line.contract_id}/adoptions")
        answer.raise_for_status()
        return answer.text


@pytest.fixture
def erasing(registry: Registry) -> Erasing:
    return Erasing(registry)


def with_a_person(line: Line) -> None:
    """Write two rows of the person and three refused records among those of others; one is no JSON."""
    line.produce(*(row(n, 999 if n % 4 == 3 else 1) for n in range(8)))
    line.produce(of(PERSON, 0), of(PERSON, 1, 999), of(OTHER, 0), of(OTHER, 1, 999), of(PERSON, 0, 999))
    line.enforce()
    line.produce(of(PERSON, 1), Sent(b'{"id": "p-4711", ', key=b"x"), row(8, 999), row(9))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=10, quarantined=7)


def values(line: Line) -> list[bytes]:
    return [each.value or b"" for each in line.quarantined()]


def require_erased(line: Line, *, rows: int, quarantined: int) -> None:
    """Require that nothing of the person is left, everything of others is there once, and `reconcile` agrees."""
    assert [each["id"] for each in line.rows() if each["id"] == PERSON] == []
    assert len(line.rows()) == rows
    found = values(line)
    assert [each for each in found if b'"p-4711"' in each] == []
    assert len(found) == len(set(found)) == quarantined
    assert any(OTHER.encode() in each for each in found)
    totals = line.ledger().totals
    assert (totals.written, totals.quarantined, totals.dropped) == (rows, quarantined, 5)
    answer = line.reconcile()
    assert answer.holds, answer


@pytest.mark.parametrize("sink", ["iceberg", *full("delta", "postgresql")])
def test_a_person_is_erased_and_the_stream_continues(
    published_line: Callable[..., Line], erasing: Erasing, sink: str
) -> None:
    line = published_line(sink)
    with_a_person(line)
    before = {dict(each.headers)[SOURCE_HEADER]: each for each in line.quarantined()}
    ledger = erasing.erase(line, Subject(PERSON, "id"))
    (shown,) = erasing.shown
    assert (len(shown.erasure.rows), shown.erasure.quarantined, shown.unread, shown.left) == (2, 3, 1, "")
    assert line.ledger() == ledger
    require_erased(line, rows=8, quarantined=4)
    kept = {dict(each.headers)[SOURCE_HEADER]: each for each in line.quarantined()}
    assert kept == {
        source: each for source, each in before.items() if source in kept
    }  # also headers, keys and times
    earliest = Topics(line.settings.kafka).earliest(quarantine_topic(line.topic))
    assert sum(earliest.values()) >= 7
    line.produce(row(10, 999), row(11))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=9, quarantined=5, dropped=5)
    assert line.reconcile().holds
    told = erasing.kept(line)
    assert (
        json.loads(told)["adoptions"][0]["adoption"].items()
        >= {"kind": "erasure", "deleted": 2, "erased": 3}.items()
    )
    assert PERSON not in told


@pytest.mark.full
def test_large_records_are_copied_in_several_transactions(
    published_line: Callable[..., Line], erasing: Erasing
) -> None:
    """A few of them fill a transaction of the copy, long before there are as many as it may have."""
    line = published_line("postgresql")
    padding = "x" * 900_000
    large = [json.dumps({"id": f"{padding}{n}", "amount": 999}).encode() for n in range(100)]
    line.produce(*(Sent(value, partition=0) for value in large), of(PERSON, 0, 999))
    line.enforce()
    topics, topic = Topics(line.settings.kafka), quarantine_topic(line.topic)
    before = topics.latest(topic)
    erasing.erase(line, Subject(PERSON, "id"))
    copied = span(before, topics.latest(topic))
    assert values(line) == large
    # The commit of a transaction takes an offset; the check for a newer erasure takes two, for a record and its abort.
    assert copied == len(large) + 2 + 2


@pytest.mark.full
def test_the_command_previews_asks_and_says_what_it_did_without_the_value(
    published_line: Callable[..., Line], erasing: Erasing, tmp_path: Path
) -> None:
    line = published_line("postgresql")
    with_a_person(line)
    before = line.ledger()
    person = tmp_path / "person.txt"
    outputs: list[str] = []

    def erase(value: str, *options: str) -> tuple[int, str]:
        person.write_text(f"{value}\n")
        named = ("--subject", "id", "--value-file", str(person), *options)
        code, told = run_command(line, erasing.url, "erase", *named)
        outputs.append(told)
        return code, told

    preview = "erased: 2 rows and 3 refused records", "1 of the refused ones cannot be decoded"
    for options, expected in [(("--dry-run",), 0), ((), ExitCode.USAGE)]:
        code, told = erase(PERSON, *options)
        assert code == expected, told
        assert all(each in told for each in preview), told
    assert line.ledger() == before
    code, told = erase("nobody", "--yes")
    assert (code, line.ledger()) == (0, before), told
    code, told = erase(PERSON, "--yes")
    assert code == 0, told
    assert "the records are erased" in told
    require_erased(line, rows=8, quarantined=4)
    assert not [told for told in outputs if PERSON in told]


@pytest.mark.full
def test_no_file_has_values_of_erased_persons_when_snapshots_have_expired(
    published_line: Callable[..., Line], erasing: Erasing
) -> None:
    """The snapshot of the first deletion names files that have values of the second person."""
    line = published_line("iceberg")
    with_a_person(line)
    for person in (OTHER, PERSON):
        erasing.erase(line, Subject(person, "id"))
    for number in (10, 12):
        line.produce(row(number))
        line.enforce(snapshot_expiry=False)
    table_of(line).maintain()
    folder = line.settings.warehouse / Path(*line.contract_id.split("."))
    stored = {each for path in folder.rglob("*.parquet") for each in read_table(path)["id"].to_pylist()}
    assert stored == {each["id"] for each in line.rows()}


@pytest.mark.full
@pytest.mark.parametrize("step", EraseStep)
@pytest.mark.parametrize("sink", ["iceberg", "delta", "postgresql"])
def test_an_erasure_that_was_cut_off_is_run_again(
    published_line: Callable[..., Line], erasing: Erasing, sink: str, step: EraseStep
) -> None:
    """The stream goes on between the two, whatever the first has left."""
    line = published_line(sink)
    with_a_person(line)

    def cut(finished: EraseStep) -> None:
        if finished is step:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        erasing.erase(line, Subject(PERSON, "id"), cut)
    line.produce(row(10, 999), row(11))
    line.enforce()
    erasing.erase(line, Subject(PERSON, "id"))
    require_erased(line, rows=9, quarantined=5)


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({"sink": "kafka"}, "is not erased: write a tombstone"),
        pytest.param(
            {"sink": "iceberg", "write_mode": "upsert"},
            "is not erased: write a tombstone",
            marks=pytest.mark.full,
        ),
    ],
)
def test_where_rows_cannot_be_taken_back_the_quarantine_is_erased(
    make_line: Callable[..., Line], publish: Publish, erasing: Erasing, settings: dict[str, str], left: str
) -> None:
    line = make_line(**settings)
    publish(line.document(**KEYED))
    line.contracts.plan = line.plan(**KEYED)
    line.produce(of(PERSON, 0), of(PERSON, 1, 999), of(OTHER, 1, 999))
    line.enforce()
    erasing.erase(line, Subject(PERSON, "id"))
    assert left in erasing.shown[0].left
    assert [each for each in values(line) if b'"p-4711"' in each] == []
    assert line.ledger().totals == BatchTotals(written=1, quarantined=1, dropped=1)
    assert line.reconcile().holds
    line.produce(Sent(None, PERSON.encode(), 0))
    line.enforce()
    if line.settings.sink == "kafka":
        assert [(each.key, each.value) for each in line.accepted()][1:] == [(PERSON.encode(), None)]
    else:
        assert line.rows() == []
    assert line.reconcile().holds


@pytest.mark.full
@pytest.mark.full
def test_two_erasures_of_one_topic_do_not_bring_back_what_the_other_erases(
    published_line: Callable[..., Line], erasing: Erasing
) -> None:
    """Two sinks of one contract share the quarantine topic. The first erasure ends, and is run again."""
    line = published_line("iceberg")
    with_a_person(line)
    beside = replace(line, settings=line.settings.model_copy(update={"sink": "kafka"}))
    beside.enforce()
    assert len(values(line)) == 2 * 7
    others = erasing.erase

    def erase_beside(finished: EraseStep) -> None:
        if finished is EraseStep.COMMIT:
            others(beside, Subject(OTHER, "id"))

    with pytest.raises(Fenced):
        erasing.erase(line, Subject(PERSON, "id"), erase_beside)
    erasing.erase(line, Subject(PERSON, "id"))
    found = Counter(values(line))
    assert (found[b'{"id": "p-4711", "amount": 999}'], found[b'{"id": "p-47110", "amount": 999}']) == (2, 1)
    assert found[b'{"id": "r3", "amount": 999}'] == 2
    assert line.reconcile().holds
    assert beside.reconcile().holds


@pytest.mark.full
def test_an_upserted_table_is_erased_with_the_write_mode_of_its_job(
    make_line: Callable[..., Line], publish: Publish, erasing: Erasing
) -> None:
    line = make_line(sink="iceberg", write_mode="upsert")
    publish(line.document(**KEYED))
    line.contracts.plan = line.plan(**KEYED)
    line.produce(of(PERSON, 0), of(PERSON, 0, 2))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=1, superseded=1)
    forgotten = replace(line, settings=line.settings.model_copy(update={"write_mode": "append"}))
    with pytest.raises(ConflictError, match="Give the options of the job: --write-mode upsert"):
        erasing.erase(forgotten, Subject(PERSON, "id"))
    assert len(line.rows()) == 1


@pytest.mark.full
def test_an_erasure_that_is_refused_is_not_noted_as_made(
    published_line: Callable[..., Line], erasing: Erasing
) -> None:
    line = published_line("iceberg")
    with_a_person(line)

    def publish_more(finished: EraseStep) -> None:
        if finished is EraseStep.CLAIM:
            line.produce(of(PERSON, 0))
            line.enforce()

    with pytest.raises(StreamStopped, match="the outputs changed before you confirmed"):
        erasing.erase(line, Subject(PERSON, "id"), publish_more)
    assert json.loads(erasing.kept(line))["adoptions"] == []


@pytest.mark.full
def test_a_key_names_the_person(published_line: Callable[..., Line], erasing: Erasing) -> None:
    """Rows are found by the records that the source still holds."""
    line = published_line("iceberg")
    with_a_person(line)
    erasing.erase(line, Subject(PERSON))
    assert (len(erasing.shown[0].erasure.rows), erasing.shown[0].erasure.quarantined) == (2, 2)
    assert "run it with --subject too" in erasing.shown[0].left
    assert line.reconcile().holds
    erasing.erase(line, Subject(PERSON, "id"))
    require_erased(line, rows=8, quarantined=4)


@pytest.mark.full
def test_an_unpublished_batch_is_published_first(
    published_line: Callable[..., Line], erasing: Erasing
) -> None:
    line = published_line("iceberg")
    with_a_person(line)
    line.produce(of(PERSON, 0, 999))
    with pytest.raises(PowerCutError):
        line.enforce(cut_after_quarantine)
    before = line.ledger()
    with pytest.raises(ConflictError, match="belong to a batch that was not published; nothing was changed"):
        erasing.erase(line, Subject(PERSON, "id"))
    assert line.ledger() == before
    line.enforce()
    erasing.erase(line, Subject(PERSON, "id"))
    assert line.reconcile().holds
    assert [each for each in values(line) if b'"p-4711"' in each] == []


@pytest.mark.full
@pytest.mark.parametrize("sink", ["iceberg", "delta", "postgresql"])
def test_records_that_were_closed_before_are_erased_too(
    published_line: Callable[..., Line], erasing: Erasing, registry: Registry, sink: str
) -> None:
    """One was discarded, and one was corrected and sent to the source, whose copy is a row."""
    line = published_line(sink)
    with_a_person(line)
    place_of = {source: place for place, source in refusals(line).items()}
    request(line, [place_of[1, 4]], action="discard", reason="the ward was closed")
    request(line, [place_of[0, 6]], fix=MENDED, action="to-source")
    line.enforce()
    line.enforce()  # the copy
    assert [json.loads(each.value() or b"")["id"] for each in sent_back(line)] == [PERSON]
    before = line.ledger()
    assert {closure: each.records for closure, each in before.closed.items()} == {
        Closure.DISCARDED: 1,
        Closure.RESENT: 1,
    }
    erasing.erase(line, Subject(PERSON, "id"))
    (shown,) = erasing.shown
    assert (len(shown.erasure.rows), shown.erasure.quarantined) == (3, 3)
    assert line.ledger().closed == before.closed
    assert line.reconcile().holds
    request(line, fix=MENDED)
    line.enforce()
    told = line.replays.told[-1]
    assert (told.state, told.written, told.left) == (ReplayState.DONE, 4, 0)
    assert PERSON not in {each["id"] for each in line.rows()}
    assert [each for each in values(line) if b'"p-4711"' in each] == []
    assert line.reconcile().holds
    Rewinding(registry).to(line, "0:0,1:0")
    assert line.reconcile().holds
    line.enforce()
    assert line.reconcile().holds
    assert len(sent_back(line)) == 1
