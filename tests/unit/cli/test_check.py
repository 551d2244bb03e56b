"""`tidegate check` as a person, a script and a code host see it: files and folders."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.unit.checks.test_reports import SARIF
from tests.unit.checks.workplace import PROPERTIES, Git, Write, contract_text

from .check_reports import codes, found
from .conftest import Run

AGE_LINE = 1 + contract_text()[: contract_text().index('"maximum"')].count("\n")


class TestFiles:
    @pytest.fixture
    def change(self, write: Write) -> tuple[Path, Path]:
        return write("old.json"), write("new.json", maximum=120, version="1.0.1")

    def test_a_breaking_change_is_reported_with_its_place_its_proof_and_its_readers(
        self, tidegate: Run, change: tuple[Path, Path]
    ) -> None:
        ran = tidegate("check", change[1], "--against", change[0])
        lines = ran.stdout.decode().splitlines()
        assert lines[0].startswith(f"new.json:{AGE_LINE}:22  BREAKING  ")
        assert lines[0].endswith("  [schema.maximum-lowered]")
        assert lines[1].startswith("    accepted before, refused now:  ")
        assert 120 < json.loads(lines[1].partition(":  ")[2])["age"] <= 150
        assert lines[2] == "    consumers reading /age:  bed-planning"
        assert lines[3].endswith("make it 2.0.0  [version.too-low]")
        assert lines[4] == "    not affected:  los-report"
        assert lines[-1] == "suggested version 2.0.0 · 1 breaking, 1 warning · exit 1"
        assert (ran.returncode, ran.stderr) == (1, b"")

    def test_the_same_document_has_no_findings(self, tidegate: Run, change: tuple[Path, Path]) -> None:
        ran = tidegate("check", change[0], "--against", change[0])
        assert ran.stdout == b"1 contract against old.json \xc2\xb7 0 breaking, 0 warnings \xc2\xb7 exit 0\n"
        assert ran.returncode == 0

    def test_a_rule_that_nothing_judges_is_a_warning(
        self, tidegate: Run, change: tuple[Path, Path], write: Write
    ) -> None:
        carried = {
            **PROPERTIES,
            "n": {"type": "integer", "confluent:rules": [{"name": "r", "expr": "this > 1"}]},
        }
        definition = {"type": "object", "properties": carried}
        new = write("ruled.json", version="2.0.0", schema={"type": "json-schema", "definition": definition})
        ran = tidegate("check", new, "--against", change[0], "--format", "json")
        (contract,) = json.loads(ran.stdout)["contracts"]
        (finding,) = [one for one in contract["findings"] if one["code"] == "contract.rule-not-judged"]
        assert finding["severity"] == "warning"
        assert "a rule for clients at /n (confluent.r.n), which is judged only if" in finding["sentence"]

    @pytest.mark.parametrize(
        ("level", "breaking"),
        [("NONE", 0), ("BACKWARD", 1), ("forward", 0), ("FULL", 1), ("BACKWARD_TRANSITIVE", 1)],
    )
    def test_the_level_decides_what_breaks(
        self, tidegate: Run, change: tuple[Path, Path], level: str, breaking: int
    ) -> None:
        ran = tidegate("check", change[1], "--against", change[0], "--level", level, "--format", "json")
        (contract,) = found(ran)
        assert [one["code"] for one in contract["findings"] if one["severity"] == "breaking"] == [
            "schema.maximum-lowered"
        ] * breaking

    @pytest.mark.parametrize(
        ("fail_on", "code"), [("breaking", 1), ("warning", 1), ("info", 1), ("never", 0)]
    )
    def test_what_fails_is_chosen(
        self, tidegate: Run, change: tuple[Path, Path], fail_on: str, code: int
    ) -> None:
        ran = tidegate("check", change[1], "--against", change[0], "--fail-on", fail_on)
        assert ran.returncode == code
        assert ran.stdout.decode().endswith(f"exit {code}\n")

    def test_a_new_major_version_may_break_if_that_is_allowed(
        self, tidegate: Run, write: Write, change: tuple[Path, Path]
    ) -> None:
        major = write("major.json", maximum=120, version="2.0.0")
        allowed = tidegate("check", major, "--against", change[0], "--allow-major", "--format", "json")
        assert (allowed.returncode, codes(allowed)) == (0, {"major.json": ["schema.maximum-lowered"]})
        assert tidegate("check", major, "--against", change[0]).returncode == 1
        assert tidegate("check", change[1], "--against", change[0], "--allow-major").returncode == 1

    def test_two_named_files_are_compared_whatever_their_ids(self, tidegate: Run, write: Write) -> None:
        old, new = write("old.json"), write("new.json", contract_id="other", maximum=120, version="2.0.0")
        ran = tidegate("check", new, "--against", old, "--format", "json")
        assert "schema.maximum-lowered" in codes(ran)["new.json"]

    @pytest.mark.parametrize(
        ("version", "maximum", "expected"),
        [
            ("1.0.0", 150, []),
            ("1.0.0", 200, ["breaking"]),
            ("0.9.0", 200, ["breaking"]),
            ("1.0.0-rc.1", 200, ["breaking"]),
            ("1.0.1", 200, ["warning"]),
            ("1.1.0", 200, []),
            ("2.0.0", 200, []),
            ("1.1.0", 120, ["warning"]),
            ("2.0.0", 120, []),
        ],
    )
    def test_a_version_says_how_much_has_changed(
        self, tidegate: Run, write: Write, version: str, maximum: int, expected: list[str]
    ) -> None:
        old, new = write("old.json"), write("new.json", version=version, maximum=maximum)
        (contract,) = found(tidegate("check", new, "--against", old, "--format", "json"))
        wrong = [one for one in contract["findings"] if one["code"] == "version.too-low"]
        assert [one["severity"] for one in wrong] == expected
        assert all((one["line"], one["pointer"]) == (5, "/version") for one in wrong)

    def test_findings_of_a_schema_file_are_in_that_file(self, tidegate: Run, write: Write) -> None:
        schema = {"type": "json-schema", "file": "s p/räume.json"}
        for name, maximum in (("old", 150), ("new", 120)):
            write(f"{name}/contract.json", schema=schema, version="2.0.0" if name == "new" else "1.0.0")
            properties = {**PROPERTIES, "age": {"type": "integer", "maximum": maximum}}
            document = json.dumps({"type": "object", "properties": properties}, indent=2)
            write(f"{name}/s p/räume.json", document.replace("\n", "\r\n"))
        ran = tidegate("check", "new/contract.json", "--against", "old/contract.json", "--format", "json")
        (contract,) = found(ran)
        (finding,) = contract["findings"]
        assert (finding["file"], finding["line"], finding["column"]) == ("new/s p/räume.json", 6, 18)

    def test_lines_of_yaml_with_windows_line_ends(self, tidegate: Run, write: Write) -> None:
        text = (
            "apiVersion: tidegate/v1\nkind: DataContract\nid: a\nversion: {version}\ntopic: a\n"
            "schema:\n  type: avro\n  definition:\n    type: record\n    name: R\n    fields:\n"
            "      - {{name: zürich, type: long}}\n      - name: age\n        type: {type}\n"
        ).replace("\n", "\r\n")
        old = write("old.yaml", text.format(version="1.0.0", type="long"))
        new = write("new.yaml", text.format(version="2.0.0", type="int"))
        (contract,) = found(tidegate("check", new, "--against", old, "--format", "json"))
        places = {
            (one["line"], one["column"]) for one in contract["findings"] if one["severity"] == "breaking"
        }
        assert (14, 15) in places

    def test_what_was_removed_is_found_where_it_was(self, tidegate: Run, write: Write) -> None:
        rules = [{"id": "known", "kind": "forbidden", "field": "/age", "values": [999]}]
        old, new = write("old.json", rules=rules), write("new.json", version="1.1.0", rules=[])
        ran = tidegate("check", new, "--against", old, "--format", "json", "--level", "FULL")
        (contract,) = found(ran)
        (finding,) = contract["findings"]
        assert finding["code"] == "rule.removed"
        assert finding["line"] == 1 + new.read_text()[: new.read_text().index('"rules"')].count("\n")


class TestDocumentsThatAreWrong:
    def test_every_mistake_is_a_finding_with_its_place(self, tidegate: Run, write: Write) -> None:
        rules = [{"id": "r", "kind": "range", "field": "/agee", "minimum": 0}]
        write("new/a/contract.json", rules=rules, statuss="active")
        write("new/b/contract.yaml", "apiVersion: tidegate/v1\nid: [\n")
        write("old/a/contract.json")
        ran = tidegate("check", "new", "--against", "old", "--format", "json")
        a, b = found(ran)
        assert [(one["code"], one["severity"]) for one in a["findings"]] == [
            ("contract.invalid", "breaking")
        ] * 2
        assert "did you mean `/age`?" in json.dumps(a)
        assert "did you mean `status`?" in json.dumps(a)
        assert all(one["line"] > 20 and one["column"] > 1 for one in a["findings"])
        assert [(one["file"], one["line"]) for one in b["findings"]] == [("new/b/contract.yaml", 3)]
        assert ran.returncode == 1

    def test_a_name_that_may_be_misspelt_is_a_warning(self, tidegate: Run, write: Write) -> None:
        schema = {"type": "object", "properties": {"age": {"type": "integer", "minimun": 0}}}
        part = {"type": "json-schema", "definition": schema}
        new, old = write("new.json", version="1.1.0", schema=part), write("old.json")
        ran = tidegate("check", new, "--against", old, "--format", "json", "--level", "NONE")
        (contract,) = found(ran)
        (finding,) = [one for one in contract["findings"] if one["code"] == "contract.unknown-name"]
        assert finding["severity"] == "warning"
        assert finding["line"] == 1 + new.read_text()[: new.read_text().index('"minimun"')].count("\n")

    def test_a_mistake_in_a_schema_file_is_there(self, tidegate: Run, write: Write) -> None:
        write("new/contract.json", schema={"type": "json-schema", "file": "s.json"})
        write("new/s.json", '{\n  "type": "object",\n  "properties": {"a": {"type": "strnig"}}\n}\n')
        write("old.json")
        (contract,) = found(
            tidegate("check", "new/contract.json", "--against", "old.json", "--format", "json")
        )
        assert [(one["file"], one["line"]) for one in contract["findings"]] == [("new/s.json", 3)]

    def test_a_named_file_that_is_no_contract_says_how_one_begins(self, tidegate: Run, write: Write) -> None:
        ran = tidegate("check", write("notes.yaml", "- hello\n"), "--against", write("old.json"))
        assert ran.stdout.decode().startswith(
            "notes.yaml:1:1  BREAKING  this is not a contract; one begins with `apiVersion: tidegate/v1` and "
            "`kind: DataContract`  [contract.invalid]\n"
        )
        assert ran.returncode == 1

    def test_an_earlier_document_that_is_wrong_hides_nothing(self, tidegate: Run, write: Write) -> None:
        write("old/c.json", contract_text().replace('"topic"', '"topik"'))
        write("new/c.json")
        ran = tidegate("check", "new", "--against", "old", "--format", "json")
        (contract,) = found(ran)
        assert [(one["code"], one["severity"]) for one in contract["findings"]] == [
            ("base.invalid", "warning")
        ]
        assert "topik" in contract["findings"][0]["sentence"]

    def test_an_earlier_document_that_does_not_compile_is_reported_too(
        self, tidegate: Run, write: Write
    ) -> None:
        rules = [{"id": "r", "kind": "range", "field": "/agee", "minimum": 0}]
        old, new = write("old.json", rules=rules), write("new.json")
        (contract,) = found(tidegate("check", new, "--against", old, "--format", "json"))
        assert [(one["code"], one["severity"]) for one in contract["findings"]] == [
            ("base.invalid", "warning")
        ]
        assert "did you mean `/age`?" in contract["findings"][0]["sentence"]

    def test_a_name_of_a_file_gives_no_command(self, tidegate: Run, write: Write) -> None:
        write("::error::/a\n::error::b.json", contract_text("a").replace('"topic"', '"topik"'))
        write("old.json")
        ran = tidegate("check", "::error::", "--against", "old.json")
        assert ran.stdout.decode().startswith("./::error::/a\\u000a::error::b.json:")


class TestFolders:
    def test_contracts_are_known_by_id(self, tidegate: Run, write: Write) -> None:
        write("old/a.json", contract_id="a")
        write("old/b.json", contract_id="b")
        write("old/c.json", contract_id="c")
        write("new/renamed.json", contract_id="a", version="1.0.1", maximum=120)
        write("new/b.json", contract_id="b")
        write("new/d.json", contract_id="d")
        ran = tidegate("check", "new", "--against", "old", "--format", "json")
        assert codes(ran) == {
            "new/b.json": [],
            "new/d.json": ["contract.new"],
            "new/renamed.json": ["schema.maximum-lowered", "version.too-low"],
            "old/c.json": ["contract.deleted"],
        }
        gone = found(ran)[-1]
        assert gone["findings"][0]["consumers"] == ["bed-planning", "los-report"]
        assert (gone["version"], gone["base"]) == (None, {"version": "1.0.0", "origin": "old/c.json"})

    @pytest.mark.parametrize(
        ("status", "severity"), [("deprecated", "breaking"), ("retired", "info"), ("draft", "info")]
    )
    def test_only_an_enforced_contract_must_stay(
        self, tidegate: Run, write: Write, status: str, severity: str
    ) -> None:
        write("old/a.json", contract_id="a", status=status)
        write("old/b.json", contract_id="b")
        write("new/b.json", contract_id="b")
        ran = tidegate("check", "new", "--against", "old", "--format", "json")
        assert [(one["code"], one["severity"]) for one in found(ran)[-1]["findings"]] == [
            ("contract.deleted", severity)
        ]

    def test_one_file_of_many_is_not_taken_for_all(self, tidegate: Run, write: Write) -> None:
        write("old/a.json", contract_id="a")
        write("old/b.json", contract_id="b")
        ran = tidegate("check", write("new/b.json", contract_id="b"), "--against", "old", "--format", "json")
        assert codes(ran) == {"new/b.json": []}

    def test_a_contract_that_does_not_compile_is_not_gone(self, tidegate: Run, write: Write) -> None:
        write("old/a.json", contract_id="a")
        write("new/a.json", contract_text("a").replace('"topic"', '"topik"'))
        ran = tidegate("check", "new", "--against", "old", "--format", "json")
        assert set(codes(ran)) == {"new/a.json"}

    def test_each_version_in_a_file_of_its_own(self, tidegate: Run, write: Write) -> None:
        for folder in ("old", "new"):
            write(f"{folder}/1.0.0.json", version="1.0.0", maximum=100)
            write(f"{folder}/1.1.0.json", version="1.1.0", maximum=150)
            write(f"{folder}/2.0.0.json", version="2.0.0", maximum=90)
        write("new/1.1.1.json", version="1.1.1", maximum=150, description="a fix of the older line")
        write("new/2.1.0.json", version="2.1.0", maximum=95)
        ran = tidegate("check", "new", "--against", "old", "--format", "json")
        bases = {one["file"]: one["base"]["version"] for one in found(ran)}
        assert bases["new/1.1.1.json"] == "1.1.0"
        assert bases["new/2.1.0.json"] == "2.0.0"
        assert (ran.returncode, codes(ran)["new/1.0.0.json"]) == (0, [])

    def test_a_version_s_own_file_goes_before_higher_versions(self, tidegate: Run, write: Write) -> None:
        for folder, maximum in (("old", 120), ("new", 110)):
            write(f"{folder}/1.0.0.json", version="1.0.0", maximum=maximum)
            write(f"{folder}/1.1.0.json", version="1.1.0", maximum=150)
        (contract, _) = found(tidegate("check", "new", "--against", "old", "--format", "json"))
        assert contract["base"] == {"version": "1.0.0", "origin": "old/1.0.0.json"}
        assert contract["suggested_version"] == "2.0.0"

    def test_two_documents_may_not_be_one_version(self, tidegate: Run, write: Write) -> None:
        write("old/a.json")
        write("new/a.json")
        write("new/b.json", description="another")
        write("new/c.json")
        ran = tidegate("check", "new", "--against", "old", "--format", "json")
        assert {file: found[:1] for file, found in codes(ran).items()} == {
            "new/a.json": [],
            "new/b.json": ["version.doubled"],
            "new/c.json": [],
        }
        assert "is also what new/a.json says" in ran.stdout.decode()

    def test_a_transitive_level_looks_at_every_version(self, tidegate: Run, write: Write) -> None:
        write("old/1.0.0.json", version="1.0.0", maximum=150)
        write("old/2.0.0.json", version="2.0.0", maximum=120)
        write("new/2.1.0.json", version="2.1.0", maximum=130)
        command = ("check", "new", "--against", "old", "--format", "json", "--level")
        assert tidegate(*command, "BACKWARD").returncode == 0
        transitive = tidegate(*command, "BACKWARD_TRANSITIVE")
        assert transitive.returncode == 1
        assert "schema.maximum-lowered" in codes(transitive)["new/2.1.0.json"]

    def test_drafts_are_no_promise(self, tidegate: Run, write: Write) -> None:
        write("old/c.json", status="draft")
        write("new/c.json", maximum=120, version="1.0.0")
        ran = tidegate("check", "new", "--against", "old", "--format", "json")
        assert (ran.returncode, codes(ran)) == (0, {"new/c.json": ["contract.not-enforced"]})

    def test_avro_has_its_datum(self, tidegate: Run, write: Write) -> None:
        for name, kind, version in (("old", "long", "1.0.0"), ("new", "int", "2.0.0")):
            definition = {"type": "record", "name": "R", "fields": [{"name": "age", "type": kind}]}
            write(
                f"{name}.json",
                version=version,
                schema={"type": "avro", "definition": definition},
                consumers=[],
            )
        (contract,) = found(tidegate("check", "new.json", "--against", "old.json", "--format", "json"))
        examples = [one["counterexample"] for one in contract["findings"] if one["counterexample"]]
        assert examples
        assert all(example["avro_base64"] for example in examples)


class TestOutputs:
    @pytest.fixture
    def arguments(self, write: Write) -> tuple[str, ...]:
        write("old.json")
        write("new.json", maximum=120, version="2.0.0")
        return ("check", "new.json", "--against", "old.json")

    @pytest.mark.parametrize("name", ["json", "sarif", "junit", "text"])
    def test_a_report_in_a_file_leaves_the_text_to_people(
        self, tidegate: Run, arguments: tuple[str, ...], here: Path, name: str
    ) -> None:
        printed = tidegate(*arguments, "--format", name).stdout
        ran = tidegate(*arguments, "--format", name, "--output", "re port")
        assert (here / "re port").read_bytes() == printed
        assert ran.stdout == tidegate(*arguments).stdout
        assert ran.returncode == 1

    def test_github_gets_annotations_and_a_summary(
        self, tidegate: Run, arguments: tuple[str, ...], here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        summary = here / "summary.md"
        summary.write_text("before\n")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
        lines = tidegate(*arguments, "--format", "github").stdout.decode().splitlines()
        assert [line for line in lines if line.startswith("::")] == lines[-1:]
        assert lines[-1].startswith(
            f"::error file=new.json,line={AGE_LINE},col=22,title=schema.maximum-lowered (breaking)::"
        )
        assert summary.read_text().startswith("before\n### Contracts: 1 breaking, 0 warnings\n")
        assert "Ask before merging: **bed-planning** · not affected: los-report" in summary.read_text()

    def test_the_sarif_of_a_run_is_valid_and_points_at_lines(
        self, tidegate: Run, arguments: tuple[str, ...]
    ) -> None:
        log = json.loads(tidegate(*arguments, "--format", "sarif").stdout)
        assert list(SARIF.iter_errors(log)) == []
        assert log["version"] == "2.1.0"
        (run,) = log["runs"]
        assert run["invocations"][0]["exitCode"] == 1
        regions = [one["locations"][0]["physicalLocation"]["region"] for one in run["results"]]
        assert {"startLine": AGE_LINE, "startColumn": 22} in regions

    def test_the_junit_of_a_run_has_a_failure_for_each_finding_that_fails_it(
        self, tidegate: Run, arguments: tuple[str, ...]
    ) -> None:
        suites = ET.fromstring(tidegate(*arguments, "--format", "junit").stdout)  # noqa: S314 - our own text
        assert (suites.tag, suites.get("failures")) == ("testsuites", "1")
        (failed,) = suites.findall(".//testcase[failure]")
        assert (failed.get("file"), failed.get("line")) == ("new.json", str(AGE_LINE))
        assert "accepted before, refused now" in (failed.findtext("failure") or "")

    def test_files_folders_and_commits_are_compared_without_a_network(
        self, tidegate: Run, write: Write, git: Git, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write("old/a.json")
        write("new/a.json", maximum=120, version="2.0.0")
        git.commit()

        def refuse(*_: object, **__: object) -> None:
            pytest.fail("a connection was opened")

        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setenv("TIDEGATE_REGISTRY_URL", "http://192.0.2.1:1")
        for against, code in (("old", 1), ("old/a.json", 1), ("git:HEAD", 0)):
            assert tidegate("check", "new", "--against", against).returncode == code
        assert tidegate("diff", "old/a.json", "new/a.json").returncode == 0

    def test_colour_is_for_terminals(self, process: Run, arguments: tuple[str, ...]) -> None:
        assert b"\x1b[" not in process(*arguments).stdout

    def test_a_report_that_cannot_be_written_is_an_error(
        self, tidegate: Run, arguments: tuple[str, ...]
    ) -> None:
        ran = tidegate(*arguments, "--format", "json", "--output", "no/such/folder.json")
        assert ran.returncode == 2
        assert b"cannot write no/such/folder.json: No such file or directory" in ran.stderr
