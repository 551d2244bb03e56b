"""What a person sees of the demo: lines of progress, and the figures at its end."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

from rich.console import Console
from rich.text import Text

from tidegate.contracts.document.load import load_contract
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.cli.demo_screen import DemoScreen
from tidegate.gateway.cli.demo_summary import summary
from tidegate.gateway.embedded.demo import admissions, flights
from tidegate.gateway.embedded.demo.figures import CorruptionFigures, DemoReport, StreamFigures, StreamResult
from tidegate.gateway.embedded.demo.run import Finished
from tidegate.gateway.embedded.demo.stays import Stays

START = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)

FLIGHTS = StreamResult(
    figures=StreamFigures(
        received=336_776,
        accepted=335_772,
        quarantined=1_004,
        dropped=0,
        refused_by_rule={"arrived-flight-was-timed": 1_000, "speed-is-possible": 4},
        corruptions={},
        wrongly_refused=0,
        records_per_second=20_000,
    ),
    reasons={"arrived-flight-was-timed": "air_time is missing", "speed-is-possible": "breaks the expression"},
    warned_by_rule={"aircraft-mark-is-well-formed": 22_754},
    problems=(),
)
ADMISSIONS = StreamResult(
    figures=StreamFigures(
        received=2_000,
        accepted=1_989,
        quarantined=11,
        dropped=0,
        refused_by_rule={"age-is-known": 10, "not-the-epoch": 1, "type": 1},
        corruptions={
            "age 999": CorruptionFigures(planted=10, caught=10),
            "discharge 1900-01-01": CorruptionFigures(planted=1, caught=1),
        },
        wrongly_refused=0,
        records_per_second=500,
    ),
    reasons={"type": "must be of type integer"},
    warned_by_rule={},
    problems=(),
)


def _finished(*problems: str) -> Finished:
    spoiled = StreamResult(ADMISSIONS.figures, ADMISSIONS.reasons, ADMISSIONS.warned_by_rule, problems)
    results = {"nyc.flights": FLIGHTS, "hospital.admissions": spoiled}
    contracts = [load_contract(file).contract for file in (flights.CONTRACT_FILE, admissions.CONTRACT_FILE)]
    return Finished(
        report=DemoReport(
            streams={name: result.figures for name, result in results.items()},
            seconds_to_first_verdict=14.2,
            seconds=38.1,
        ),
        results=results,
        contracts={contract.id: contract for contract in contracts},
        arrived=Stays(mean_days=1.67, by_hospital={"CAM01": 8.2, "LHR07": -320.7}),
        kept=Stays(mean_days=8.55, by_hospital={"CAM01": 8.2, "LHR07": 8.4}),
        desk="http://127.0.0.1:8081/desk",
        replay="tidegate replay hospital.admissions --where rule=type --dry-run",
    )


def test_the_summary_shows_every_figure() -> None:
    assert summary(_finished()).plain.splitlines() == [
        "",
        "nyc.flights  336,776 in = 335,772 accepted + 1,004 quarantined + 0 dropped",
        "  refused  arrived-flight-was-timed       1,000  A flight that arrived was in the air for some time.",
        "  refused  speed-is-possible                  4  No airliner makes good more than 600 miles an hour.",
        "  warned   aircraft-mark-is-well-formed  22,754  A fleet number, which no aircraft register knows.",
        "",
        "hospital.admissions  2,000 in = 1,989 accepted + 11 quarantined + 0 dropped",
        "  refused  age-is-known                      10  999 stands for unknown, and lifts every mean.",
        "  refused  not-the-epoch                      1  1900-01-01 stands for a missing date.",
        "  refused  type                               1  must be of type integer",
        "",
        "                                 planted    caught",
        "  age 999                             10        10",
        "  discharge 1900-01-01                 1         1",
        "  wrongly refused                                0",
        "",
        "mean length of stay: 1.7 days as it arrived, 8.6 days with the contract",
        "  in hospital LHR07: \N{MINUS SIGN}320.7 days as it arrived, 8.4 days with the contract",
        "",
        "every offset accounted for: 338,776 in = 337,761 accepted + 1,015 quarantined + 0 dropped",
        "first verdict after 14.2 s, everything in 38.1 s",
        "open http://127.0.0.1:8081/desk",
    ]


def test_sums_that_do_not_hold_are_named() -> None:
    lines = summary(_finished("2 records were refused that are right")).plain.splitlines()
    place = lines.index("sums that do not hold:")
    assert lines[place + 1] == "  hospital.admissions: 2 records were refused that are right"
    assert not any(line.startswith("every offset accounted for") for line in lines)


def test_a_narrow_terminal_cuts_lines() -> None:
    lines = summary(_finished(), width=80).plain.splitlines()
    assert max(map(len, lines)) == 80
    assert lines[2].endswith("…")


def test_progress_without_a_terminal_is_a_line_for_each_report() -> None:
    written = io.StringIO()
    with DemoScreen(Console(file=written, width=120)) as screen:
        screen.say("registry", "ready")
        screen.expect("nyc.flights", 100_000)
        screen.advance("nyc.flights", [_batch(50_000, 500)])
        screen.advance("nyc.flights", [_batch(50_000, 500), _batch(50_000, 0)])
    assert written.getvalue().splitlines() == [
        "registry             ready",
        "nyc.flights             50,000 / 100,000    25.0 k records/s    1.00% refused",
        "nyc.flights            100,000 / 100,000    50.0 k records/s    0.50% refused",
    ]


def test_progress_on_a_terminal_is_a_bar() -> None:
    written = io.StringIO()
    with DemoScreen(Console(file=written, width=120, force_terminal=True, _environ={})) as screen:
        screen.expect("nyc.flights", 100_000)
        screen.advance("nyc.flights", [_batch(50_000, 500)])
    lines = Text.from_ansi(written.getvalue()).plain.splitlines()
    last = [line for line in lines if line.startswith("nyc.flights")][-1]
    assert last.split() == [
        *(
            "nyc.flights",
            "━" * 12 + "╺" + "━" * 11,
            "50,000",
            "/",
            "100,000",
            "25.0",
            "k",
            "records/s",
            "1.00%",
            "refused",
        )
    ]


def _batch(records: int, quarantined: int) -> BatchReport:
    return BatchReport(
        stream="nyc.flights",
        topic="nyc.flights",
        quarantine_topic="nyc.flights.quarantine",
        sink="iceberg:lake.nyc.flights",
        epoch=1,
        n=1,
        contract="nyc.flights@1.0.0",
        fingerprint="0" * 64,
        started_at=START,
        committed_at=START + timedelta(seconds=2),
        records=records,
        written=records - quarantined,
        warned=0,
        alerted=0,
        quarantined=quarantined,
        dropped=0,
        start={},
        end={},
    )
