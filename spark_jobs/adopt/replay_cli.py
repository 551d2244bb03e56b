"""The commands `tidegate replay` and `tidegate discard`. Cheap to import: Spark is loaded when the command runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote
from uuid import UUID

import typer

from tidegate.contracts.errors import ConflictError, SettingsError, Unavailable
from tidegate.contracts.fix.load import load_fix
from tidegate.spark_jobs.adopt.cli import Yes
from tidegate.spark_jobs.adopt.confirmations import Confirmations
from tidegate.spark_jobs.options import Given, StreamId, output_options, read_settings
from tidegate.spark_jobs.settings import JobSettings

if TYPE_CHECKING:
    from tidegate.contracts.fix.model import Fix
    from tidegate.contracts.stream.replay import ReplayTerms, StreamReplay
    from tidegate.spark_jobs.adopt.replay import ReplayChoice, ReplayPlanner


PositionsFile = Annotated[
    Path | None,
    typer.Option("--positions", help="File of positions in the quarantine topic, partition/offset."),
]
ProblemId = Annotated[
    str | None, typer.Option("--problem", metavar="ID", help="The records of a problem of the registry.")
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="F=V", help="Property, such as rule=age-is-known; can be repeated."),
]
RequestId = Annotated[
    UUID | None,
    typer.Option("--request", metavar="ID", help="A request that is kept: with --run, process it now."),
]
FixFile = Annotated[Path | None, typer.Option("--fix", help="File with a fix, applied to each record.")]


def _checked_rate(rate: int | None) -> int | None:
    # As a `max` of the option, the limit would take the width of the help that names of variables need.
    if rate is not None and rate > _MOST_RATE:
        raise typer.BadParameter(f"'{rate}' is not a whole number from 1 to {_MOST_RATE:,}")
    return rate


_MOST_RATE: Final = 10**9
Rate = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", callback=_checked_rate, help="Most records a second."),
]
_ALLOWED: Final = 0.2
Allowed = Annotated[
    float,
    typer.Option(min=0, max=1, metavar="SHARE", help="Share that may fail again before the replay stops."),
]
AppendLate = Annotated[
    bool, typer.Option("--append-late", help="Append records with a key to an accepted topic.")
]
AcceptBatches = Annotated[
    bool, typer.Option("--accept-batches", help="Write valid records whose whole batch was refused.")
]
ToSource = Annotated[
    bool, typer.Option("--to-source", help="Send the records to the source topic again, and write no row.")
]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why their loss is accepted; people read it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and change nothing.")]
Run = Annotated[
    bool, typer.Option("--run", help="Process the replay in this command: no job runs the stream.")
]

_HELP_OF_REPLAY: Final = """\
Use it after a new contract version accepts the records, or with a fix that
corrects them. The records are chosen as of now: by a file of positions, by
a problem, or by all properties that --where names. Each record is written
at most once, whatever fails or is repeated. Nothing is removed from the
quarantine topic.

First the command shows how many records would pass. Then the registry keeps
the request, and the job processes it between its batches. With access
control, another person has to approve a request with a fix. With --run the
command claims the stream and processes it: stop the job first. A request
that waited for its approval, also a discard, is processed with --request.

In a table with upserts, a replayed record never replaces a newer row, nor
restores a key that was deleted since. For the Kafka sink, --append-late
writes records behind newer ones of their key. With --to-source, the records
that pass are sent to the source topic, where they are new records.

Use the options and variables of the job. The key needs the role approver.

Examples:
  tidegate replay hospital.admissions --where rule=age-is-known --dry-run
  tidegate replay hospital.admissions --positions refused.txt --fix fix.yaml
  tidegate replay hospital.admissions --request 0c8f2f0e-... --run

Exit codes: 0 requested, or processed with --run; 1 not confirmed or not
approved, a mistake in the fix, or the request was stopped or cancelled; 2 no
ledger, no such record or request, or an invalid setting; 3 the registry, a
broker or a store does not answer, or the request is still open after --run;
4 or 5 another instance is still writing; 7 no permission.
"""


@output_options()
def replay(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    positions: PositionsFile = None,
    problem: ProblemId = None,
    where: Where = None,
    request: RequestId = None,
    fix: FixFile = None,
    rate: Rate = None,
    allowed: Allowed = _ALLOWED,
    append_late: AppendLate = False,
    accept_batches: AcceptBatches = False,
    to_source: ToSource = False,
    given: Given,
    dry_run: DryRun = False,
    run: Run = False,
    yes: Yes = False,
) -> None:
    """Judge refused records again, and write those that pass now."""
    from tidegate.contracts.stream.replay import ReplayAction, ReplayTerms  # noqa: PLC0415 - loads numpy

    terms = ReplayTerms(
        ReplayAction.TO_SOURCE if to_source else ReplayAction.REPLAY, append_late, accept_batches
    )
    selection, mode = _Selection(positions, problem, where, request), _Mode(dry_run, run, yes)
    if request is not None and (fix or rate or dry_run or allowed != _ALLOWED or terms != ReplayTerms()):
        raise typer.BadParameter(
            "a request has its records, fix and terms: give only --run with it", param_hint="--request"
        )
    loaded = None if fix is None else load_fix(fix)
    with _planner(stream, given) as (planner, registry):
        found = (
            _replayed(planner, selection, loaded, terms, mode, allowed=allowed, rate=rate)
            if request is None
            else _kept(planner, request, registry, runs=run)
        )
    if found is not None:
        _report(found, registry, has_run=run)


# Typer takes the help of a command from its docstring.
replay.__doc__ = f"{replay.__doc__}\n\n{_HELP_OF_REPLAY}"


@dataclass(frozen=True, slots=True)
class _Selection:
    """The records that the options select. Raises SettingsError unless exactly one kind of selection is given."""

    positions: Path | None
    problem: str | None
    where: list[str] | None
    request: UUID | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.positions, self.problem, self.where, self.request)) != 1:
            raise SettingsError(
                "choose the records: --positions FILE, --problem ID or --where FIELD=VALUE, or a request that is kept: "
                "--request ID (tidegate replay)"
            )

    def choice(self) -> ReplayChoice:
        """Parse the file of positions and the properties. Raises SettingsError."""
        from tidegate.spark_jobs.adopt.replay import (  # noqa: PLC0415 - loads Spark
            ReplayChoice,
            parse_where,
            read_positions,
        )

        positions = None if self.positions is None else read_positions(_text_of(self.positions))
        return ReplayChoice(positions, self.problem, parse_where(self.where or ()))


@dataclass(frozen=True, slots=True)
class _Mode:
    """Flags of the command: only preview, process the request itself, and skip the confirmation."""

    is_dry: bool
    runs: bool
    is_sure: bool


@contextmanager
def _planner(stream: str, given: Given) -> Iterator[tuple[ReplayPlanner, str]]:
    """Open the planner of a stream; yield it with the address of the registry.

    It uses a temporary scratch folder, because a job on this machine may be using the configured one.
    """
    from tidegate.spark_jobs.adopt.replay import replays  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.enforce import log_to_stderr  # noqa: PLC0415 - the same

    log_to_stderr()
    with TemporaryDirectory(prefix="tidegate-replay-") as scratch:
        settings = read_settings({**given, "checkpoints": scratch}, JobSettings)
        with replays(settings, stream) as planner:
            yield planner, settings.registry_url


def _replayed(
    planner: ReplayPlanner,
    selection: _Selection,
    fix: Fix | None,
    terms: ReplayTerms,
    mode: _Mode,
    **limits: Any,
) -> StreamReplay | None:
    """Show the preview of a replay, request it, and process it with --run; return it, or None after a dry run."""
    from tidegate.spark_jobs.adopt.replay_preview import preview_text  # noqa: PLC0415 - loads Spark

    chosen = planner.freeze(selection.choice())
    preview = planner.preview(chosen, fix, terms)
    typer.echo(preview_text(preview, len(chosen), terms.action))
    if mode.is_dry:
        return None
    Confirmations(is_sure=mode.is_sure).confirm_replay(preview, len(chosen))
    found = planner.order(chosen, fix, **asdict(terms), **limits)
    return planner.run(found.id) if mode.runs and found.state == "open" else found


def _kept(planner: ReplayPlanner, request: UUID, registry: str, *, runs: bool) -> StreamReplay:
    """Return a request that the registry keeps, after processing it if it is open and `runs` is set.

    Raises NotFoundError for an unknown request or a stream without a ledger. Raises ConflictError for a request that
    waits for its approval, or is for another ledger.
    """
    found = planner.find(request)
    if runs and found.state == "proposed":
        raise ConflictError(
            f"the request {request} of {found.stream} waits for the approval of another person, and was not processed. "
            f"{approval_text(found, registry)}"
        )
    if not runs or found.state != "open":
        return found
    planner.require_own(found)
    return planner.run(request)


def _report(found: StreamReplay, registry: str, *, has_run: bool) -> None:
    """Print the state of a replay.

    Exits with 1 if it was stopped or cancelled. Raises Unavailable if it is still open after --run.
    """
    from tidegate.spark_jobs.adopt.replay import replay_text  # noqa: PLC0415 - loads Spark

    typer.echo(replay_text(found))
    if found.state == "proposed":
        typer.echo(approval_text(found, registry))
    if found.state == "proposed" and has_run:
        typer.echo(f"Then process it: tidegate replay {found.stream} --request {found.id} --run")
    if found.state in {"stopped", "cancelled"}:
        raise typer.Exit(1)
    if has_run and found.state == "open":
        raise Unavailable(
            f"the request {found.id} is still open: the registry did not take a report, or something else did not answer. The "
            "job of the stream ends it when it runs again. To end it without a job, cancel it (DELETE "
            f"/api/v1/streams/{found.stream}/replays/{found.id}) and run this command again; no record is written twice"
        )


def approval_text(found: StreamReplay, registry: str) -> str:
    """Return where another person can approve a replay: on the page of its first problem, if any, or by HTTP."""
    base, stream = registry.rstrip("/"), quote(found.stream, safe="")
    ways = [f"{base}/desk/streams/{stream}/problems/{each}#replays" for each in found.problems[:1]]
    ways.append(f"POST {base}/api/v1/streams/{stream}/replays/{found.id}/approval")
    return "Another person with the role approver approves it:\n  " + "\n  ".join(ways)


@output_options()
def discard(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    reason: Reason,
    positions: PositionsFile = None,
    problem: ProblemId = None,
    where: Where = None,
    given: Given,
    dry_run: DryRun = False,
    run: Run = False,
    yes: Yes = False,
) -> None:
    """Close refused records: accept that they are not written.

    The records are chosen as of now, as by tidegate replay. They stay in the
    quarantine topic, are counted as refused, and can no longer be replayed.
    A problem without other refused records is resolved.

    The registry keeps the request with its reason, and the job of the stream
    processes it. If the contract says replay_approval: always, another person
    has to approve it. With --run the command claims the stream and processes
    it: stop the job first.

    Use the options and variables of the job. The key needs the role approver.

    Examples:
      tidegate discard hospital.admissions --where again=type --reason "tests"
      tidegate discard hospital.admissions --where rule=type --reason "lost"

    Exit codes: 0 requested, or processed with --run; 1 not confirmed, or the
    request was stopped; 2 no ledger, no such record, or an invalid setting; 3
    the registry, a broker or a store does not answer, or the request is still
    open after --run; 4 or 5 another instance is still writing; 7 no permission.
    """
    from tidegate.contracts.stream.replay import ReplayAction, ReplayTerms  # noqa: PLC0415 - loads numpy

    _require_reason(reason)
    selection = _Selection(positions, problem, where)
    from tidegate.spark_jobs.adopt.replay_preview import preview_text  # noqa: PLC0415 - loads Spark

    with _planner(stream, given) as (planner, registry):
        chosen = planner.freeze(selection.choice())
        preview = planner.preview(chosen, None, ReplayTerms(ReplayAction.DISCARD))
        typer.echo(preview_text(preview, len(chosen), ReplayAction.DISCARD))
        if dry_run:
            return
        Confirmations(is_sure=yes).confirm_discard(preview.passing)
        found = planner.order(chosen, None, action="discard", reason=reason)
        if run and found.state == "open":
            found = planner.run(found.id)
    _report(found, registry, has_run=run)


def _require_reason(reason: str) -> None:
    """Require a reason that a request can hold. Raises BadParameter."""
    from tidegate.contracts.stream.replay import LONGEST_REASON  # noqa: PLC0415 - loads numpy

    if not reason.strip():
        raise typer.BadParameter("the reason is blank: say why their loss is accepted", param_hint="--reason")
    if len(reason) > LONGEST_REASON:
        raise typer.BadParameter(
            f"a reason has 1 to {LONGEST_REASON} characters, and this one has {len(reason):,}",
            param_hint="--reason",
        )


def _text_of(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--positions {file}: it cannot be read as text") from error
