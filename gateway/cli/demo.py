"""`tidegate demo`: enforce contracts on two streams on this machine, and check all counts."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.cli.demo_screen import DemoScreen
from tidegate.gateway.cli.demo_summary import summary
from tidegate.gateway.cli.jars import JarsProgress
from tidegate.gateway.cli.terminal import out
from tidegate.gateway.embedded.demo.run import Finished, run_demo
from tidegate.gateway.embedded.runtime import Runtime, RuntimeOptions
from tidegate.gateway.embedded.signals import ending_signals
from tidegate.gateway.embedded.up import watch
from tidegate.gateway.exits import ExitCode

# A run takes about a minute, too short for the second compiler: without it, a third less CPU work.
_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

Exit = Annotated[bool, typer.Option("--exit", help="Exit after the counts instead of serving the desk.")]
Report = Annotated[
    Path | None, typer.Option(dir_okay=False, help="JSON file for the figures.", metavar="FILE")
]
State = Annotated[Path, typer.Option(help="Folder of the demo, emptied at each start.")]
Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, show_default="8081, or a free one", help="Port of registry and desk."),
]
Records = Annotated[
    int | None,
    typer.Option(min=1_000, show_default="all", help="Maximum number of records of each stream."),
]


def demo(
    *,
    exit_: Exit = False,
    report: Report = None,
    state: State = Path(".tidegate/demo"),
    port: Port = None,
    records: Records = None,
) -> None:
    """Run a demo that enforces contracts on two streams and checks all counts.

    Starts a Kafka broker, the registry and the streaming job on loopback. Sends
    336,776 flights (real data) and 200,000 hospital admissions (generated, with
    6,000 known corruptions). At the end, counts the records in topics,
    quarantine topics and tables. Then serves the desk until Ctrl-C.

    Examples:
      tidegate demo
      tidegate demo --exit --report figures.json
      tidegate demo --records 20000

    Exit codes: 0 all counts are correct; 1 a count is wrong; 2 something is
    missing on this machine (Java, a port, disk space); 3 or 4 a part failed;
    130 interrupted.
    """
    if report is not None and not os.access(report.absolute().parent, os.W_OK):
        raise SettingsError(f"--report {report}: {report.absolute().parent} is not a writable folder")
    finished: Finished | None = None
    with ending_signals():
        try:
            with JarsProgress() as progress, DemoScreen(out) as screen:
                options = RuntimeOptions(state, fresh=True, port=port, java_options=_JAVA_OPTIONS)
                with Runtime(options, screen.say, progress) as runtime:
                    try:
                        finished = run_demo(runtime, screen, records)
                        screen.close()
                        _show(finished, report)
                        if not exit_:
                            out.print(_replay_hint(finished), soft_wrap=True)
                            out.print("Ctrl-C stops everything", style="bold green")
                            watch(runtime)
                    except KeyboardInterrupt:
                        # The terminal may have been closed.
                        with suppress(OSError):
                            screen.close()
                            out.print(
                                "stopping job, registry and broker; the first time, this takes up to half a minute"
                            )
                        raise
        except KeyboardInterrupt:
            if finished is None:
                raise typer.Exit(ExitCode.INTERRUPTED) from None
    raise typer.Exit(ExitCode.FINDINGS if finished is None or finished.problems else ExitCode.OK)


def _replay_hint(finished: Finished) -> Text:
    """Return the command that corrects refused records, in full, so that it can be copied."""
    return Text.assemble(
        ("to correct the ages that are texts, in another terminal:\n", "bold"),
        finished.replay,
        ("\nwithout --dry-run the job writes them", "dim"),
    )


def _show(finished: Finished, report: Path | None) -> None:
    """Print the figures, and write them to `report`."""
    out.print(summary(finished, out.width if out.is_terminal else None))
    if report is not None:
        report.write_text(finished.report.model_dump_json(indent=2) + "\n")
