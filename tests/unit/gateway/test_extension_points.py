"""The section "Extension points" of docs/contributor.md: a toy of each is added from outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.unit.checks.workplace import contract_text
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.alerts import channels
from tidegate.gateway.alerts.alert import Alert
from tidegate.gateway.alerts.settings import AlertSettings
from tidegate.gateway.factory import Factory
from tidegate.gateway.streams import metrics
from tidegate.gateway.streams.metrics import StreamMetric

CHECK_IN_A_TOY_FORMAT = """
import sys
from tidegate.gateway.checks.formats.registry import FORMATS, OutputFormat
FORMATS["toy"] = OutputFormat(lambda report, root: f"toy: {len(report.contracts)} contracts, failed {report.failed}\\n")
from tidegate.gateway.cli.main import main
sys.argv = ["tidegate", *sys.argv[1:]]
main()
"""


def run_with_the_toy_format(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHECK_IN_A_TOY_FORMAT, "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_output_format_of_check_is_one_entry_of_the_registry(tmp_path: Path) -> None:
    for name, maximum in (("old.json", 150), ("new.json", 120)):
        (tmp_path / name).write_text(contract_text(maximum=maximum))
    old, new = str(tmp_path / "old.json"), str(tmp_path / "new.json")
    ran = run_with_the_toy_format(new, "--against", old, "--format", "toy")
    assert (ran.returncode, ran.stdout) == (1, "toy: 1 contracts, failed True\n"), ran.stderr
    to_file = run_with_the_toy_format(
        new, "--against", old, "--format", "toy", "--output", f"{tmp_path}/found"
    )
    assert (tmp_path / "found").read_text() == ran.stdout
    assert "2 breaking, 0 warnings" in to_file.stdout  # the text goes to the terminal
    assert "toy" in run_with_the_toy_format("--help").stdout


@pytest.mark.usefixtures("known_streams")
def test_a_metric_is_one_line_of_the_table(
    client: Any,
    factory: Factory,
    make_report: Callable[..., BatchReport],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    factory.reports().record("hospital.admissions", make_report(1))
    toy = StreamMetric(
        metrics.GaugeMetricFamily,
        "tidegate_toy",
        "A toy.",
        ("kind",),
        lambda facts: [(("length",), len(facts.stream))],
    )
    monkeypatch.setattr(metrics, "METRICS", (*metrics.METRICS, toy))
    shown = client.get("/metrics").text
    assert 'tidegate_toy{kind="length",stream="hospital.admissions"} 19.0' in shown


def test_an_alert_channel_is_one_entry_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    class Toy:
        name = "toy"

        def send(self, alert: Alert) -> None:
            raise NotImplementedError

        @classmethod
        def configured(cls, settings: AlertSettings) -> Toy | None:
            return cls() if settings.alert_email_to else None

        @classmethod
        def at(cls, url: str) -> Toy | None:
            return cls() if url.startswith("https://toy.example/") else None

    monkeypatch.setattr(channels, "CHANNELS", (Toy, *channels.CHANNELS))
    assert channels.targets_of(AlertSettings()) == ()
    settings = AlertSettings(
        alert_slack_url="https://slack.example/x",  # type: ignore[arg-type]  # pydantic makes it a secret
        alert_email_to=("a@example.org",),
        alert_email_from="b@example.org",
        alert_smtp_url="smtp://mail.example",  # type: ignore[arg-type]  # as above
    )
    assert [target.name for target in channels.targets_of(settings)] == ["toy", "slack", "email"]
    of_teams = {"a": "https://hooks.slack.com/x", "b": "https://web.example/x", "c": "https://toy.example/x"}
    settings = AlertSettings(alert_channels={name: SecretStr(url) for name, url in of_teams.items()})
    found = channels.channels_of(settings)
    assert [type(target) for target in found.values()] == [channels.Slack, channels.Webhook, Toy]
    assert [target.name for target in found.values()] == ["channel-a", "channel-b", "channel-c"]
