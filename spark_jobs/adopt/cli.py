"""The command `tidegate adopt`. Cheap to import: Spark is loaded when the command runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.contracts.errors import ConflictError, SettingsError
from tidegate.spark_jobs.cli import BootstrapServers, KafkaConfig, SinkOption, Warehouse, read_settings
from tidegate.spark_jobs.settings import AdoptSettings

if TYPE_CHECKING:
    from tidegate.spark_jobs.adopt.adopt import Forgotten, Look, Skip


def adopt(  # noqa: PLR0913 - one parameter for each option
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Contract id of the stream.")],
    *,
    bootstrap_servers: BootstrapServers = None,
    kafka_config: KafkaConfig = None,
    registry: Annotated[
        str | None, typer.Option(help="Address of the registry.", envvar="TIDEGATE_REGISTRY_URL")
    ] = None,
    sink: SinkOption = None,
    write_mode: Annotated[str | None, typer.Option(help="append or upsert, as the stream runs.")] = None,
    merge_mode: Annotated[
        str | None, typer.Option(help="copy-on-write or merge-on-read, as the stream runs.")
    ] = None,
    warehouse: Warehouse = None,
    starting: Annotated[
        str | None, typer.Option(help="earliest or latest, as the stream was started first.")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Name of the ledger, where quarantined records name several.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a ledger that is there: the table was rolled back.")
    ] = False,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Skip records of one partition that are gone.")
    ] = None,
    first: Annotated[
        int | None, typer.Option("--from", min=0, help="First offset that the partition still has.")
    ] = None,
    forget_deleted: Annotated[
        bool,
        typer.Option("--forget-deleted", help="Go on past records of an output topic that were deleted."),
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Accept that offsets are in no output.")
    ] = False,
    holes: Annotated[
        int | None,
        typer.Option(min=0, help="With --yes and --accept-loss: exact number of offsets to accept."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking, for scripts.")] = False,
) -> None:
    """Rebuild the ledger of a stream from what it has written.

    For a stream that stopped because its ledger is gone beside its rows or
    records: a table that was rebuilt by CREATE TABLE AS SELECT, a deleted ledger
    topic, a lost row of tidegate.ledger. Shows the lowest and highest offset of
    each partition in the output and in the quarantine topic, holes that neither
    has, and records that are there twice. After a confirmation it writes the
    ledger, so that the stream goes on without losing or doubling a record.

    Holes are compared with the source as long as it holds them. Records that the
    contract dropped leave no trace, so a hole that holds a record cannot be
    proven: --accept-loss goes on without it.

    A ledger that is there is left alone, unless --replace says that the table was
    rolled back or restored, and its rows are no longer those of the ledger.

    With --partition and --from one partition of a stream that has a ledger goes
    on at its first offset, past records that retention has deleted before they
    were judged.

    With --forget-deleted a stream goes on that has to know what an unpublished
    batch left in an output topic, where retention has deleted it. Such records
    are judged again: they can be quarantined a second time, or be written if the
    contract takes them by now. No record is lost.

    Stop the job first, and give the options and variables that the job has. The
    registry writes down who adopted what; your key needs the role approver.

    Examples:
      tidegate adopt hospital.admissions --warehouse ./warehouse
      tidegate adopt hospital.admissions --accept-loss --holes 12 --yes
      tidegate adopt hospital.admissions --partition 3 --from 1500 --accept-loss
      tidegate adopt hospital.admissions --forget-deleted

    Exit codes: 0 adopted; 1 not confirmed, or what is there speaks against it;
    2 nothing to adopt, or no right to; 3 no registry, broker or store answers;
    4 the outputs do not fit the source, or are still written to.
    """
    given = {
        "bootstrap_servers": bootstrap_servers,
        "kafka_config": kafka_config,
        "registry_url": registry,
        "sink": sink,
        "write_mode": write_mode,
        "merge_mode": merge_mode,
        "warehouse": warehouse,
        "starting": starting,
    }
    if (partition is None) != (first is None):
        raise SettingsError(
            "--partition and --from go together: tidegate adopt STREAM --partition P --from N"
        )
    if forget_deleted and (replace or ledger is not None or partition is not None):
        raise SettingsError("--forget-deleted keeps the ledger and its partitions; give it alone")
    if replace and (ledger is not None or partition is not None):
        raise SettingsError(
            "--replace keeps the name of the ledger that is there, and its partitions are read all"
        )
    asked = _Asked(is_loss_accepted=accept_loss, holes=holes, is_sure=yes)
    settings = read_settings(
        {name: value for name, value in given.items() if value is not None}, AdoptSettings
    )

    from tidegate.spark_jobs.adopt.adopt import adopter  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.adopt.report import adopted_text  # noqa: PLC0415 - the same

    with adopter(settings, stream) as found:
        if forget_deleted:
            written = found.forget_deleted(asked.confirm_forgotten)
        elif partition is not None and first is not None:
            written = found.skip(partition, first, asked.confirm_skip)
        else:
            written = found.rebuild(ledger, asked.confirm_look, replace=replace)
    typer.echo(adopted_text(written))


class _Asked:
    """What the command line allows, and how the rest is asked for."""

    def __init__(self, *, is_loss_accepted: bool, holes: int | None, is_sure: bool) -> None:
        self._is_loss_accepted = is_loss_accepted
        self._holes = holes
        self._is_sure = is_sure

    def confirm_look(self, look: Look) -> None:
        """Show what would be written; raise when it is not wanted."""
        from tidegate.spark_jobs.adopt.report import look_text  # noqa: PLC0415 - loads Spark

        typer.echo(look_text(look))
        holes = look.proposal.holes
        if holes and not self._is_loss_accepted:
            raise ConflictError(
                f"{holes:,} offsets are in no output, and nothing was changed. To go on without them: --accept-loss"
            )
        if self._is_sure and self._is_loss_accepted and (self._holes or 0) != holes:
            raise ConflictError(
                f"{holes:,} offsets are in no output, and nothing was changed: --holes {holes} says that you know"
            )
        self._confirm(f"Write this ledger{f', and give up {holes:,} offsets' if holes else ''}?")

    def confirm_skip(self, skip: Skip) -> None:
        """Show what would be given up; raise when it is not wanted."""
        from tidegate.spark_jobs.adopt.report import skip_text  # noqa: PLC0415 - loads Spark

        typer.echo(skip_text(skip))
        if not self._is_loss_accepted:
            raise ConflictError("nothing was changed; to go on without these records: --accept-loss")
        self._confirm("Go on without them?")

    def confirm_forgotten(self, forgotten: Forgotten) -> None:
        """Show what is not known any more; raise when that is not accepted."""
        from tidegate.spark_jobs.adopt.report import forgotten_text  # noqa: PLC0415 - loads Spark

        typer.echo(forgotten_text(forgotten))
        self._confirm("Go on without knowing them?")

    def _confirm(self, question: str) -> None:
        if self._is_sure:
            return
        if not sys.stdin.isatty():
            raise SettingsError("nothing was changed: there is no terminal to ask on; --yes answers for you")
        if not typer.confirm(question):
            raise ConflictError("nothing was changed")
