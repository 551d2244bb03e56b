"""`tidegate status`: the state of streams, and how it compares with the usual one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from tidegate.contracts.words import seen
from tidegate.gateway.cli.options import DEFAULT_REGISTRY, OutputFormat, RegistryUrl
from tidegate.gateway.cli.terminal import out, say
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.http.models.answers import StreamInfo
from tidegate.gateway.http.models.stream_status import BudgetInfo

_STYLES: Final = {"stopped": "bold red", "stuck": "red", "silent": "red", "paused": "yellow"}
_WIDEST: Final = 1_000
"""Width of the table, so that a stream is one line for `grep`, also on a narrow terminal."""
_NEED_SOMEONE: Final = ("stopped", "stuck", "silent", "paused")

Stream = Annotated[
    str | None,
    typer.Argument(
        metavar="[STREAM]", help="Name of one stream: the id of its contract.", show_default="all"
    ),
]


def status(
    stream: Stream = None, *, registry: RegistryUrl = DEFAULT_REGISTRY, output_format: OutputFormat = "text"
) -> None:
    """Show the state of all streams, or of one.

    The columns are the state, records judged a second in the last minute, the
    refused share of the last half hour and the usual one (of the day before),
    the used part of the error budget, the waiting records, and the contract
    version that judged the last batch. Streams that need someone come first.
    An exclamation mark shows what is not as usual: three times the usual share,
    or a spent budget.

    Examples:
      tidegate status
      tidegate status hospital.admissions
      tidegate status --format json | jq 'select(.status.is_unusual) | .stream'

    Exit codes: 0 all are as usual; 1 a stream is paused, silent or stuck, has
    spent its budget, or refuses more than usual; 2 unknown stream; 3 the
    registry does not answer; 4 a stream has stopped; 7 no permission.
    """
    with RegistryClient(registry) as client:
        found = client.streams() if stream is None else (client.stream(stream),)
    found = tuple(sorted(found, key=_urgency))
    if output_format == "json":
        for each in found:
            typer.echo(each.model_dump_json())
    elif stream is not None:
        for line in _lines(found[0]):
            say(line)
    elif found:
        out.print(_table(found), width=_WIDEST, crop=False)
    else:
        say(f"no stream has reported a batch to {registry} that these credentials may see")
    if any(each.status.state == "stopped" for each in found):
        raise typer.Exit(ExitCode.STOPPED)
    if any(_needs_someone(each) for each in found):
        raise typer.Exit(ExitCode.FINDINGS)


def _needs_someone(stream: StreamInfo) -> bool:
    is_spent = stream.budget is not None and stream.budget.is_spent
    return stream.status.state in _NEED_SOMEONE or stream.status.is_unusual or is_spent


def _urgency(stream: StreamInfo) -> tuple[int, bool, str]:
    state = stream.status.state
    place = _NEED_SOMEONE.index(state) if state in _NEED_SOMEONE else len(_NEED_SOMEONE)
    return place, not _needs_someone(stream), stream.stream


def _table(streams: Iterable[StreamInfo]) -> Table:
    """Return a table with a heading and one row for each stream."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("stream", "state"):
        table.add_column(name, no_wrap=True, overflow="ignore")
    for name in ("records/s", "refused", "usual", "budget", "lag"):
        table.add_column(name, justify="right", no_wrap=True, overflow="ignore")
    table.add_column("version", no_wrap=True, overflow="ignore")
    for each in streams:
        status = each.status
        table.add_row(
            Text(seen(each.stream)),
            Text(status.state, _STYLES.get(status.state, "green")),
            f"{each.records_per_second_last_minute:,.0f}",
            Text(
                _share(status.refused_share) + (" !" if status.is_unusual else ""),
                "red" if status.is_unusual else "",
            ),
            _share(status.usual_refused_share),
            _budget(each.budget),
            "-" if each.lag_records is None else f"{each.lag_records:,}",
            Text(_version(each)),
        )
    return table


def _lines(stream: StreamInfo) -> Iterator[str]:
    status = stream.status
    yield f"{stream.stream} is {status.state}: {status.detail}"
    yield f"  contract    {stream.contract}"
    yield f"  records/s   {stream.records_per_second_last_minute:,.0f} in the last minute"
    unusual = ", more than three times the usual share" if status.is_unusual else ""
    yield f"  refused     {_share(status.refused_share)} (usually {_share(status.usual_refused_share)}){unusual}"
    if stream.budget is not None:
        spent = ", spent" if stream.budget.is_spent else ""
        of_what = "window" if stream.budget.window_records else "batch"
        yield (
            f"  budget      {_budget(stream.budget).removesuffix(' !')} used of {stream.budget.ratio:.2%} "
            f"({stream.budget.refused:,} of {stream.budget.records:,} records of the last {of_what} refused{spent})"
        )
    lag = "unknown" if stream.lag_records is None else f"{stream.lag_records:,} records"
    yield f"  lag         {lag}"
    yield f"  last batch  {stream.epoch}/{stream.n}, {stream.last_committed_at:%Y-%m-%d %H:%M:%S} UTC"
    yield f"  output      {stream.sink}; refused records in {stream.quarantine_topic}"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


def _budget(budget: BudgetInfo | None) -> str:
    if budget is None:
        return "-"
    used = "-" if budget.used is None else f"{budget.used:.0%}"
    return f"{used} !" if budget.is_spent else used


def _version(stream: StreamInfo) -> str:
    return seen(stream.contract.rpartition("@")[2])
