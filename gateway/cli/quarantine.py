"""`tidegate problems` and `tidegate quarantine`: the refused records of a stream, by problem or one by one."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Annotated, Any, Final, Literal

import typer

from tidegate.contracts.errors import Unavailable
from tidegate.gateway.cli.options import (
    DEFAULT_REGISTRY,
    Output,
    OutputFormat,
    RegistryUrl,
    StreamId,
    opened_output,
    subcommands,
)
from tidegate.gateway.cli.terminal import SlowStatus, err, say
from tidegate.gateway.client.quarantine import Filter, QuarantineClient
from tidegate.gateway.streams.problem_states import ProblemState

_LOOK_SECONDS: Final = 0.5
_BEGIN_SECONDS: Final = 60.0
"""Time for a registry to start reading: another replica may hold the lease of a partition until it expires."""

app = subcommands()


States = Annotated[
    list[ProblemState] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help="open, acknowledged, muted, resolved or regressed; can be repeated.",
        show_default="all",
    ),
]
Search = Annotated[str, typer.Option("--search", metavar="TEXT", help="Text in the rule, field or sentence.")]
Limit = Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Maximum number of problems.")]
Records = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Maximum number of records.")]
Problem = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Id of a problem (see `tidegate problems`).", show_default="all"),
]
Rule = Annotated[str | None, typer.Option(metavar="CODE", help="Rule, keyword or code.", show_default="all")]
Field = Annotated[
    str | None,
    typer.Option(metavar="POINTER", help="JSON Pointer with * for indices.", show_default="all"),
]
Version = Annotated[str | None, typer.Option(help="Contract version.", show_default="all")]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Arrived from then on, such as 2026-07-01T12:00:00Z.", show_default="all"
    ),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Arrived before then.", show_default="now")]
Again = Annotated[
    str | None,
    typer.Option(metavar="CODE", help="Code by which a replay refused it again.", show_default="all"),
]
Position = Annotated[
    str,
    typer.Argument(metavar="POSITION", help="PARTITION/OFFSET in the quarantine topic, as `list` prints it."),
]
ExportFormat = Annotated[
    Literal["jsonl", "csv", "parquet"],
    typer.Option("--format", metavar="FORMAT", help="jsonl, csv or parquet."),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the topic is read.")]


def problems(
    stream: StreamId,
    *,
    state: States = None,
    search: Search = "",
    limit: Limit = 100,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    output_format: OutputFormat = "text",
) -> None:
    """List the problems of a stream: what is refused, grouped by cause.

    A problem is one rule or keyword at one field, with one shape of value. Each
    line has the number of records, the share of the refused records, when the
    newest one came, the state, the id and a title. An exclamation mark shows a
    problem that has far more records in the last hour than usual.

    Examples:
      tidegate problems hospital.admissions
      tidegate problems hospital.admissions --state open --state regressed
      tidegate problems hospital.admissions --format json | jq .title

    Exit codes: 0 listed; 2 unknown stream; 3 the registry does not answer; 7 no
    permission.
    """
    with QuarantineClient(registry) as client:
        found = client.problems(stream, [each.value for each in state or ()], search, limit)
    if output_format == "json":
        for each in found["problems"]:
            typer.echo(json.dumps(each, ensure_ascii=False))
        return
    for each in found["problems"]:
        say(_problem_line(each))
    left_out = found["total"] - len(found["problems"])
    if left_out > 0:
        err.print(f"and {left_out:,} more; --limit N shows more of them")
    if not found["problems"]:
        say(f"{stream} has no such problems")


@app.callback()
def quarantine() -> None:
    """List, show and export the refused records of a stream.

    Values of classified fields are hidden, as on the desk. The index of the
    records can be built again.
    """


@app.command("list")
def list_records(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    problem: Problem = None,
    rule: Rule = None,
    field: Field = None,
    version: Version = None,
    since: Since = None,
    until: Until = None,
    again: Again = None,
    limit: Records = 50,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    output_format: OutputFormat = "text",
) -> None:
    """List refused records, newest first.

    Each line has the position in the quarantine topic, the position in the
    source topic, the time of arrival, and why the record was refused.

    Examples:
      tidegate quarantine list hospital.admissions --limit 10
      tidegate quarantine list hospital.admissions --rule age-is-known
      tidegate quarantine list hospital.admissions --since 2026-07-01T12:00:00Z

    Exit codes: 0 listed; 2 unknown stream, an invalid filter, or the registry
    knows no broker; 3 the registry or its broker does not answer; 7 no
    permission.
    """
    wanted = Filter(problem, rule, field, version, since, until, again)
    shown = total = 0
    with QuarantineClient(registry) as client:
        for page in client.pages(stream, wanted, limit):
            for each in page["records"]:
                _print_record(each, output_format)
            shown += len(page["records"])
            total = page["total"]
    if total > shown:
        err.print(f"{shown:,} of {total:,} records; --limit N shows more of them")


@app.command()
def show(
    stream: StreamId,
    position: Position,
    *,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    output_format: OutputFormat = "text",
) -> None:
    """Show one refused record: why, the value, the key, headers, neighbours.

    Examples:
      tidegate quarantine show hospital.admissions 0/4711
      tidegate quarantine show hospital.admissions 0/4711 --format json

    Exit codes: 0 shown; 2 unknown stream or record, or the registry knows no
    broker; 3 the registry or its broker does not answer; 7 no permission.
    """
    partition, separator, offset = position.partition("/")
    if not (separator and partition.isdecimal() and offset.isdecimal()):
        raise typer.BadParameter(f"{position} is no position; write PARTITION/OFFSET, such as 0/4711")
    with QuarantineClient(registry) as client:
        found = client.record(stream, int(partition), int(offset))
    if output_format == "json":
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    for line in _record_lines(found):
        say(line)


@app.command()
def export(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    problem: Problem = None,
    rule: Rule = None,
    field: Field = None,
    version: Version = None,
    since: Since = None,
    until: Until = None,
    again: Again = None,
    limit: Records = 100_000,
    output: Output = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    export_format: ExportFormat = "jsonl",
) -> None:
    """Write refused records to a file: JSON Lines, CSV or Parquet.

    The filters are those of `list`; the order is by partition and offset. Hidden
    values stay hidden, and the audit log records the export. An export that
    breaks off ends with code 3, and leaves what it has written. One that ends
    at --limit says how many records match.

    Examples:
      tidegate quarantine export hospital.admissions -o refused.jsonl
      tidegate quarantine export hospital.admissions --format csv -o refused.csv
      tidegate quarantine export hospital.admissions --rule age-is-known | jq .key

    Exit codes: 0 written; 2 unknown stream, an invalid filter, a file that cannot
    be written, or the registry knows no broker; 3 the registry or its broker does
    not answer; 7 no permission.
    """
    if export_format == "parquet" and output is None and sys.stdout.isatty():
        raise typer.BadParameter("a Parquet file cannot be shown on a terminal: give a file with --output")
    wanted = Filter(problem, rule, field, version, since, until, again)
    with QuarantineClient(registry) as client:
        parts = client.export(stream, wanted, export_format, limit)
        first = next(parts, b"")  # a failed request must not create a file
        total = next(client.pages(stream, wanted, 1))["total"]
        written = 0
        with opened_output(output) as target, SlowStatus() as status:
            for part in chain([first], parts):
                target.write(part)
                written += len(part)
                status.show(f"{written / 1_000_000:,.1f} MB downloaded")
    if output is not None:
        err.print(f"written to {output}")
    if total > limit:
        err.print(f"only the first {limit:,} of {total:,} records were written: use --limit, or filters")


@app.command()
def rebuild(
    stream: StreamId,
    *,
    wait: Wait = True,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    output_format: OutputFormat = "text",
) -> None:
    """Build the index of a stream's quarantine topic again.

    Use it if lists and counts contradict the topic. The registry forgets the
    index and reads the topic again. States, assignees and comments of problems
    stay. Until the end, lists and counts are incomplete.

    Waits for the end, and shows how far it is. After Ctrl-C the registry goes on.

    Examples:
      tidegate quarantine rebuild hospital.admissions
      tidegate quarantine rebuild hospital.admissions --no-wait

    Exit codes: 0 built, or begun with --no-wait; 2 unknown stream; 3 the
    registry or its broker does not answer; 7 no permission (the role admin).
    """
    with QuarantineClient(registry) as client:
        found = client.rebuild(stream)
        if wait:
            found = _await_index(client, stream)
    if output_format == "json":
        typer.echo(json.dumps(found, ensure_ascii=False))
    elif wait:
        say(f"{found['topic']}: {found['records']:,} records in {found['problems']:,} problems")
    else:
        say(f"{found['topic']}: the registry reads it again")


def _await_index(client: QuarantineClient, stream: str) -> dict[str, Any]:
    """Wait until the index is complete; return its status. Raises Unavailable if no registry starts to read the topic."""
    deadline = time.monotonic() + _BEGIN_SECONDS
    with SlowStatus() as status:
        while True:
            found = client.index_status(stream)
            if found["is_complete"]:
                return found
            status.show(f"{found['records']:,} records indexed, {found['lag']:,} offsets left")
            if not found["partitions"] and time.monotonic() > deadline:
                raise Unavailable(
                    f"{found['topic']}: nothing of it was indexed within {_BEGIN_SECONDS:.0f} s. The topic does not exist, "
                    "or no registry reads it: look at its log for quarantine_index_failed"
                )
            time.sleep(_LOOK_SECONDS)


def _print_record(record: dict[str, Any], output_format: str) -> None:
    if output_format == "json":
        typer.echo(json.dumps(record, ensure_ascii=False))
    else:
        say(_record_line(record))


def _problem_line(problem: dict[str, Any]) -> str:
    mark = "!" if problem["is_surging"] else " "
    last = _instant(problem["last_seen"])
    return (
        f"{problem['records']:>9,}  {problem['share']:>6.1%} {mark}  {last}  {problem['state']:<12}  {problem['id']}  "
        f"{problem['title']}"
    )


def _record_line(record: dict[str, Any]) -> str:
    reasons = "; ".join(f"{each['code']} {each['pointer']}".strip() for each in record["violations"])
    return f"{record['position']:<12}  {record['source']}  {_instant(record['at'])}  {reasons}"


def _record_lines(found: dict[str, Any]) -> Iterator[str]:
    record = found["record"]
    yield f"record {record['position']} of the quarantine topic, from {record['source']}"
    yield f"  arrived   {_instant(record['at'])} UTC, judged by {record['contract']}"
    for each in record["violations"]:
        yield f"  {each['severity']:<8}  {each['code']} {each['pointer'] or '(whole record)'}: {each['sentence']}"
        if each.get("passes"):
            yield f"            passes with {each['passes']}"
    yield f"  key       {_shown(record['key'])}"
    yield f"  value     {_shown(record['value_text'])}"
    for name, value in record["headers"]:
        yield f"  header    {name}: {_shown(value)}"
    if record["hidden"]:
        yield f"  hidden    {', '.join(record['hidden'])}"
    yield f"  newer     {found['newer'] or '-'}"
    yield f"  older     {found['older'] or '-'}"


def _shown(value: str | None) -> str:
    return "-" if value is None else value


def _instant(text: str | None) -> str:
    return "-" if text is None else f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S}"
