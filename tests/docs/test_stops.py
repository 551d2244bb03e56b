"""Every message that stops a stream stands in the table of stops, with a way out, and in a test that makes it appear."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.gateway.cli.verbs import VERBS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/troubleshoot.md"
STOPS = {"StreamStopped", "TooLarge", "Fenced"}
NOT_OF_A_STREAM = (
    # Verbs that a person runs say these, and change nothing.
    "the outputs changed before you confirmed",
    "and an output holds its offset",
    "was deleted or created again since",
)
ENFORCE = "integration/enforce"
SHOWN_BY = {
    "This is the table of refused records": (f"{ENFORCE}/test_quarantine_table.py", "This is the table of refused records"),
    "records violate what ... must not let pass": ("unit/spark_jobs/test_decide.py", "must not let pass"),
    "error budget spent": (f"{ENFORCE}/test_pause.py", "error budget spent"),
    "not as ... expects (on_violation fail)": ("unit/spark_jobs/test_expectations.py", "expects (on_violation fail)"),
    "the record of topic ..., partition ..., offset ... cannot be processed": (f"{ENFORCE}/test_halving.py", "cannot be processed"),
    "A record that the source holds well compressed can need more room here": (f"{ENFORCE}/test_output_topics.py", "a larger max.message.bytes"),
    "topic ... was deleted and created again": (f"{ENFORCE}/test_archive.py", "test_a_stream_begins_again_with_a_topic_that_was_created_again"),
    "contract ... is about topic ..., this stream reads ...": (f"{ENFORCE}/test_archive.py", "is about topic"),
    "the broker has lost records that were judged": ("unit/spark_jobs/test_source_topic.py", "the broker has lost records"),
    "partition ... begins at ..., the ledger ends at ...": (f"{ENFORCE}/test_adoption.py", "--partition 0 --from 9 --accept-loss"),
    "was added since the ledger was written": (f"{ENFORCE}/test_adoption.py", "--partition 2 --from 3 --accept-loss"),
    "must be known to go on without doubling it": (f"{ENFORCE}/test_adoption.py", "--forget-deleted"),
    "would not keep what is written to it": (f"{ENFORCE}/test_output_topics.py", "would not keep what is written to it"),
    "has ... partitions and needs ...": (f"{ENFORCE}/test_output_topics.py", "has 2 partitions and needs 4"),
    "and no ledger says how far the stream has come": (f"{ENFORCE}/test_adoption.py", "test_an_adopted_stream_continues_with_every_record_once"),
    "the table was rolled back": (f"{ENFORCE}/test_adoption.py", "test_a_rolled_back_table_of_many_batches_is_replaced_without_loss"),
    "the table was restored": (f"{ENFORCE}/test_rolled_back.py", "was restored"),
    "the ledger was restored from an older moment": (f"{ENFORCE}/test_adoption.py", "restored from an older moment"),
    "it cannot be proven that": (f"{ENFORCE}/test_adoption.py", "cannot be proven.*adopt"),
    "that moved the ledger last was cleaned up": (f"{ENFORCE}/test_archive.py", "was cleaned up"),
    "cannot be read by this version: start the job with the release that wrote the record": ("integration/test_recovery_scan.py", "cannot be read by this version: start the job"),
    "requires of the job of ... what this release cannot do": ("unit/spark_jobs/test_control.py", "upgrade the job"),
    "the gateway knows ... decisions about": ("unit/spark_jobs/test_control.py", "knows 1 decisions about"),
    "by which the last batch of this stream was judged": ("unit/spark_jobs/test_contract_source.py", "by which the last batch"),
    "the stored ledger cannot be read by this version": (f"{ENFORCE}/test_archive.py", "cannot be read by this version"),
    "the batch leaves a gap": ("unit/contracts/test_ledger.py", "leaves a gap: partition 2"),
    "the batch ... starts at ..., the ledger ends at": ("unit/contracts/test_ledger.py", "leaves a gap: partition 0 starts at 11"),
    "tidegate.ledger has lost the row of": ("integration/postgresql/test_table.py", "has lost the row of"),
    "as if it came from ..., which no topic has": ("unit/contracts/test_positions.py", "ask who wrote it"),
    "lets tombstones delete, and --write-mode append deletes nothing": (f"{ENFORCE}/test_upserts.py", "lets tombstones delete"),
    "has no primary_key": (f"{ENFORCE}/test_upserts.py", "has no primary_key"),
    "has rows that were appended": (f"{ENFORCE}/test_archive.py", "has rows that were appended"),
    "its rows have the primary key": (f"{ENFORCE}/test_upserts.py", "its rows have the primary key"),
    "its primary key is": (f"{ENFORCE}/test_upserts.py", "its primary key is"),
    "column ... is ..., the contract says ...": (f"{ENFORCE}/test_schema_evolution.py", "the contract says"),
    "must have a value, and the contract has no such column": ("integration/postgresql/test_table.py", "column beds must have a value"),
    "exists and is not a table of this stream": (f"{ENFORCE}/test_archive.py", "is not a table of this stream"),
    "is partitioned, and the job writes tables that are not": (f"{ENFORCE}/test_archive.py", "is partitioned"),
    "whose contract id names the same table": (f"{ENFORCE}/test_missing_ledger.py", "belongs to the stream"),
    "PostgreSQL's names have ... bytes at most": ("integration/postgresql/test_table.py", "63 bytes at most"),
    "the server refuses to take rows": ("integration/postgresql/test_table.py", "refuses to take rows"),
    "which its Avro type ... does not hold": ("unit/contracts/privacy/test_masks.py", "which its Avro type"),
    "The gateway refused the report": ("unit/spark_jobs/test_control.py", "refused the report"),
    "another instance of this stream (code 5)": (f"{ENFORCE}/test_faults.py", "raises(Fenced)"),
    "Spark's Java process has ended (code 3)": (f"{ENFORCE}/test_supervisor.py", "test_without_its_jvm_the_job_ends"),
    "the registry ... has not answered for ... (code 3)": (f"{ENFORCE}/test_supervisor.py", "has not answered for"),
}  # fmt: skip
"""For each message a test that makes it appear and, where the way out is a verb, goes on by it: its file, and a text in it."""

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


def _pattern(message: str) -> re.Pattern[str]:
    without_code = re.sub(r" \(code \d\)$", "", message)
    return re.compile(".*".join(map(re.escape, without_code.split("..."))))


ROWS = rows()


def test_the_table_is_read() -> None:
    assert len(ROWS) > 30
    assert all(way_out and loss for way_out, loss in ROWS.values())


def test_every_stop_has_a_way_out() -> None:
    patterns = [_pattern(message) for message in ROWS]
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
def test_a_test_makes_the_message_appear(message: str) -> None:
    path, piece = SHOWN_BY[message]
    assert piece in (ROOT / "tests" / path).read_text().replace("\\", "")


def test_every_verb_of_the_table_exists() -> None:
    verbs = {verb for way_out, _ in ROWS.values() for verb in re.findall(r"`tidegate ([a-z-]+)", way_out)}
    others = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["tidegate.verbs"]
    declared = {*others, *(verb.name for verb in VERBS)}
    assert verbs >= {"adopt", "archive", "quarantine-record", "reconcile", "resume"}
    assert verbs <= declared
