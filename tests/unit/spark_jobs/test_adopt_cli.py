"""What `tidegate adopt` shows, and what it must be told before it changes anything."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import cast

import pytest
import typer

from tests.ledgers import LEDGER
from tidegate.contracts.errors import ConflictError, SettingsError
from tidegate.contracts.stream.adoption import OutputPositions, SourceRange, bounds, propose
from tidegate.contracts.stream.ledger import Position
from tidegate.contracts.stream.positions import Positions, Sightings
from tidegate.spark_jobs.adopt.adopt import Look, Skip
from tidegate.spark_jobs.adopt.cli import _archive_name, _value, adopt, erase
from tidegate.spark_jobs.adopt.confirmations import Confirmations
from tidegate.spark_jobs.sinks.quarantine_table import SUFFIX


def look(written: list[Position], quarantined: list[Position], records: list[Position]) -> Look:
    found = OutputPositions(Sightings(written), Sightings(quarantined), "quarantined", 100)
    source = SourceRange({0: 1}, {0: 9})
    limits = bounds(found, source, from_earliest=True)
    proposal = propose(found, source, limits, Positions(records) & limits.holes)
    return Look("iceberg:lake.a.b", None, "a.b@iceberg:1", found, proposal, {"a.b@iceberg:0": 3})


CANNOT_BE_PROVEN = (
    "cannot be proven: 1 offsets are in no output. They may be records that the contract dropped or that an upsert "
    "replaced or deleted, which leave no trace; or they are lost"
)
WHOLE = look([(0, 1), (0, 2)], [(0, 4)], [])
HOLES = look([(0, 0), (0, 2), (0, 6), (0, 6)], [(0, 4), (0, 6)], [(0, 3)])


def test_what_is_there_and_what_cannot_be_proven_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConflictError, match=r"^1 offsets are in no output, and nothing was changed"):
        Confirmations(is_sure=True).confirm_look(HOLES)
    assert capsys.readouterr().out.splitlines() == [
        "iceberg:lake.a.b: no ledger; a.b@iceberg:1 follows from what is there",
        "  partition 0: written 0 to 6, quarantined 4 to 6; ledger 0 to 6; holes: 2 without a record, 1 in no output",
        "accounted for: 3 written, 1 quarantined, 2 offsets without a record",
        "not counted: 3 quarantined records of ledger a.b@iceberg:0",
        "there twice already: 1 records, which stay as they are: 0/6",
        CANNOT_BE_PROVEN,
        "  the source still holds 1 of them: 0/3",
    ]


@pytest.mark.parametrize("holes", [None, 0, 2])
def test_a_script_names_the_exact_number_of_holes(holes: int | None) -> None:
    with pytest.raises(ConflictError, match="--holes 1 confirms it"):
        Confirmations(is_loss_accepted=True, holes=holes, is_sure=True).confirm_look(HOLES)


def test_what_was_said_is_enough() -> None:
    Confirmations(is_loss_accepted=True, holes=1, is_sure=True).confirm_look(HOLES)
    Confirmations(is_sure=True).confirm_look(WHOLE)
    Confirmations(is_loss_accepted=True, holes=None, is_sure=True).confirm_skip(Skip("s", LEDGER, 7, 3))


def test_without_a_terminal_nothing_is_asked_and_nothing_done() -> None:
    with pytest.raises(SettingsError, match="no terminal to ask on"):
        Confirmations(is_sure=False).confirm_look(WHOLE)


@pytest.mark.parametrize(
    ("partition", "first", "what"),
    [
        (7, 3, "it was added since the ledger was written; up to 3 records (offsets 0 to 2) are given up"),
        (0, 14, "the ledger has it up to 10; 4 offsets (10 to 13) are given up"),
    ],
)
def test_a_skip_says_what_is_given_up(
    partition: int, first: int, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    skip = Skip("kafka:t.accepted", LEDGER, partition, first)
    with pytest.raises(ConflictError, match="--accept-loss"):
        Confirmations(is_sure=True).confirm_skip(skip)
    assert (
        capsys.readouterr().out
        == f"kafka:t.accepted: partition {partition} of t goes on at {first}: {what}\n"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"partition": 3},
        {"first": 3},
        {"replace": True, "ledger": "x"},
        {"replace": True, "partition": 1, "first": 2},
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        adopt("a.b", **options)  # type: ignore[arg-type] # as the command line gives them


def test_an_erasure_takes_its_value_from_a_file_and_asks_for_one_way_to_name_the_person() -> None:
    def given(text: str) -> typer.FileText:
        return cast("typer.FileText", io.StringIO(text))

    assert _value(given("p-4711\r\n")) == "p-4711"
    for wrong in ("", "\n", "a\nb", "x" * 1_001):
        with pytest.raises(SettingsError, match="1 to 999 characters"):
            _value(given(wrong))
    with pytest.raises(SettingsError, match="--subject FIELD or --key"):
        erase("a.b")
    with pytest.raises(SettingsError, match="--subject FIELD or --key"):
        erase("a.b", subject="id", key=True)


@pytest.mark.parametrize(
    ("stream", "name"),
    [("ward.stays", "stays_20260102T030405"), (f"ward.{'s' * 60}", f"{'s' * 36}_20260102T030405")],
)
def test_the_default_name_of_an_archived_table_fits_every_sink(stream: str, name: str) -> None:
    assert _archive_name(stream, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == name
    assert len(name + SUFFIX) <= 63
