"""Which refused records `tidegate replay` chooses, and what it says of them."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.stream.evidence import EventPointer, Evidence
from tidegate.contracts.stream.replay import Untouched
from tidegate.contracts.stream.replay_preview import ReplayPreview
from tidegate.contracts.verdict import Severity, Stage, Violation
from tidegate.spark_jobs.adopt.replay import Choice, parse_where, read_positions
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
    "text", ["0:17", "0/x", "0", '{"partitions": {"0": [[18, 17]]}}', "{}", '{"partitions"']
)
def test_other_positions_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="give lines partition/offset"):
        read_positions(text)


@pytest.mark.parametrize(
    ("where", "is_chosen"),
    [
        (["rule=age-is-known"], True),
        (["rule=type", "stage=schema", "version=1.2.0", "partition=3"], True),
        (["rule=age-is-known", "partition=4"], False),
        (["stage=frame"], False),
        (["version=1.1.0"], False),
    ],
)
def test_a_refusal_is_chosen_by_all_that_is_named(where: list[str], *, is_chosen: bool) -> None:
    assert Choice(where=parse_where(where)).has(REFUSED) is is_chosen


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
