"""`tidegate pause`, `resume` and `quarantine-record`: decide whether and how a stream may go on."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.contracts.stream.control import RecordPosition, StreamControl
from tidegate.gateway.cli.terminal import out
from tidegate.gateway.client.registry import RegistryClient

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="Name of the stream: the id of its contract.")]
RegistryUrl = Annotated[str, typer.Option(envvar="TIDEGATE_REGISTRY_URL", help="Address of the registry.")]
DEFAULT_URL = "http://127.0.0.1:8081"
_MOST_CHARACTERS = 500


def pause(
    stream: Stream,
    *,
    reason: Annotated[str | None, typer.Option(help="Why, for those who find the stream paused.")] = None,
    registry: RegistryUrl = DEFAULT_URL,
) -> None:
    """Pause a stream from its next batch on.

    The batch in hand is finished. Then nothing is judged or written until the stream
    is resumed; the job keeps running, and its other streams with it. A stream that is
    paused already stays as it is.

    Examples:
      tidegate pause hospital.admissions --reason "the ward's clock is wrong"

    Exit codes: 0 it is paused, 2 no such stream, or no right to pause it, 3 no registry answers.
    """
    if reason is not None and not 0 < len(reason) <= _MOST_CHARACTERS:
        raise typer.BadParameter(f"a reason has 1 to {_MOST_CHARACTERS} characters", param_hint="--reason")
    with RegistryClient(registry) as client:
        _show(client.pause(stream, reason))


def resume(
    stream: Stream,
    *,
    accept_batch: Annotated[
        bool, typer.Option("--accept-batch", help="Let the batch through that spent the error budget.")
    ] = False,
    registry: RegistryUrl = DEFAULT_URL,
) -> None:
    """Let a paused stream go on.

    With --accept-batch the error budget does not stop the batch that tripped last, also
    not after a restart of the job: its records go where the contract sends them. Without
    it, that batch is judged again, and trips again unless the contract has changed. A
    stream that ended because of its budget (action: fail) has to be started again.

    Examples:
      tidegate resume hospital.admissions
      tidegate resume hospital.admissions --accept-batch

    Exit codes: 0 it may go on, 1 no batch tripped that could be accepted, 2 no such stream, or no right to resume it,
    3 no registry answers.
    """
    with RegistryClient(registry) as client:
        _show(client.resume(stream, accept_batch=accept_batch))


def quarantine_record(
    stream: Stream,
    partition: Annotated[int, typer.Argument(min=0, max=2**31 - 1, help="Partition of the source topic.")],
    offset: Annotated[int, typer.Argument(min=0, max=2**63 - 1, help="Offset of the record.")],
    *,
    registry: RegistryUrl = DEFAULT_URL,
) -> None:
    """Set one record aside that stops its stream.

    The job quarantines it without judging it, with the reason record.set-aside, and goes on
    behind it. It takes effect with the next batch; a stream that has stopped has to be started
    again. A record that the quarantine topic does not hold for its size is quarantined without
    its bytes: with its position, its sizes and the digest of its value. A record that the
    stream is past already stays where it is. The decision is in the log of changes.

    Examples:
      tidegate quarantine-record hospital.admissions 1 90211

    Exit codes: 0 it is set aside, 2 no such stream, or no right to decide for it, 3 no registry answers.
    """
    with RegistryClient(registry) as client:
        _show(client.quarantine_record(stream, RecordPosition(partition=partition, offset=offset)))


def _show(control: StreamControl) -> None:
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
    out.print(line, markup=False, highlight=False)
