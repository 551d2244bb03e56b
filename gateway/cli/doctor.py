"""`tidegate doctor`: check this machine, and show how to correct each problem."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tidegate.contracts.stream.kafka_connection import KafkaSettings
from tidegate.gateway.cli.options import KafkaConfig, OutputFormat
from tidegate.gateway.cli.terminal import out
from tidegate.gateway.embedded.doctor import CheckResult, examine, examine_topics
from tidegate.gateway.exits import ExitCode

State = Annotated[Path, typer.Option(help="State folder to check.")]
Servers = Annotated[
    str | None,
    typer.Option(
        envvar="TIDEGATE_BOOTSTRAP_SERVERS",
        help="Also check output topics of these Kafka brokers (host:port,...).",
    ),
]


def doctor(
    *,
    state: State = Path(".tidegate"),
    bootstrap_servers: Servers = None,
    kafka_config: KafkaConfig = None,
    output_format: OutputFormat = "text",
) -> None:
    """Check this machine: versions, jars, ports, disk, memory, processes.

    With --bootstrap-servers, also checks the output topics of the job: deleting
    records before a restart can find them is a problem. So is a topic of ledgers
    that is not compacted or has too few partitions. Each line shows a finding; a
    line that is not ok shows what to do. Changes nothing.

    Examples:
      tidegate doctor
      tidegate doctor --bootstrap-servers kafka:9092
      tidegate doctor --format json | jq '.findings[] | select(.ok | not)'

    Exit codes: 0 no problems; 1 problems; 3 no broker answers.
    """
    findings = examine(state)
    if bootstrap_servers is not None:
        findings += examine_topics(KafkaSettings(kafka_config=kafka_config).connection_to(bootstrap_servers))
    is_ok = all(finding.is_ok for finding in findings)
    if output_format == "json":
        rows = [asdict(finding) | {"ok": finding.is_ok} for finding in findings]
        typer.echo(json.dumps({"ok": is_ok, "findings": rows}, indent=2))
    else:
        for finding in findings:
            out.print(_line(finding))
    if not is_ok:
        raise typer.Exit(ExitCode.FINDINGS)


def _line(finding: CheckResult) -> Text:
    mark = Text("ok       ", "green") if finding.is_ok else Text("problem  ", "bold red")
    advice = f"\n{'':26}{finding.advice}" if finding.advice else ""
    return Text.assemble(mark, (f"{finding.name:<16} ", "bold"), finding.found, advice)
