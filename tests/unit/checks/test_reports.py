"""Reports for machines: what the formats demand, of findings that are as awkward as they come."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

import pytest
from jsonschema import Draft7Validator, FormatChecker

from tidegate.contracts.compatibility.finding import Direction, FindingSeverity
from tidegate.contracts.inclusion.answer import Counterexample, Outcome
from tidegate.gateway.checks.formats.codequality import check_codequality
from tidegate.gateway.checks.formats.github import check_annotations, step_summary
from tidegate.gateway.checks.formats.json_report import check_json
from tidegate.gateway.checks.formats.junit import check_junit
from tidegate.gateway.checks.formats.sarif import check_sarif
from tidegate.gateway.checks.formats.text import report_lines
from tidegate.gateway.checks.places import from_root, repository_root
from tidegate.gateway.checks.results import BaseInfo, CheckFinding, CheckReport, ContractCheck, FailOn, Spot

SARIF = Draft7Validator(
    json.loads((Path(__file__).parent / "data" / "sarif-schema-2.1.0.json").read_text("utf-8")),
    format_checker=FormatChecker(),
)

LOWERED = CheckFinding(
    FindingSeverity.BREAKING,
    "schema.maximum-lowered",
    "property `age` narrowed: maximum 150 -> 120",
    Spot("admissions/contract.yaml", 14, 7),
    "/schema/definition/properties/age/maximum",
    "/schema/definition/properties/age/maximum",
    "/age",
    Outcome.REFUTED,
    Direction.BACKWARD,
    Counterexample('{"age": 121}'),
    ("bed-planning", "national-statistics"),
)
LOOSENED = CheckFinding(
    FindingSeverity.INFO,
    "rule.loosened",
    "rule `x` allows more",
    Spot("admissions/contract.yaml", 31, 5),
    outcome=Outcome.PROVEN,
)
UNSURE = CheckFinding(
    FindingSeverity.WARNING,
    "rule.changed",
    "rule `y` may forbid more",
    Spot("admissions/contract.yaml", 33, 5),
    outcome=Outcome.UNDETERMINED,
)
INVALID = CheckFinding(
    FindingSeverity.BREAKING, "contract.invalid", "unknown key `ruls`", Spot("b.yaml", 2, 1)
)
HOSTILE = CheckFinding(
    FindingSeverity.WARNING,
    "schema.pattern-changed",
    "100 %, a:b, `x|y`\r\n::error::\x1b[31m <b> \ud83d ]]> \ufffe \u202e",
    Spot("räume mit/a,b%:c.yaml", 3, 9),
    field="/x\n::error::",
    outcome=Outcome.REFUTED,
    direction=Direction.FORWARD,
    counterexample=Counterexample('{"\\u0000": "\u0085"}', b"\x00\xff"),
)

ADMISSIONS = ContractCheck(
    "admissions/contract.yaml",
    "hospital.admissions",
    "1.3.0",
    BaseInfo("1.2.0", "registry:hospital.admissions@1.2.0"),
    "2.0.0",
    (LOWERED, UNSURE, LOOSENED),
    ("bed-planning", "national-statistics"),
    ("los-report",),
)
BROKEN = ContractCheck("b.yaml", findings=(INVALID,))
CLEAN = ContractCheck("c.yaml", "c", "1.0.0", BaseInfo("1.0.0", "registry:c@1.0.0"))
ODD = ContractCheck("räume mit/a,b%:c.yaml", "odd", "1.0.1", BaseInfo("1.0.0", "base"), "1.0.1", (HOSTILE,))


def report_of(
    *contracts: ContractCheck, fail_on: FailOn = FailOn.BREAKING, allow_major: bool = False
) -> CheckReport:
    return CheckReport("registry", contracts, fail_on, allow_major)


EVERYTHING = report_of(ADMISSIONS, BROKEN, CLEAN, ODD)


@pytest.mark.parametrize("written", [
    check_junit(EVERYTHING), check_annotations(EVERYTHING, None), step_summary(EVERYTHING), check_codequality(EVERYTHING, None),
], ids=["junit", "annotations", "summary", "codequality"])  # fmt: skip
def test_no_report_for_people_has_a_character_that_turns_its_text_around(written: str) -> None:
    assert r"\u202e" in written.replace("&#92;", "\\")
    assert "\u202e" not in written


class TestForPeople:
    def lines(self, report: CheckReport) -> list[str]:
        return [line.plain for line in report_lines(report)]

    def test_one_contract_reads_like_a_conversation(self) -> None:
        assert self.lines(report_of(ADMISSIONS)) == [
            "admissions/contract.yaml:14:7  BREAKING  property `age` narrowed: maximum 150 -> 120  [schema.maximum-lowered]",
            '    accepted before, refused now:  {"age": 121}',
            "    consumers reading /age:  bed-planning, national-statistics",
            "admissions/contract.yaml:33:5  WARNING  rule `y` may forbid more  [rule.changed]",
            "admissions/contract.yaml:31:5  INFO  rule `x` allows more  [rule.loosened]",
            "    not affected:  los-report",
            "suggested version 2.0.0 · 1 breaking, 1 warning · exit 1",
        ]

    def test_of_several_contracts_each_has_its_version_and_clean_ones_are_silent(self) -> None:
        lines = self.lines(report_of(CLEAN, ADMISSIONS, BROKEN))
        assert [line for line in lines if "1.2.0" in line or "c.yaml" in line] == [
            "  hospital.admissions 1.2.0 -> 1.3.0 · suggested version 2.0.0"
        ]
        assert lines[-2:] == [
            "b.yaml:2:1  BREAKING  unknown key `ruls`  [contract.invalid]",
            "3 contracts against registry · 2 breaking, 1 warning · exit 1",
        ]

    def test_nothing_found_is_one_line(self) -> None:
        assert self.lines(report_of(CLEAN)) == [
            "1 contract against registry · 0 breaking, 0 warnings · exit 0"
        ]

    def test_no_name_or_value_starts_a_line_or_reaches_the_terminal_raw(self) -> None:
        lines = self.lines(report_of(ODD))
        assert len(lines) == 3
        assert "\\u000d\\u000a::error::\\u001b[31m" in lines[0]
        assert lines[1] == '    accepted now, refused before:  {"\\u0000": "\\u0085"}'
        assert all(line.isprintable() for line in lines)

    def test_a_long_counterexample_is_cut(self) -> None:
        long = CheckFinding(
            FindingSeverity.BREAKING,
            "c",
            "s",
            Spot("f"),
            counterexample=Counterexample('"' + "a" * 9_998 + '"'),
        )
        line = self.lines(report_of(ContractCheck("f", findings=(long,))))[1]
        assert len(line) < 600
        assert line.endswith("... (10,000 characters; --format json has them all)")


@pytest.mark.parametrize(
    ("fail_on", "failing"),
    [
        (FailOn.BREAKING, {"breaking"}),
        (FailOn.WARNING, {"breaking", "warning"}),
        (FailOn.INFO, {"breaking", "warning", "info"}),
        (FailOn.NEVER, set()),
    ],
)
def test_what_fails_a_run(fail_on: FailOn, failing: set[str]) -> None:
    for finding in (LOWERED, UNSURE, LOOSENED):
        contract = ContractCheck("f", "id", "1.1.0", BaseInfo("1.0.0", "base"), "2.0.0", (finding,))
        assert report_of(contract, fail_on=fail_on).failed is (finding.severity in failing)


class TestAllowMajor:
    def contract(self, version: str, *findings: CheckFinding) -> ContractCheck:
        return ContractCheck("f", "id", version, BaseInfo("9.2.0", "base"), "10.0.0", findings)

    def test_a_new_major_version_may_break(self) -> None:
        assert not report_of(self.contract("10.0.0", LOWERED), allow_major=True).failed
        assert report_of(self.contract("10.0.0", LOWERED)).failed

    def test_another_version_may_not(self) -> None:
        assert report_of(self.contract("9.3.0", LOWERED), allow_major=True).failed

    def test_no_version_makes_up_for_a_document_that_is_wrong(self) -> None:
        assert report_of(self.contract("10.0.0", INVALID), allow_major=True).failed

    def test_a_deleted_contract_opens_nothing(self) -> None:
        gone = ContractCheck("f", "id", None, BaseInfo("1.0.0", "base"), None, (LOWERED,))
        assert report_of(gone, allow_major=True).failed


class TestJson:
    def test_all_of_a_finding_is_there(self) -> None:
        written = json.loads(check_json(report_of(ADMISSIONS)))
        (contract,) = written.pop("contracts")
        assert written == {
            "format": "tidegate/check/v1",
            "against": "registry",
            "fail_on": "breaking",
            "failed": True,
            "summary": {"contracts": 1, "breaking": 1, "warning": 1, "info": 1},
        }
        findings = contract.pop("findings")
        assert contract == {
            "file": "admissions/contract.yaml",
            "id": "hospital.admissions",
            "version": "1.3.0",
            "base": {"version": "1.2.0", "origin": "registry:hospital.admissions@1.2.0"},
            "suggested_version": "2.0.0",
            "affected": ["bed-planning", "national-statistics"],
            "unaffected": ["los-report"],
        }
        assert findings[0] == {
            "severity": "breaking",
            "code": "schema.maximum-lowered",
            "sentence": "property `age` narrowed: maximum 150 -> 120",
            "file": "admissions/contract.yaml",
            "line": 14,
            "column": 7,
            "pointer": "/schema/definition/properties/age/maximum",
            "base_pointer": "/schema/definition/properties/age/maximum",
            "field": "/age",
            "outcome": "refuted",
            "direction": "backward",
            "counterexample": {"text": '{"age": 121}', "avro_base64": None},
            "consumers": ["bed-planning", "national-statistics"],
        }

    def test_bytes_are_base64_and_the_text_can_always_be_written(self) -> None:
        written = check_json(report_of(ODD, BROKEN))
        assert "\\ud83d ]]>" in written
        odd, broken = json.loads(written.encode())["contracts"]
        assert odd["findings"][0]["counterexample"]["avro_base64"] == "AP8="
        assert (broken["id"], broken["base"], broken["findings"][0]["outcome"]) == (None, None, None)


class TestSarif:
    def log(self, report: CheckReport, root: Path | None = None) -> dict[str, Any]:
        log: dict[str, Any] = json.loads(check_sarif(report, root).encode())
        assert list(SARIF.iter_errors(log)) == []
        return log

    def test_the_official_schema_tells_right_from_wrong(self) -> None:
        log = json.loads(check_sarif(EVERYTHING, None))
        log["runs"][0]["results"][0]["level"] = "breaking"
        assert [error.json_path for error in SARIF.iter_errors(log)] == ["$.runs[0].results[0].level"]

    def test_an_empty_run_says_that_it_found_nothing(self) -> None:
        (run,) = self.log(report_of(CLEAN))["runs"]
        assert run["results"] == []
        assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 0}]

    def test_results_have_level_rule_and_line(self) -> None:
        (run,) = self.log(EVERYTHING)["runs"]
        results = run["results"]
        assert [result["level"] for result in results] == ["error", "warning", "note", "error", "warning"]
        rules = run["tool"]["driver"]["rules"]
        assert [rules[result["ruleIndex"]]["id"] for result in results] == [
            result["ruleId"] for result in results
        ]
        described = {rule["id"]: rule["shortDescription"]["text"] for rule in rules}
        assert described["schema.maximum-lowered"] == "The largest accepted number is smaller."
        place = results[0]["locations"][0]["physicalLocation"]
        assert place == {
            "artifactLocation": {"uri": "admissions/contract.yaml", "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": 14, "startColumn": 7},
        }
        assert results[0]["message"]["text"] == (
            "property `age` narrowed: maximum 150 -> 120\n"
            'accepted before, refused now: {"age": 121}\n'
            "consumers: bed-planning, national-statistics"
        )
        assert results[0]["properties"]["suggestedVersion"] == "2.0.0"

    def test_what_readers_with_the_earlier_version_meet_is_a_rule_of_its_own(self) -> None:
        forward = replace(LOWERED, direction=Direction.FORWARD)
        loosened = replace(LOWERED, code="rule.loosened", direction=Direction.FORWARD)
        (run,) = self.log(report_of(ContractCheck("f", findings=(LOWERED, forward, loosened))))["runs"]
        rules = {rule["id"]: rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]}
        assert rules == {
            "rule.loosened": "A rule lets records pass that it refused.",
            "schema.maximum-lowered": "The largest accepted number is smaller.",
            "schema.maximum-lowered/forward": (
                "Read with the earlier version: the largest accepted number is smaller."
            ),
        }
        assert [result["ruleId"] for result in run["results"]] == [
            "schema.maximum-lowered",
            "schema.maximum-lowered/forward",
            "rule.loosened",
        ]

    def test_paths_are_uris(self) -> None:
        (run,) = self.log(report_of(ODD))["runs"]
        uri = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert uri == "r%C3%A4ume%20mit/a%2Cb%25%3Ac.yaml"

    def test_a_finding_keeps_its_fingerprint_when_lines_move(self) -> None:
        def fingerprints(finding: CheckFinding) -> object:
            contract = ContractCheck("f", "id", "1.0.0", findings=(finding,))
            return self.log(report_of(contract))["runs"][0]["results"][0]["partialFingerprints"]

        moved = CheckFinding(
            LOWERED.severity, LOWERED.code, "said otherwise", Spot("f", 99), LOWERED.pointer, field="/age"
        )
        assert fingerprints(moved) == fingerprints(LOWERED)
        assert fingerprints(UNSURE) != fingerprints(LOWERED)


class TestCodeQuality:
    # Source: GitLab, app/validators/json_schemas/codeclimate.json, and the severities of its documentation.
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "object",
        "required": ["description", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string"},
            "check_name": {"type": "string"},
            "fingerprint": {"type": "string"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": "^[^/]"},
                    "lines": {"type": "object", "properties": {"begin": {"type": "integer"}}},
                },
            },
        },
    }

    def test_every_finding_is_an_entry_of_the_format(self) -> None:
        report = json.loads(check_codequality(EVERYTHING, None))
        Draft7Validator({"type": "array", "items": self.SCHEMA}).validate(report)
        findings = [finding for contract in EVERYTHING.contracts for finding in contract.findings]
        assert [each["check_name"] for each in report] == [finding.code for finding in findings]
        assert len({each["fingerprint"] for each in report}) == len(report) > 1
        assert report[0]["location"] == {"path": "admissions/contract.yaml", "lines": {"begin": 14}}

    def test_findings_about_one_thing_are_told_apart(self) -> None:
        contract = ContractCheck("f", "id", "1.0.0", findings=(LOWERED, LOWERED))
        one, other = json.loads(check_codequality(report_of(contract), None))
        assert other["fingerprint"] == f"{one['fingerprint']}-1"


class TestJUnit:
    def suites(self, report: CheckReport) -> ET.Element:
        return ET.fromstring(check_junit(report).encode())  # noqa: S314 - our own text

    def test_findings_that_fail_the_run_are_failures(self) -> None:
        suites = self.suites(EVERYTHING)
        assert suites.attrib == {"name": "tidegate check", "tests": "6", "failures": "2"}
        admissions, _, clean, _ = suites
        assert admissions.attrib == {
            "name": "admissions/contract.yaml",
            "tests": "3",
            "failures": "1",
            "errors": "0",
        }
        failed, unsure, _ = admissions
        assert failed.attrib == {
            "name": "schema.maximum-lowered at 14:7",
            "classname": "hospital.admissions",
            "file": "admissions/contract.yaml",
            "line": "14",
        }
        (failure,) = failed
        assert failure.attrib == {"type": "schema.maximum-lowered", "message": LOWERED.sentence}
        assert failure.text is not None
        assert failure.text.splitlines()[0] == "admissions/contract.yaml:14:7"
        assert [part.tag for part in unsure] == ["system-out"]
        assert [(case.get("name"), len(case)) for case in clean] == [("compatible", 0)]

    def test_it_follows_what_fails(self) -> None:
        assert self.suites(report_of(ADMISSIONS, fail_on=FailOn.NEVER)).get("failures") == "0"
        assert self.suites(report_of(ADMISSIONS, fail_on=FailOn.INFO)).get("failures") == "3"

    def test_what_xml_cannot_say_or_nobody_sees_is_shown_by_its_code(self) -> None:
        (suite,) = self.suites(report_of(ODD, fail_on=FailOn.WARNING))
        message = suite[0][0].get("message")
        assert message is not None
        assert r"\u001b[31m <b> \ud83d ]]> \ufffe \u202e" in message

    def test_no_consumer_or_example_breaks_the_report(self) -> None:
        odd = replace(HOSTILE, consumers=("o\ufffe\u202e",), counterexample=Counterexample("{\x00\u2066}"))
        written = check_junit(report_of(replace(ODD, findings=(odd,))))
        assert ET.fromstring(written.encode())[0][0].get("file") == ODD.file  # noqa: S314 - our own text
        assert [part for part in ("\ufffe", "\u202e", "\x00", "\u2066") if part in written] == []


class TestGitHub:
    def test_a_finding_is_one_command(self) -> None:
        first = check_annotations(report_of(ADMISSIONS), None).splitlines()[0]
        assert first == (
            "::error file=admissions/contract.yaml,line=14,col=7,title=schema.maximum-lowered (breaking)::"
            "property `age` narrowed: maximum 150 -> 120%0A"
            'accepted before, refused now: {"age": 121}%0A'
            "consumers: bed-planning, national-statistics"
        )

    def test_breaking_findings_come_first_because_only_ten_are_shown(self) -> None:
        lines = check_annotations(EVERYTHING, None).split("\n")[:-1]
        assert [line.partition(" ")[0] for line in lines] == [
            "::error",
            "::error",
            "::warning",
            "::warning",
            "::notice",
        ]

    def test_no_text_ends_a_command_or_begins_another(self) -> None:
        (line,) = check_annotations(report_of(ODD), None).split("\n")[:-1]
        properties, _, data = line.removeprefix("::warning ").partition("::")
        assert (
            properties
            == "file=räume mit/a%2Cb%25%3Ac.yaml,line=3,col=9,title=schema.pattern-changed (warning)"
        )
        assert data.startswith(r"100 %25, a:b, `x|y`\u000d\u000a::error::\u001b[31m")

    def test_the_summary_says_whom_to_ask(self) -> None:
        summary = step_summary(report_of(ADMISSIONS))
        assert "### Contracts: 1 breaking, 1 warning" in summary
        assert "Suggested version: **2.0.0**" in summary
        assert (
            "Ask before merging: **bed-planning, national-statistics** · not affected: los-report" in summary
        )

    def test_names_in_the_summary_are_neither_markdown_nor_html(self) -> None:
        summary = step_summary(report_of(ODD))
        (row,) = (line for line in summary.splitlines() if "warning |" in line)
        assert "<b>" not in row
        assert "&#96;x&#124;y&#96;" in row
        assert row.count("|") == 6

    def test_a_summary_stays_below_the_limit_of_the_page(self) -> None:
        summary = step_summary(report_of(*[ADMISSIONS] * 5000))
        assert len(summary.encode()) < 1_000_000
        assert summary.endswith("There is more; `--format json` has all of it.\n")


class TestPlaces:
    def test_paths_count_from_the_root_whatever_the_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / ".git").mkdir()
        (tmp_path / "sub").mkdir()
        monkeypatch.chdir(tmp_path / "sub")
        root = repository_root(Path.cwd())
        assert root == tmp_path.resolve()
        assert from_root("contract.yaml", root) == "sub/contract.yaml"
        assert from_root("../gone/contract.yaml", root) == "gone/contract.yaml"
        assert from_root("../../other.yaml", root) == "../../other.yaml"

    def test_outside_of_a_repository_they_stay(self, tmp_path: Path) -> None:
        assert repository_root(tmp_path) is None
        assert from_root("a b.yaml", None) == "a b.yaml"
