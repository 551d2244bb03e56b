"""The command `tidegate replay`. Cheap to import: Spark is loaded when the command runs."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.fix.load import load_fix
from tidegate.spark_jobs.adopt.cli import Yes
from tidegate.spark_jobs.adopt.confirmations import Confirmations
from tidegate.spark_jobs.options import (
    BootstrapServers,
    KafkaConfig,
    Registry,
    SinkOption,
    StreamId,
    Warehouse,
    WriteMode,
    read_settings,
)
from tidegate.spark_jobs.settings import JobSettings


def replay(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    positions: Annotated[
        Path | None, typer.Option(help="File of positions in the quarantine topic, partition/offset.")
    ] = None,
    problem: Annotated[
        str | None, typer.Option(metavar="ID", help="Replay the records of a problem of the registry.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="F=V", help="Property, such as rule=age-is-known; can be repeated."),
    ] = None,
    fix: Annotated[Path | None, typer.Option(help="File with a fix, applied to each record.")] = None,
    rate: Annotated[int | None, typer.Option(min=1, metavar="N", help="Most records a second.")] = None,
    allowed: Annotated[
        float,
        typer.Option(
            min=0, max=1, metavar="SHARE", help="Share that may fail again before the replay stops."
        ),
    ] = 0.2,
    append_late: Annotated[
        bool, typer.Option("--append-late", help="Append records with a key to an accepted topic.")
    ] = False,
    accept_batches: Annotated[
        bool, typer.Option("--accept-batches", help="Write valid records whose whole batch was refused.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    kafka_config: KafkaConfig = None,
    registry: Registry = None,
    sink: SinkOption = None,
    write_mode: WriteMode = None,
    warehouse: Warehouse = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be written, and change nothing.")
    ] = False,
    run: Annotated[
        bool, typer.Option("--run", help="Process the replay in this command: no job runs the stream.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Judge refused records again, and write those that pass now.

    Use it after a new contract version accepts the records, or with a fix that
    corrects them. The records are chosen as of now: by a file of positions, by
    a problem, or by all properties that --where names. Each record is written
    at most once, whatever fails or is repeated. Nothing is removed from the
    quarantine topic.

    First the command shows how many records would pass, and why the others
    would fail. Then it sends the request to the registry, and the job of the
    stream processes it between its batches. With access control, another person
    has to approve a request with a fix.

    Stop the job before you use --run. The command then claims the stream,
    processes its replays, and ends.

    Tables with upserts are not replayed into. For the Kafka sink, --append-late
    writes records behind newer ones of their key.

    Use the same options and variables as the job. The key needs the role
    approver.

    Examples:
      tidegate replay hospital.admissions --where rule=age-is-known --dry-run
      tidegate replay hospital.admissions --positions refused.txt --fix fix.yaml

    Exit codes: 0 requested, or processed with --run; 1 not confirmed, a mistake
    in the fix, or the request was stopped; 2 no ledger, no such record, or an
    invalid setting; 3 the registry, a broker or a store does not answer; 4 or 5
    another instance is still writing; 7 no permission.
    """
    if sum(each is not None for each in (positions, problem, where)) != 1:
        raise SettingsError("choose the records: --positions FILE, --problem ID or --where FIELD=VALUE")
    given = {
        "bootstrap_servers": bootstrap_servers,
        "kafka_config": kafka_config,
        "registry_url": registry,
        "sink": sink,
        "write_mode": write_mode,
        "warehouse": warehouse,
    }
    loaded = None if fix is None else load_fix(fix)

    from tidegate.spark_jobs.adopt.replay import (  # noqa: PLC0415 - loads Spark
        Choice,
        parse_where,
        preview_text,
        read_positions,
        replay_text,
        replays,
    )
    from tidegate.spark_jobs.enforce import log_to_stderr  # noqa: PLC0415 - the same

    log_to_stderr()
    choice = Choice(
        None if positions is None else read_positions(_text_of(positions)), problem, parse_where(where or ())
    )
    # A folder of its own: a job on this machine keeps what waits for its commit in the other one.
    with (
        TemporaryDirectory(prefix="tidegate-replay-") as scratch,
        replays(read_settings({**given, "checkpoints": scratch}, JobSettings), stream) as planner,
    ):
        chosen = planner.freeze(choice)
        preview = planner.preview(chosen, loaded, accept_batches=accept_batches)
        typer.echo(preview_text(preview, len(chosen)))
        if dry_run:
            return
        Confirmations(is_sure=yes).confirm_replay(preview, len(chosen))
        found = planner.order(
            chosen,
            loaded,
            append_late=append_late,
            accept_batches=accept_batches,
            allowed=allowed,
            rate=rate,
        )
        if run and found.state == "open":
            found = planner.run(found.id)
        typer.echo(replay_text(found))
    if found.state == "stopped":
        raise typer.Exit(1)


def _text_of(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--positions {file}: it cannot be read as text") from error
