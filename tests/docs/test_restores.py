"""Every row of the table of restores names tests that restore, and that show what the row says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from tests.docs.named_tests import after_the_stop, named_test, pattern_of, takes_its_verb
from tests.docs.test_stops import messages

PAGE = Path(__file__).parents[2] / "docs/how-to/back-up-and-restore.md"
HEAD = "| restored, older than the rest | what happens | how to continue | test |"
ENFORCE = "integration/enforce"
SHOWN_BY = {
    "registry, without the version that judged the last batch": [("unit/spark_jobs/test_contract_source.py", "test_a_registry_that_lost_the_version_of_the_ledger_stops_the_stream", "by which the last batch")],
    "registry, with a newer version published since": [("unit/spark_jobs/test_contract_source.py", "test_a_new_version_is_taken_up", "contract.version == '1.1.0'")],
    "registry, without decisions that a job has seen: at a start, a batch or a pause": [
        ("unit/spark_jobs/test_control.py", "test_a_gateway_that_forgot_decisions_stops_the_stream", "knows 1 decisions about"),
        (f"{ENFORCE}/test_pause.py", "test_a_registry_restored_without_decisions_stops_the_stream_at_its_start", "knows 0 decisions about"),
        (f"{ENFORCE}/test_pause.py", "test_a_registry_restored_without_a_pause_is_noticed_although_no_batch_followed_it", "knows 0 decisions about"),
    ],
    "registry, without decisions that no job has seen, because none ran since": [("unit/cli/test_audit.py", "test_a_log_without_its_end_and_with_a_rewritten_head_shows_with_a_head_that_was_noted", "checked.returncode == 1")],
    "registry, without an adoption, archive, rewind or erasure": [(f"{ENFORCE}/test_adoption.py", "test_a_registry_restored_without_an_adoption_lets_the_stream_go_on", "unproven=2")],
    "registry, without the reports of replays and discards": [(f"{ENFORCE}/test_closed_records.py", "test_a_restored_registry_learns_again_what_was_replayed_and_discarded", "lost == 'reports'")],
    "registry, without requests to replay or discard records": [(f"{ENFORCE}/test_closed_records.py", "test_a_restored_registry_learns_again_what_was_replayed_and_discarded", "lost == 'requests'")],
    "table and ledger together, PostgreSQL": [(f"{ENFORCE}/test_rolled_back.py", "test_a_database_that_is_restored_from_a_backup_continues_from_there", "restored_later(line)")],
    "the same, with reports of later batches in the registry": [(f"{ENFORCE}/test_rolled_back.py", "test_the_registry_takes_the_reports_of_a_restored_ledger", "epoch == reported + 1")],
    "the table `tidegate.ledger` alone, PostgreSQL": [
        ("integration/postgresql/test_restores.py", "test_an_older_ledger_beside_newer_rows_stops_the_stream", "tidegate adopt hospital.admissions --replace"),
        (f"{ENFORCE}/test_adoption_after_rollback.py", "test_a_ledger_in_postgresql_that_is_older_than_its_rows_stops_the_stream", "restored from an older moment"),
    ],
    "the rows alone, PostgreSQL": [("integration/postgresql/test_restores.py", "test_fewer_rows_than_the_ledger_counts_are_logged", "table_rows_missing")],
    "an Iceberg or Delta table, or a table without its ledger": [
        (f"{ENFORCE}/test_rolled_back.py", "test_a_rolled_back_table_stops_the_stream_when_it_starts", "was rolled back"),
        (f"{ENFORCE}/test_rolled_back.py", "test_a_delta_table_that_is_restored_stops_the_stream", "was restored"),
        (f"{ENFORCE}/test_missing_ledger.py", "test_rows_without_a_ledger_stop_the_stream", "StreamStopped"),
    ],
    "the topic `tidegate.ledger` is lost": [(f"{ENFORCE}/test_adoption.py", "test_an_adopted_stream_continues_with_every_record_once", "no ledger says how far")],
    "the topic `tidegate.ledger`, older than the output topics": [(f"{ENFORCE}/test_adoption_after_rollback.py", "test_a_ledger_topic_that_was_restored_from_an_older_moment_stops_the_stream", "restored from an older moment")],
    "the accepted topic of a stream with the Kafka sink is lost": [(f"{ENFORCE}/test_kafka_sink.py", "test_an_accepted_topic_that_is_lost_gets_the_records_that_the_source_still_has", "ReconciliationAnswer.LOST")],
    "a quarantine topic is lost": [(f"{ENFORCE}/test_source_changes.py", "test_a_recreated_quarantine_is_read_from_its_beginning", "ReconciliationAnswer.LOST")],
    "a topic `<topic>.replayed` is lost": [
        (f"{ENFORCE}/test_replay.py", "test_positions_that_are_gone_are_never_guessed", "Restore the topic"),
        (f"{ENFORCE}/test_rewind_sent_back.py", "test_a_rewound_stream_does_not_start_when_it_is_lost_which_records_were_sent_back", "Restore the topic"),
    ],
    "a topic `<topic>.marks` is lost": [
        (f"{ENFORCE}/test_replay_upserts.py", "test_records_from_before_the_oldest_mark_are_left", "Untouched.UNORDERED"),
        (f"{ENFORCE}/test_replay_upserts.py", "test_a_replayed_record_without_mark_and_row_cannot_be_proven", "ReconciliationAnswer.UNPROVEN"),
    ],
    "a topic `<topic>.dropped` is lost": [(f"{ENFORCE}/test_dropped.py", "test_positions_that_were_deleted_from_their_topic_cannot_be_proven", "ReconciliationAnswer.UNPROVEN")],
    "a quarantine topic holds records of a newer release": [("integration/test_recovery_scan.py", "test_a_record_of_its_own_that_a_start_cannot_read_stops_the_stream", "cannot be read by this version")],
}  # fmt: skip
"""For each row its tests: file, name, and words in the test of what the row says."""


def rows() -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield what is restored of each row, with what happens, how to continue, and the files of its tests."""
    table = PAGE.read_text().partition(HEAD)[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        restored, happens, continues, tests = (cell.strip() for cell in line.strip("|").split(" | "))
        yield restored, (happens, continues, tests)


def files_of(cell: str) -> set[str]:
    """Return the files that a cell names; one without a folder is beside the one before."""
    found: list[str] = []
    for name in re.findall(r"`([^`]+)`", cell):
        is_beside = "/" not in name
        found.append(str(PurePosixPath(found[-1]).with_name(name)) if is_beside else name)
    return set(found)


ROWS = dict(rows())


def test_the_table_is_read() -> None:
    assert len(ROWS) > 15
    assert ROWS.keys() == SHOWN_BY.keys()


@pytest.mark.parametrize("restored", ROWS)
def test_the_named_files_have_the_tests(restored: str) -> None:
    _, _, named = ROWS[restored]
    assert files_of(named) == {path for path, _, _ in SHOWN_BY[restored]}
    for path, name, words in SHOWN_BY[restored]:
        assert words in named_test(path, name)[1]


@pytest.mark.parametrize("restored", [each for each, (happens, _, _) in ROWS.items() if " stops" in happens])
def test_a_stop_is_shown_with_its_message_and_its_way_out(restored: str) -> None:
    happens, continues, _ = ROWS[restored]
    for message in re.findall(r"\*([^*]+)\*", happens):
        assert any(pattern_of(message).search(text) for text, _ in messages())
    after = [after_the_stop(named_test(path, name)[0], words) for path, name, words in SHOWN_BY[restored]]
    assert any(after)
    assert takes_its_verb(continues, "\n".join(after))
