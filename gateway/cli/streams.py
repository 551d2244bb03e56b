"""`tidegate pause`, `resume` and `quarantine-record`: control whether and how a stream continues."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.contracts.stream.control import RecordPosition, StreamControl
from tidegate.gateway.cli.options import DEFAULT_REGISTRY, OutputFormat, RegistryUrl, StreamId
from tidegate.gateway.cli.terminal import say
from tidegate.gateway.client.registry import RegistryClient

_MOST_CHARACTERS = 500


def pause(
    stream: StreamId,
    *,
    reason: Annotated[str | None, typer.Option(help="Reason, shown with the paused stream.")] = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    output_format: OutputFormat = "text",
) -> None:
    """Pause a stream from its next batch on.

    The current batch is finished. Then the stream judges and writes nothing
    until it is resumed; the job and its other streams continue. Pausing a
    paused stream has no effect.

    Examples:
      tidegate pause hospital.admissions --reason "the ward's clock is wrong"

    Exit codes: 0 paused; 2 unknown stream; 3 the registry does not answer; 7 no
    permission.
    """
    if reason is not None and not 0 < len(reason) <= _MOST_CHARACTERS:
        raise typer.BadParameter(f"a reason has 1 to {_MOST_CHARACTERS} characters", param_hint="--reason")
    with RegistryClient(registry) as client:
        _show(client.pause(stream, reason), output_format)


def resume(
    stream: StreamId,
    *,
    accept_batch: Annotated[
        bool, typer.Option("--accept-batch", help="Process the batch that spent the error budget.")
    ] = False,
    decisions: Annotated[
        int | None,
        typer.Option(min=0, max=10**9, help="Decisions that the stopped job names, after a restore."),
    ] = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    output_format: OutputFormat = "text",
) -> None:
    """Resume a paused stream.

    With --accept-batch, the batch that last spent the error budget is processed
    without the budget, also after a restart of the job. Without it, that batch
    is judged again, and spends the budget again unless the contract has changed.
    Start a stream again if it ended because of its budget (action: fail).

    A job stops if a restored registry knows fewer decisions about its stream
    than it did. Repeat those that were lost, then resume with --decisions and
    the number that the job names.

    Examples:
      tidegate resume hospital.admissions
      tidegate resume hospital.admissions --accept-batch

    Exit codes: 0 resumed; 1 no batch spent the budget, so there is none to
    accept; 2 unknown stream; 3 the registry does not answer; 7 no permission.
    """
    with RegistryClient(registry) as client:
        _show(client.resume(stream, accept_batch=accept_batch, decisions=decisions), output_format)


def quarantine_record(
    stream: StreamId,
    partition: Annotated[int, typer.Argument(min=0, max=2**31 - 1, help="Partition of the source topic.")],
    offset: Annotated[int, typer.Argument(min=0, max=2**63 - 1, help="Offset of the record.")],
    *,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    output_format: OutputFormat = "text",
) -> None:
    """Quarantine one record that stops its stream, without judging it.

    The job quarantines the record with the reason record.set-aside, and
    continues after it. This takes effect with the next batch; a stopped stream
    must be started again. If the record is too large for the quarantine topic,
    its position, its sizes and the digest of its value are quarantined instead.
    There is no effect on a record that the stream has already processed. The
    audit log records the decision.

    Examples:
      tidegate quarantine-record hospital.admissions 1 90211

    Exit codes: 0 recorded; 2 unknown stream; 3 the registry does not answer; 7
    no permission.
    """
    with RegistryClient(registry) as client:
        record = RecordPosition(partition=partition, offset=offset)
        _show(client.quarantine_record(stream, record), output_format)


def _show(control: StreamControl, output_format: OutputFormat) -> None:
    if output_format == "json":
        typer.echo(control.model_dump_json())
        return
    line = f"{control.stream} is {control.state}"
    if control.is_paused:
        line += f": {control.reason} ({control.by}, {control.at:%Y-%m-%d %H:%M:%S} UTC)"
    elif control.accepted is not None:
        ranges = ", ".join(
            f"partition {partition}: {control.accepted.start.get(partition, 0)} to {end - 1}"
            for partition, end in sorted(control.accepted.end.items())
            if end > control.accepted.start.get(partition, 0)
        )
        line += f"; accepted last: {ranges}"
    if control.set_aside:
        last = control.set_aside[-1]
        line += f"; set aside last: partition {last.partition}, offset {last.offset}"
    say(line)
