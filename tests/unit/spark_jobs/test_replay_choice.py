"""Which refused records `tidegate replay` chooses, and what it says of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import typer
from pyroaring import BitMap64

from tidegate.contracts.errors import ConflictError, SettingsError, Unavailable
from tidegate.contracts.stream.evidence import EventPointer, Evidence
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import ReplayAction, ReplayState, StreamReplay, Untouched
from tidegate.contracts.stream.replay_preview import ReplayPreview
from tidegate.contracts.verdict import Severity, Stage, Violation
from tidegate.gateway.exits import ExitCode, exit_code
from tidegate.spark_jobs.adopt.confirmations import Confirmations
from tidegate.spark_jobs.adopt.replay import ReplayChoice, ReplayPlanner, parse_where, read_positions
from tidegate.spark_jobs.adopt.replay_cli import _report
from tidegate.spark_jobs.adopt.replay_preview import preview_text

REFUSED = Evidence(
    source=EventPointer("t", 3, 7),
    ledger="l",
    contract="c@1.2.0",
    rules=("age-is-known", "type"),
    violations=(
        Violation(Stage.RULE, "age-is-known", "/age", Severity.ERROR, "is forbidden"),
        Violation(Stage.SCHEMA, "type", "/ward", Severity.ERROR, "must be text"),
    ),
)


@pytest.mark.parametrize(
    "text", ["0/17\n0/18\n2/4\n", "2/4 0/18 0/17 0/17", '{"partitions": {"0": [[17, 18]], "2": [[4, 4]]}}']
)
def test_positions_are_lines_or_what_the_registry_exports(text: str) -> None:
    assert list(read_positions(text)) == [(0, 17), (0, 18), (2, 4)]


@pytest.mark.parametrize(
    "text",
    [
        "0:17",
        "0/x",
        "0",
        "0/-5",
        "-1/3",
        "0/99999999999999999999",
        '{"partitions": {"0": [[18, 17]]}}',
        "{}",
        '{"partitions"',
    ],
)
def test_other_positions_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="give lines partition/offset"):
        read_positions(text)


def test_more_records_than_a_request_may_have_are_refused_before_they_are_previewed() -> None:
    chosen = Positions.of({0: BitMap64(range(20_000_001)), 1: BitMap64([0])})
    with pytest.raises(SettingsError, match=r"20,000,002 refused records are chosen.*10,000,000 at most"):
        object.__new__(ReplayPlanner).freeze(ReplayChoice(positions=chosen))


def test_a_position_that_no_topic_has_is_a_mistake_of_the_file() -> None:
    with pytest.raises(SettingsError, match=r"\(no topic has such a position\)$"):
        read_positions("0/-5")


def test_too_many_positions_are_refused_with_the_limit() -> None:
    """Those of a problem come from the registry as runs."""
    with pytest.raises(SettingsError, match=r"a request has 10,000,000 positions"):
        read_positions('{"partitions": {"0": [[0, 20000000]]}}')


@pytest.mark.parametrize(
    ("where", "is_chosen"),
    [
        (["rule=age-is-known"], True),
        (["rule=type", "stage=schema", "version=1.2.0", "partition=3"], True),
        (["rule=age-is-known", "partition=4"], False),
        (["stage=frame"], False),
        (["version=1.1.0"], False),
        (["rule=type", "again=ward-is-open"], True),  # what the index knows is no matter of the headers
    ],
)
def test_a_refusal_is_chosen_by_all_that_is_named(where: list[str], *, is_chosen: bool) -> None:
    assert ReplayChoice(where=parse_where(where)).has(REFUSED) is is_chosen


@pytest.mark.parametrize("text", ["rule", "rule=", "field=/age", "=x"])
def test_other_conditions_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="give one of rule"):
        parse_where([text])


def test_a_preview_says_what_would_happen() -> None:
    reasons: dict[Any, int] = {
        (Stage.RULE, "ward-is-open", Severity.ERROR): 28,
        (Stage.SCHEMA, "type", Severity.ERROR): 1,
    }
    preview = ReplayPreview(5_971, 29, 6_000)
    preview.reasons.update(reasons)
    preview.untouched.update({Untouched.REPLAYED: 1})
    assert preview_text(preview, 6_001) == (
        "5,971 of 6,001 records would be written; the fix changes 6,000\n"
        "29 would stay refused:\n"
        "  28 with ward-is-open (rule)\n"
        "  1 with type (schema)\n"
        "1 would be left: they were replayed before"
    )


@pytest.mark.parametrize(
    ("present", "line"),
    [
        (12, "\n12 have a primary key that is in the table already"),
        (1, "\n1 has a primary key that is in the table already"),
        (None, ""),
    ],
)
def test_a_preview_says_how_many_keys_are_in_the_table_if_it_knows(present: int | None, line: str) -> None:
    shown = preview_text(ReplayPreview(30, present=present), 30)
    assert shown == f"30 of 30 records would be written{line}"


def test_a_preview_says_where_records_would_be_sent() -> None:
    preview = ReplayPreview(2)
    preview.untouched.update({Untouched.SENT_BACK: 1})
    assert preview_text(preview, 3, ReplayAction.TO_SOURCE) == (
        "2 of 3 records would be sent to the source topic\n"
        "1 would be left: they were sent to the source topic before, and refused again"
    )


def test_a_preview_says_how_many_records_a_discard_would_close() -> None:
    preview = ReplayPreview(1)
    preview.untouched.update({Untouched.DISCARDED: 2})
    assert preview_text(preview, 3, ReplayAction.DISCARD) == (
        "1 of 3 records would be discarded\n2 would be left: they were discarded"
    )


def test_a_discard_of_closed_records_is_not_requested() -> None:
    with pytest.raises(ConflictError, match="no record would be discarded, and nothing was requested"):
        Confirmations(is_sure=True).confirm_discard(0)


def test_a_command_that_was_to_process_a_request_says_that_it_is_still_open() -> None:
    ended = StreamReplay(
        id=UUID(int=1),
        stream="s",
        state=ReplayState.OPEN,
        by="ann",
        at=datetime.now(UTC),
        topic="t.quarantine",
        records=3,
        digest="0" * 64,
        allowed=0.2,
    )
    _report(ended, "http://registry:8081", has_run=False)
    with pytest.raises(Unavailable, match=r"is still open.*DELETE /api/v1/streams/s/replays/") as raised:
        _report(ended, "http://registry:8081", has_run=True)
    assert exit_code(raised.value) is ExitCode.UNAVAILABLE
    _report(ended.model_copy(update={"state": ReplayState.DONE}), "http://registry:8081", has_run=True)
    _report(ended.model_copy(update={"state": ReplayState.PROPOSED}), "http://registry:8081", has_run=True)
    with pytest.raises(typer.Exit) as stopped:
        _report(ended.model_copy(update={"state": ReplayState.STOPPED}), "http://registry:8081", has_run=True)
    assert stopped.value.exit_code == ExitCode.FINDINGS
