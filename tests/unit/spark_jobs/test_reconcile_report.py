"""What `tidegate reconcile` prints."""

from __future__ import annotations

import json
from dataclasses import replace

from tests import ledgers
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.reconcile import Reconciliation
from tidegate.contracts.stream.reconciliation import FaultyRecords, ReconciliationAnswer
from tidegate.spark_jobs.reconcile.report import as_findings, as_text, json_text

LEDGER = ledgers.LEDGER.model_copy(update={"begin": {0: 5}, "end": {0: 1012}})
FINE = Reconciliation(
    ledger=LEDGER,
    unaccounted=Positions({(0, 3)}),
    written_twice=Positions(),
    quarantined_twice=Positions(),
    in_both=Positions(),
    beyond=Positions(),
    written=1_000,
    quarantined=2,
    in_no_output=1,
    absent=4,
)


def test_what_holds_names_no_record() -> None:
    found = as_findings(FINE, 20)
    assert (found.holds, json.loads(json_text(found))["records"]) == (True, {})
    assert (found.epoch, found.n, found.begin, found.end) == (3, 7, {0: 5}, {0: 1012})
    assert as_text(found).splitlines() == [
        "         1,000  written",
        "             2  quarantined",
        "             1  dropped superseded or deleted",
        "             4  absent",
        "             0  unverifiable",
        "s: every offset has one fate",
    ]


def test_closed_records_are_counted_among_the_quarantined() -> None:
    found = as_findings(replace(FINE, closed=1), 20)
    assert (found.holds, found.quarantined, found.closed) == (True, 2, 1)
    assert as_text(found).splitlines()[1:3] == [
        "             2  quarantined",
        "             1    of them discarded or sent to the source topic",
    ]


def test_records_of_no_fate_or_two_are_named_in_their_order() -> None:
    lost = Positions({(0, 10), (0, 9), (1, 0)})
    found = replace(FINE, lost=2, unaccounted=lost, in_both=Positions({(2, 5)}), beyond=Positions({(0, 99)}))
    findings = as_findings(found, 2)
    assert json.loads(json_text(findings))["records"] == {
        "in_no_output": {"count": 3, "first": ["0/9", "0/10"]},
        "written_and_quarantined": {"count": 1, "first": ["2/5"]},
        "written_but_not_covered": {"count": 1, "first": ["0/99"]},
    }
    text = as_text(findings)
    assert "             3  in no output: 0/9, 0/10 ...\n" in text
    assert text.endswith("s: lost 2, twice 1: stop the stream, keep the topics, and ask who wrote")


def test_a_quarantine_table_that_differs_is_told_apart_from_lost_records() -> None:
    found = as_findings(replace(FINE, not_kept=Positions({(0, 9)}), kept_twice=Positions({(1, 4)})), 20)
    assert (found.answer, found.lost, found.twice, found.is_only_of_quarantine_table) == (
        ReconciliationAnswer.LOST,
        0,
        0,
        True,
    )
    text = as_text(found)
    assert "             1  not in quarantine table: 0/9\n" in text
    assert text.endswith("drop the table, and the next start of the job fills a new one")
    both = as_findings(replace(FINE, lost=1, not_kept=Positions({(0, 9)})), 20)
    assert not both.is_only_of_quarantine_table
    assert "ask who wrote" in as_text(both)


def test_what_cannot_be_proven_is_not_said_to_hold() -> None:
    found = as_findings(replace(FINE, past_retention=39, forgotten=2, unverifiable=42), 20)
    assert (found.answer, found.holds, found.records) == (
        ReconciliationAnswer.UNPROVEN,
        False,
        FaultyRecords(),
    )
    text = as_text(found)
    assert "            42  unverifiable\n" in text
    assert text.endswith(
        "s: cannot be proven: no fault shows, but the fate of 42 offsets cannot be shown; docs/how-to/reconcile.md says why"
    )
