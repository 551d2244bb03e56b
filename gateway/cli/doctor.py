"""`tidegate doctor`: whether this machine is fit, and if not, what to do."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tidegate.gateway.cli.terminal import out
from tidegate.gateway.embedded.doctor import Finding, examine
from tidegate.gateway.exits import ExitCode

State = Annotated[Path, typer.Option(help="State folder to look at.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")]


def doctor(*, state: State = Path(".tidegate"), as_json: AsJson = False) -> None:
    """Look at this machine: versions, jars, ports, disk, memory, what runs.

    Each line says what is there; a line that is not ok says what to do. Nothing is changed.

    Examples:
      tidegate doctor
      tidegate doctor --json | jq '.findings[] | select(.ok | not)'

    Exit codes: 0 all is well, 1 something needs doing.
    """
    findings = examine(state)
    is_ok = all(finding.is_ok for finding in findings)
    if as_json:
        rows = [asdict(finding) | {"ok": finding.is_ok} for finding in findings]
        typer.echo(json.dumps({"ok": is_ok, "findings": rows}, indent=2))
    else:
        for finding in findings:
            out.print(_line(finding))
    if not is_ok:
        raise typer.Exit(ExitCode.FINDINGS)


def _line(finding: Finding) -> Text:
    mark = Text("ok       ", "green") if finding.is_ok else Text("problem  ", "bold red")
    advice = f"\n{'':26}{finding.advice}" if finding.advice else ""
    return Text.assemble(mark, (f"{finding.name:<16} ", "bold"), finding.found, advice)
