"""Every message that stops a stream stands in the table of stops, with a way out, and in a test that makes it appear."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.named_tests import after_the_stop, named_test, pattern_of, takes_its_verb
from tidegate.gateway.cli.verbs import VERBS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/troubleshoot.md"
STOPS = {"StreamStopped", "TooLarge", "Fenced", "ContractNotFoundError"}
NOT_OF_A_STREAM = (
    # Verbs that a person runs say these, and change nothing.
    "the outputs changed before you confirmed",
    "and an output holds its offset",
    "was deleted or created again since",
)
ENFORCE = "integration/enforce"
SHOWN_BY = {
    "This is the table of refused records": (f"{ENFORCE}/test_quarantine_table.py", "test_a_table_that_somebody_has_changed_is_filled_again", "This is the table of refused records"),
    "records violate what ... must not let pass": (f"{ENFORCE}/test_iceberg_sink.py", "test_a_batch_that_must_not_pass_leaves_no_trace", "and violates amount-is-known"),
    "error budget spent": (f"{ENFORCE}/test_pause.py", "test_a_budget_that_fails_ends_the_stream_and_what_is_accepted_then_passes", "error budget spent"),
    "not as ... expects (on_violation fail)": (f"{ENFORCE}/test_expectations.py", "test_a_failing_expectation_stops_the_stream_before_anything_is_written", "plausible-mean; nothing of it is written"),
    "the record of topic ..., partition ..., offset ... cannot be processed": (f"{ENFORCE}/test_halving.py", "test_a_record_that_crashes_its_worker_is_found_and_named", "cannot be processed"),
    "A record that the source holds well compressed can need more room here": (f"{ENFORCE}/test_output_topics.py", "test_a_record_that_an_output_does_not_take_stops_the_stream_and_says_which_limit", "a larger max.message.bytes"),
    "topic ... was deleted and created again": (f"{ENFORCE}/test_archive.py", "test_a_stream_begins_again_with_a_topic_that_was_created_again", "was deleted and created again"),
    "contract ... is about topic ..., this stream reads ...": (f"{ENFORCE}/test_archive.py", "test_a_contract_about_another_topic_stops_the_stream", "is about topic"),
    "the broker has lost records that were judged": (f"{ENFORCE}/test_archive.py", "test_a_topic_that_has_lost_judged_records_is_begun_again", "the broker has lost records that were judged"),
    "partition ... begins at ..., the ledger ends at ...": (f"{ENFORCE}/test_adoption.py", "test_a_partition_that_retention_has_passed_continues_and_says_what_is_missing", "--partition 0 --from 9 --accept-loss"),
    "was added since the ledger was written": (f"{ENFORCE}/test_adoption.py", "test_a_partition_whose_first_records_are_gone_continues_without_them", "--partition 2 --from 3 --accept-loss"),
    "positions of records that were sent back to": (f"{ENFORCE}/test_rewind_sent_back.py", "test_a_rewound_stream_does_not_start_when_it_is_lost_which_records_were_sent_back", "Restore the topic"),
    "must be known to go on without doubling it": (f"{ENFORCE}/test_adoption.py", "test_a_stream_continues_past_deleted_records_of_its_output", "--forget-deleted"),
    "would not keep what is written to it": (f"{ENFORCE}/test_output_topics.py", "test_settings_that_would_lose_records_are_refused_with_the_command_that_mends_them", "would not keep what is written to it"),
    "has ... partitions and needs ...": (f"{ENFORCE}/test_output_topics.py", "test_a_ledger_topic_must_be_compacted_and_have_its_partitions", "has 2 partitions and needs 4"),
    "and no ledger says how far the stream has come": (f"{ENFORCE}/test_adoption.py", "test_an_adopted_stream_continues_with_every_record_once", "no ledger says how far"),
    "the table was rolled back": (f"{ENFORCE}/test_adoption_after_rollback.py", "test_a_rolled_back_table_of_many_batches_is_replaced_without_loss", "was rolled back"),
    "the table was restored": (f"{ENFORCE}/test_rolled_back.py", "test_a_delta_table_that_is_restored_stops_the_stream", "was restored"),
    "the ledger was restored from an older moment": (f"{ENFORCE}/test_adoption_after_rollback.py", "test_a_ledger_topic_that_was_restored_from_an_older_moment_stops_the_stream", "restored from an older moment"),
    "cannot be read as the manifest of a history": (f"{ENFORCE}/test_history.py", "test_what_has_changed_is_refused", "cannot be read as the manifest"),
    "the folder of copies lacks ...": (f"{ENFORCE}/test_history.py", "test_what_has_changed_is_refused", "it was deleted, replaced, or restored from an older moment"),
    "and the outputs hold records of the stream's history": (f"{ENFORCE}/test_history.py", "test_a_lost_ledger_is_rebuilt_with_its_history", "is gone, and the outputs hold records of the stream's history"),
    "of the history of ... that are not judged yet": (f"{ENFORCE}/test_history.py", "test_what_has_changed_is_refused", "not judged yet"),
    "it cannot be proven that": (f"{ENFORCE}/test_adoption_after_rollback.py", "test_a_delta_log_that_has_lost_the_ledgers_commit_cannot_be_proven", "cannot be proven.*adopt"),
    "that moved the ledger last was cleaned up": (f"{ENFORCE}/test_archive.py", "test_a_table_that_a_stream_cannot_go_on_with_is_put_away", "was cleaned up"),
    "cannot be read by this version: start the job with the release that wrote the record": ("integration/test_recovery_scan.py", "test_a_record_of_its_own_that_a_start_cannot_read_stops_the_stream", "cannot be read by this version: start the job"),
    "requires of the job of ... what this release cannot do": ("unit/spark_jobs/test_control.py", "test_a_decision_that_this_job_cannot_obey_stops_the_stream", "upgrade the job"),
    "the registry knows ... decisions about": (f"{ENFORCE}/test_pause.py", "test_a_registry_restored_without_decisions_stops_the_stream_at_its_start", "knows 0 decisions about"),
    "by which the last batch of this stream was judged": ("unit/spark_jobs/test_contract_source.py", "test_a_registry_that_lost_the_version_of_the_ledger_stops_the_stream", "by which the last batch"),
    "the stored ledger cannot be read by this version": (f"{ENFORCE}/test_archive.py", "test_a_table_that_a_stream_cannot_go_on_with_is_put_away", "cannot be read by this version"),
    "the batch leaves a gap": ("unit/spark_jobs/test_source_topic.py", "test_a_start_says_how_to_continue_without_the_first_records_of_a_new_partition", "leaves a gap: partition 2"),
    "the batch ... starts at ..., the ledger ends at": ("unit/spark_jobs/test_source_topic.py", "test_a_start_begins_where_a_batch_that_left_a_gap_should_have_begun", "leaves a gap: partition 0 starts at 11"),
    "tidegate.ledger has lost the row of": (f"{ENFORCE}/test_missing_ledger.py", "test_a_ledger_that_is_lost_while_the_stream_runs_is_rebuilt", "has lost the row of"),
    "as if it came from ..., which no topic has": (f"{ENFORCE}/test_missing_ledger.py", "test_a_row_from_where_no_topic_has_a_record_is_deleted_before_the_ledger_is_rebuilt", "which no topic has"),
    "lets tombstones delete, and --write-mode append deletes nothing": (f"{ENFORCE}/test_upserts.py", "test_what_a_table_cannot_do_is_refused_at_the_start", "lets tombstones delete"),
    "has no primary_key": (f"{ENFORCE}/test_upserts.py", "test_what_a_table_cannot_do_is_refused_at_the_start", "has no primary_key"),
    "has rows that were appended": (f"{ENFORCE}/test_archive.py", "test_a_table_that_was_appended_to_is_put_away_and_upserted_into", "has rows that were appended"),
    "its rows have the primary key": (f"{ENFORCE}/test_upserts.py", "test_the_key_of_rows_stays_the_same_for_the_life_of_the_table", "its rows have the primary key"),
    "its primary key is": (f"{ENFORCE}/test_upserts.py", "test_the_key_of_rows_stays_the_same_for_the_life_of_the_table", "its primary key is"),
    "column ... is ..., the contract says ...": (f"{ENFORCE}/test_schema_evolution.py", "test_a_type_that_does_not_hold_what_is_there_stops_the_stream", "the contract says"),
    "must have a value, and the contract has no such column": ("integration/postgresql/test_table.py", "test_a_table_that_does_not_fit_stops_the_stream_and_stays_as_it_is", "column beds must have a value"),
    "exists and is not a table of this stream": (f"{ENFORCE}/test_archive.py", "test_a_table_that_a_stream_cannot_go_on_with_is_put_away", "is not a table of this stream"),
    "is partitioned, and the job writes tables that are not": (f"{ENFORCE}/test_archive.py", "test_a_table_that_a_stream_cannot_go_on_with_is_put_away", "is partitioned"),
    "whose contract id names the same table": (f"{ENFORCE}/test_missing_ledger.py", "test_a_table_that_another_stream_writes_is_left_alone", "belongs to the stream"),
    "PostgreSQL's names have ... bytes at most": ("integration/postgresql/test_table.py", "test_a_contract_that_the_sink_cannot_serve_is_refused_until_it_is_corrected", "63 bytes at most"),
    "the server refuses to ...": ("integration/postgresql/test_table.py", "test_rows_that_the_server_does_not_take_stop_the_stream_until_the_server_is_corrected", "refuses to take rows"),
    "which its Avro type ... does not hold": ("unit/contracts/privacy/test_masks.py", "test_an_avro_type_that_cannot_hold_what_a_mask_leaves_stops_the_stream_at_its_start", "which its Avro type"),
    "The registry refused the report": ("unit/spark_jobs/test_control.py", "test_a_trip_that_the_gateway_refuses_stops_the_stream", "refused the report"),
    "another instance of this stream (code 5)": (f"{ENFORCE}/test_faults.py", "test_a_second_instance_fences_the_first", "raises(Fenced)"),
    "Spark's Java process has ended (code 3)": (f"{ENFORCE}/test_supervisor.py", "test_without_its_jvm_the_job_ends_and_a_new_one_continues", "Spark's Java process has ended"),
    "the registry ... has not answered for ... (code 3)": (f"{ENFORCE}/test_supervisor.py", "test_a_registry_that_goes_away_and_comes_back", "has not answered for"),
    "gave up after repeated failures (code 3)": (f"{ENFORCE}/test_supervisor.py", "test_a_stream_that_gave_up_continues_when_it_is_started_again", "gave up after repeated failures"),
    "has no active version of contract (code 2)": (f"{ENFORCE}/test_supervisor.py", "test_an_unpublished_contract_is_named_with_what_to_do", "has no active version of contract"),
    "does not exist; create it (code 3)": (f"{ENFORCE}/test_supervisor.py", "test_a_topic_that_does_not_exist_is_named_with_what_to_do", "does not exist; create it"),
    "the contract of the registry cannot be read by this version": ("unit/spark_jobs/test_contract_source.py", "test_a_contract_of_a_later_release_stops_the_stream_until_a_version_fits", "the contract of the registry cannot be read by this version"),
    "and there is no key for it (code 2)": ("unit/spark_jobs/test_contract_source.py", "test_a_contract_that_hashes_wants_its_key", "and there is no key for it"),
}  # fmt: skip
"""For each message the test that makes it appear and takes the way out: its file, its name, and words of the message in it."""

MADE_ELSEWHERE = "…"
"""A message that another function returns, or the server's own words after a name."""


def rows() -> dict[str, tuple[str, str]]:
    """Return the table: message to way out and loss."""
    text = PAGE.read_text().partition("| message | way out |")[2].partition("\n\n")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in text.splitlines()[2:]
        if line.startswith("|")
    ]
    return {message.strip("| "): (way_out, loss.strip("| ")) for message, way_out, loss in cells}


def messages() -> Iterator[tuple[str, str]]:
    """Yield each message that stops a stream and where it is made; what is filled in is `…`."""
    for folder in ("contracts", "spark_jobs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in STOPS and node.args:
                    yield _text(node.args[0]), f"{path.relative_to(ROOT)}:{node.lineno}"


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(values):
            return "".join(map(_text, values))
        case _:
            return MADE_ELSEWHERE


ROWS = rows()


def test_the_table_is_read() -> None:
    assert len(ROWS) > 30
    assert ROWS.keys() == SHOWN_BY.keys()
    assert all(way_out and loss for way_out, loss in ROWS.values())


def test_every_stop_has_a_way_out() -> None:
    patterns = [pattern_of(message) for message in ROWS]
    without = [
        f"{where}: {text}"
        for text, where in messages()
        if not text.startswith(MADE_ELSEWHERE + ": " + MADE_ELSEWHERE)
        and text.strip(MADE_ELSEWHERE)
        and not any(each in text for each in NOT_OF_A_STREAM)
        and not any(pattern.search(text) for pattern in patterns)
    ]
    assert without == []


@pytest.mark.parametrize("message", ROWS)
def test_a_test_makes_the_message_appear_and_takes_its_way_out(message: str) -> None:
    path, name, words = SHOWN_BY[message]
    test, text = named_test(path, name)
    assert words in text
    after = after_the_stop(test, words)
    assert after
    way_out, _ = ROWS[message]
    assert takes_its_verb(way_out, after)


def test_every_verb_of_the_table_exists() -> None:
    verbs = {verb for way_out, _ in ROWS.values() for verb in re.findall(r"`tidegate ([a-z-]+)", way_out)}
    others = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["tidegate.verbs"]
    declared = {*others, *(verb.name for verb in VERBS)}
    assert verbs >= {"adopt", "archive", "quarantine-record", "reconcile", "resume"}
    assert verbs <= declared
