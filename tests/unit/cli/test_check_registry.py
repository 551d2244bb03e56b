"""`tidegate check --against registry` and `diff registry:...`, with a real registry: a process, asked over HTTP."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from tests.unit.checks.workplace import Write, contract_text

from .conftest import Ran, Run
from .test_check import found


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry that all tests here share; each has contract ids of its own."""
    folder = tmp_path_factory.mktemp("registry")
    command = [sys.executable, "-m", "tidegate.gateway.cli.main", "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "--database-url", f"sqlite:///{folder}/registry.db"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        listening = next(line for line in process.stderr if '"registry_listening"' in line)
        yield f"http://127.0.0.1:{json.loads(listening)['port']}"
        process.terminate()


@pytest.fixture
def contract_id() -> str:
    return f"stream-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def publish(registry: str, contract_id: str) -> Any:
    """Publish a version of the test's contract; keyword arguments replace its fields."""

    def publish_version(version: str, **changes: Any) -> None:
        answer = httpx.post(
            f"{registry}/api/v1/contracts",
            content=contract_text(contract_id, version, **changes),
            headers={"Content-Type": "application/json"},
            trust_env=False,
        )
        assert answer.status_code == 201, answer.text

    return publish_version


@pytest.fixture
def check(tidegate: Run, write: Write, registry: str, contract_id: str) -> Any:
    """Check a version of the test's contract; give its findings' codes, and the contract of the report."""

    def check_version(version: str, *options: str, **changes: Any) -> tuple[list[str], dict[str, Any]]:
        path = write("contract.json", contract_id=contract_id, version=version, **changes)
        ran = tidegate("check", path, "--registry", registry, "--format", "json", *options)
        (contract,) = found(ran)
        return [finding["code"] for finding in contract["findings"]], contract

    return check_version


def test_an_unpublished_contract_is_new(check: Any) -> None:
    codes, contract = check("1.0.0")
    assert (codes, contract["base"]) == (["contract.new"], None)


def test_what_is_published_already_has_no_findings(check: Any, publish: Any) -> None:
    publish("1.0.0")
    publish("2.0.0", maximum=120)
    assert check("1.0.0")[0] == []
    assert check("2.0.0", maximum=120)[0] == []


def test_the_latest_enforced_version_counts(check: Any, publish: Any, contract_id: str) -> None:
    publish("1.0.0")
    publish("1.1.0", maximum=160)
    publish("1.2.0", maximum=200, status="draft")
    publish("1.1.1", maximum=210, status="retired")
    codes, contract = check("1.3.0", maximum=155)
    assert contract["base"] == {"version": "1.1.0", "origin": f"registry:{contract_id}@1.1.0"}
    assert codes == ["schema.maximum-lowered", "version.too-low"]
    assert contract["suggested_version"] == "2.0.0"
    assert (contract["affected"], contract["unaffected"]) == (["bed-planning"], ["los-report"])


def test_versions_that_were_never_enforced_promise_nothing(check: Any, publish: Any) -> None:
    publish("1.0.0", status="draft")
    codes, contract = check("1.0.1", maximum=10)
    assert codes == ["contract.not-enforced"]
    assert "1.0.0 is draft" in contract["findings"][0]["sentence"]


def test_a_fix_of_an_older_line_follows_that_line(check: Any, publish: Any) -> None:
    publish("1.0.0")
    publish("2.0.0", maximum=120)
    codes, contract = check("1.0.1", maximum=150, description="a fix")
    assert contract["base"]["version"] == "1.0.0"
    assert "schema.maximum-raised" not in codes
    assert check("3.0.0", maximum=110)[1]["base"]["version"] == "2.0.0"


def test_a_transitive_level_asks_for_every_version(check: Any, publish: Any) -> None:
    publish("1.0.0", maximum=150)
    publish("1.1.0", maximum=160)
    publish("2.0.0", maximum=120)
    plain = check("2.1.0", maximum=130)[1]
    assert [one["severity"] for one in plain["findings"]].count("breaking") == 0
    codes, contract = check("2.1.0", "--level", "BACKWARD_TRANSITIVE", maximum=130)
    assert (codes[0], codes[-1]) == ("schema.maximum-lowered", "version.too-low")
    breaking = [one["sentence"] for one in contract["findings"] if one["severity"] == "breaking"]
    assert [sentence.rpartition(" (")[2] for sentence in breaking] == ["against 1.1.0)"]
    assert (contract["base"]["version"], contract["suggested_version"]) == ("2.0.0", "3.0.0")


def test_the_published_level_counts_not_the_candidate_s(check: Any, publish: Any) -> None:
    publish("1.0.0", compatibility="FULL")
    codes, contract = check("2.0.0", maximum=200, compatibility="NONE")
    breaking = [one["code"] for one in contract["findings"] if one["severity"] == "breaking"]
    assert len(breaking) == 1
    assert breaking[0].startswith("schema.maximum-")
    assert "contract.compatibility-lowered" in codes


def test_a_version_that_is_taken_or_not_raised(check: Any, publish: Any) -> None:
    publish("1.0.0")
    publish("1.1.0", maximum=160, status="draft")
    assert check("1.0.0", maximum=160)[0][0] == "version.too-low"
    codes, contract = check("1.1.0", maximum=170)
    assert codes[0] == "version.taken"
    assert contract["findings"][0]["severity"] == "breaking"


def test_contracts_of_others_are_not_missing(
    tidegate: Run, write: Write, registry: str, publish: Any
) -> None:
    publish("1.0.0")
    write("contracts/mine.json", contract_id=f"mine-{uuid.uuid4().hex[:8]}")
    ran = tidegate("check", "contracts", "--registry", registry)
    assert ran.returncode == 0
    assert ran.stdout.decode().endswith("1 contract against registry · 0 breaking, 0 warnings · exit 0\n")


def test_migrations_that_clients_registered_are_named_as_not_executed(
    check: Any, registry: str, contract_id: str
) -> None:
    rule = {"name": "up", "kind": "TRANSFORM", "mode": "UPGRADE", "type": "JSONATA", "expr": "$"}
    schema = json.dumps({"type": "object", "additionalProperties": False})
    body = {"schemaType": "JSON", "schema": schema, "ruleSet": {"migrationRules": [rule]}}
    path = f"{registry}/subjects/{contract_id}-value/versions"
    assert httpx.post(path, json=body, trust_env=False).status_code == 200
    codes, contract = check("2.0.0", topic=contract_id)
    assert "contract.rule-not-judged" in codes
    (named,) = [one for one in contract["findings"] if one["code"] == "contract.rule-not-judged"]
    assert named["severity"] == "info"
    assert (
        "1.0.0: the rule up is a migration of type JSONATA and mode UPGRADE, which readers' "
        in json.dumps(named)
    )


class TestARegistryThatCannotBeAsked:
    def refused(self, ran: Ran, code: int, message: str) -> None:
        assert (ran.returncode, ran.stdout) == (code, b"")
        assert re.search(message, ran.stderr.decode())

    def test_it_does_not_answer(self, tidegate: Run, write: Write) -> None:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        ran = tidegate("check", write("a.json"), "--registry", url)
        self.refused(ran, 3, rf"no registry answers at {url}.*--registry")
        self.refused(
            tidegate("diff", "registry:a@1.0.0", "a.json", "--registry", url), 3, "no registry answers"
        )

    def test_it_is_something_else(self, tidegate: Run, write: Write, registry: str) -> None:
        ran = tidegate("check", write("a.json"), "--registry", f"{registry}/desk")
        self.refused(ran, 2, "answers 404 .*is it a Tidegate registry")


class TestDiff:
    def test_two_published_versions(
        self, tidegate: Run, publish: Any, contract_id: str, registry: str
    ) -> None:
        publish("1.0.0")
        publish("2.0.0", maximum=120)
        names = f"registry:{contract_id}@1.0.0", f"registry:{contract_id}@latest"
        ran = tidegate("diff", *names, "--registry", registry, "--format", "json")
        shown = json.loads(ran.stdout)
        assert (ran.returncode, shown["format"]) == (0, "tidegate/diff/v1")
        assert [finding["code"] for finding in shown["findings"]] == ["schema.maximum-lowered"]
        assert shown["findings"][0]["file"] == names[1]

    def test_a_published_version_and_a_file(
        self, tidegate: Run, publish: Any, contract_id: str, registry: str, write: Write
    ) -> None:
        publish("1.0.0")
        path = write("new.json", contract_id=contract_id, version="1.0.0", maximum=120)
        ran = tidegate("diff", f"registry:{contract_id}@latest", path, "--registry", registry)
        assert ran.stdout.decode().startswith("new.json:")
        assert ran.returncode == 0

    def test_what_is_not_there(self, tidegate: Run, publish: Any, contract_id: str, registry: str) -> None:
        publish("1.0.0", status="draft")
        for version, message in (
            ("3.0.0", "has no version 3.0.0; the highest is 1.0.0"),
            ("latest", "no version of .* is active or deprecated"),
        ):
            ran = tidegate("diff", f"registry:{contract_id}@{version}", "x.json", "--registry", registry)
            assert ran.returncode == 2
            assert re.search(message, ran.stderr.decode())
        ran = tidegate("diff", "registry:nobody@latest", "x.json", "--registry", registry)
        assert "no contract is published under the id nobody" in ran.stderr.decode()


class Newer(BaseHTTPRequestHandler):
    """A registry that is newer than the command line, as far as its answers can tell."""

    def do_GET(self) -> None:
        version = {"version": "1.0.0", "status": "active", "fingerprint": "0" * 64}
        body = json.dumps({"versions": [version]})
        if self.path.endswith("/versions/1.0.0"):
            body = contract_text("a", novelty=True)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


def test_a_document_that_cannot_be_read_here_is_no_finding(tidegate: Run, write: Write) -> None:
    path = write("a.json", contract_id="a")
    with ThreadingHTTPServer(("127.0.0.1", 0), Newer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        ran = tidegate("check", path, "--registry", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert "cannot be read here; is it a newer Tidegate?" in ran.stderr.decode()
