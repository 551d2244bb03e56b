"""Reports hold whatever a name, a sentence or a record says, and nothing of it gets out."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.compatibility.finding import Direction, FindingSeverity
from tidegate.contracts.inclusion.answer import Counterexample, Outcome
from tidegate.gateway.checks.formats.github import check_annotations, step_summary
from tidegate.gateway.checks.formats.json_report import check_json
from tidegate.gateway.checks.formats.junit import check_junit
from tidegate.gateway.checks.formats.sarif import check_sarif
from tidegate.gateway.checks.formats.text import report_lines
from tidegate.gateway.checks.places import shown_path
from tidegate.gateway.checks.results import BaseInfo, CheckFinding, CheckReport, ContractCheck, Spot

ANY = st.text(st.characters(), max_size=40) | st.text(":%,\r\n|`<>&;#\x1b \\", max_size=12)


@st.composite
def reports(draw: st.DrawFn) -> CheckReport:
    file = shown_path(draw(ANY) or "x")
    finding = CheckFinding(
        draw(st.sampled_from(FindingSeverity)),
        "schema.type-changed",
        draw(ANY),
        Spot(file, draw(st.integers(1, 99)), draw(st.integers(1, 99))),
        draw(ANY),
        field=draw(ANY),
        outcome=Outcome.REFUTED,
        direction=draw(st.sampled_from(Direction)),
        counterexample=Counterexample(draw(ANY)),
        consumers=("reader",),
    )
    contract = ContractCheck(file, "id", "1.0.1", BaseInfo("1.0.0", "base"), "2.0.0", (finding,), ("reader",))
    return CheckReport(shown_path(draw(ANY)), (contract,))


def unescaped(text: str, *, is_property: bool) -> str:
    """Read a value of a workflow command as the runner does."""
    pairs = [("%0D", "\r"), ("%0A", "\n")]
    pairs += [("%3A", ":"), ("%2C", ",")] if is_property else []
    for escape, char in [*pairs, ("%25", "%")]:
        text = text.replace(escape, char)
    return text


@settings(max_examples=examples(100), deadline=None)
@given(reports())
def test_a_finding_is_one_workflow_command_that_says_what_was_meant(report: CheckReport) -> None:
    (finding,) = report.contracts[0].findings
    written = check_annotations(report, None)
    assert written.count("\n") == 1
    assert "\r" not in written
    head, _, rest = written.removesuffix("\n").removeprefix("::").partition(" ")
    inner, _, message = rest.partition("::")
    properties = dict(pair.split("=", 1) for pair in inner.split(","))
    assert head in {"error", "warning", "notice"}
    assert list(properties) == ["file", "line", "col", "title"]
    assert unescaped(properties["file"], is_property=True) == finding.spot.file
    assert unescaped(message, is_property=False).count("\n") == 2


@settings(max_examples=examples(100), deadline=None)
@given(reports())
def test_every_report_can_be_written_and_read_again(report: CheckReport) -> None:
    (contract,) = report.contracts
    (finding,) = contract.findings
    (read,) = json.loads(check_json(report).encode())["contracts"]
    assert read["findings"][0]["sentence"] == finding.sentence
    assert finding.counterexample is not None
    assert read["findings"][0]["counterexample"]["text"] == finding.counterexample.text
    (run,) = json.loads(check_sarif(report, None).encode())["runs"]
    assert run["results"][0]["message"]["text"].count("\n") == 2
    suites = ET.fromstring(check_junit(report).encode())  # noqa: S314 - our own text
    assert (suites.get("tests"), len(suites)) == ("1", 1)
    assert len(step_summary(report).encode()) < 20_000


@settings(max_examples=examples(100), deadline=None)
@given(reports())
def test_every_line_for_people_is_one_line_that_a_terminal_only_shows(report: CheckReport) -> None:
    lines = [line.plain for line in report_lines(report)]
    assert all(line.isprintable() for line in lines)
    assert not any(line.lstrip().startswith("::") for line in lines)
    assert len(lines) == 4
