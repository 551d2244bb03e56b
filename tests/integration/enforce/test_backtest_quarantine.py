"""`tidegate backtest` on a quarantine topic: what a changed contract would accept of the records that were refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.integration.enforce.line import KNOWN, Line, row
from tidegate.contracts.stream.output_topics import quarantine_topic


def test_a_changed_contract_on_what_was_refused(make_line: Callable[..., Line], tmp_path: Path) -> None:
    line = make_line()
    line.produce(*(row(number, 999 if number % 3 == 0 else 1) for number in range(9)), row(9, 999, odd=1))
    line.enforce()
    base, candidate = tmp_path / "base.json", tmp_path / "candidate.json"
    base.write_text(json.dumps(line.document()))
    candidate.write_text(json.dumps(line.document(version="1.1.0", rules=[{**KNOWN, "severity": "warning"}])))
    command = [sys.executable, "-m", "tidegate.gateway.cli.main", "backtest", candidate, "--against", base]
    source = ("--data", f"kafka:{quarantine_topic(line.topic)}", "--format", "json")
    servers = ("--bootstrap-servers", line.settings.bootstrap_servers)
    ran = subprocess.run([*command, *source, *servers], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    # Records of transactions only: their markers are no records.
    assert (report["records"], report["newly_passing"], report["newly_refused"]) == (4, 3, 0)
    assert (report["refused_by_base"], report["refused_by_candidate"]) == (4, 1)
    assert [each["code"] for each in report["newly_passing_by"]] == ["amount-is-known"]
