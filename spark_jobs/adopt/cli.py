"""The commands `tidegate adopt`, `archive`, `rewind` and `erase`. Cheap to import: Spark is loaded when a command runs."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.contracts.errors import ConflictError, SettingsError
from tidegate.spark_jobs.cli import (
    BootstrapServers,
    KafkaConfig,
    Registry,
    SinkOption,
    StreamId,
    Warehouse,
    default_of,
    read_settings,
)
from tidegate.spark_jobs.settings import AdoptSettings

if TYPE_CHECKING:
    from tidegate.spark_jobs.adopt.adopt import Archive, Forgotten, Look, Skip
    from tidegate.spark_jobs.adopt.erase import EraseLook
    from tidegate.spark_jobs.adopt.rewind import RewindLook


_LONGEST_VALUE = 1_000
_TABLE_NAME = re.compile(r"[A-Za-z0-9_]{1,128}")

WriteMode = Annotated[
    str | None,
    typer.Option(help="append or upsert, the same as in the job.", show_default=default_of("write_mode")),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def adopt(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    bootstrap_servers: BootstrapServers = None,
    kafka_config: KafkaConfig = None,
    registry: Registry = None,
    sink: SinkOption = None,
    write_mode: WriteMode = None,
    merge_mode: Annotated[
        str | None,
        typer.Option(
            help="copy-on-write or merge-on-read, the same as in the job.",
            show_default=default_of("merge_mode"),
        ),
    ] = None,
    warehouse: Warehouse = None,
    starting: Annotated[
        str | None,
        typer.Option(
            help="earliest or latest, as at the first start of the stream.",
            show_default=default_of("starting"),
        ),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Name of the ledger, if quarantined records name several.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing ledger after a rollback of the table.")
    ] = False,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Partition with deleted records, to skip them.")
    ] = None,
    first: Annotated[
        int | None, typer.Option("--from", min=0, help="First available offset of the partition.")
    ] = None,
    forget_deleted: Annotated[
        bool,
        typer.Option("--forget-deleted", help="Continue despite deleted records of an output topic."),
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Accept that offsets are in no output.")
    ] = False,
    holes: Annotated[
        int | None,
        typer.Option(min=0, help="Exact number of offsets to accept, with --yes and --accept-loss."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Rebuild the ledger of a stream from its outputs.

    Use it if a stream stopped because its ledger is missing, but its rows or
    records are there. Examples are a table that was rebuilt by CREATE TABLE AS
    SELECT, a deleted ledger topic, or a lost row of tidegate.ledger.

    Shows the lowest and highest offset of each partition in the output and in
    the quarantine topic, holes that are in neither, and duplicate records. After
    a confirmation it writes the ledger, and the stream continues without losing
    or duplicating a record.

    Holes are compared with the source while it still has their records. Records
    that the contract dropped leave no trace. So a hole that contains a record
    cannot be proven: --accept-loss continues without it.

    An existing ledger is not changed without --replace. Use --replace after the
    table was rolled back or restored, so that its rows no longer match the
    ledger.

    With --partition and --from, one partition of a stream with a ledger
    continues at its first available offset. Retention has deleted the records
    before it, and they were never judged.

    With --forget-deleted, a stream continues although retention has deleted
    records of an unpublished batch from an output topic. The source records are
    judged again: they can be quarantined a second time, or be written if the
    contract accepts them now. No record is lost.

    Stop the job first, and use the same options and variables as the job. The
    registry records who adopted what; the key needs the role approver.

    Examples:
      tidegate adopt hospital.admissions --warehouse ./warehouse
      tidegate adopt hospital.admissions --accept-loss --holes 12 --yes
      tidegate adopt hospital.admissions --partition 3 --from 1500 --accept-loss
      tidegate adopt hospital.admissions --forget-deleted

    Exit codes: 0 adopted; 1 not confirmed, or the outputs do not permit it; 2
    nothing to adopt, or no permission; 3 the registry, a broker or a store does
    not answer; 4 the outputs do not match the source, or are still written to.
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
    settings = read_settings(given, AdoptSettings)

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


def archive(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    bootstrap_servers: BootstrapServers = None,
    kafka_config: KafkaConfig = None,
    registry: Registry = None,
    sink: SinkOption = None,
    write_mode: Annotated[
        str | None,
        typer.Option(help="append or upsert, for the new table.", show_default=default_of("write_mode")),
    ] = None,
    warehouse: Warehouse = None,
    starting: Annotated[
        str | None,
        typer.Option(
            help="earliest or latest: where the stream starts again.", show_default=default_of("starting")
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", help="New name of the table.", show_default="its name and the time"),
    ] = None,
    yes: Yes = False,
) -> None:
    """Rename the table of a stream, and let the stream start again.

    Use it if a stream cannot continue with its table: its topic was deleted and
    created again, the write mode changes from append to upsert, the primary key
    has changed, or a column cannot follow the contract. The renamed table keeps
    its rows. The next start writes to a new table, from the first record that
    the topic still has. Nothing is deleted.

    A topic cannot be renamed. With the Kafka sink, the topic stays as it is;
    this is allowed if the source topic was created again. Each record names the
    ledger that wrote it.

    Stop the job first, and use the same options and variables as the job. The
    registry records who did it; the key needs the role approver.

    Examples:
      tidegate archive hospital.admissions --warehouse ./warehouse
      tidegate archive hospital.admissions --as admissions_2025 --yes

    Exit codes: 0 archived; 1 not confirmed, or the name exists; 2 an invalid
    setting, or no permission; 3 the registry, a broker or a store does not
    answer; 4 another instance is still writing.
    """
    given = {
        "bootstrap_servers": bootstrap_servers,
        "kafka_config": kafka_config,
        "registry_url": registry,
        "sink": sink,
        "write_mode": write_mode,
        "warehouse": warehouse,
        "starting": starting,
    }
    name = name or f"{stream.rpartition('.')[2]}_{datetime.now(UTC):%Y%m%dT%H%M%S}"
    if not _TABLE_NAME.fullmatch(name):
        raise SettingsError(f"--as {name}: a name has letters, digits and underscores, 128 at most")
    settings = read_settings(given, AdoptSettings)

    from tidegate.spark_jobs.adopt.adopt import adopter  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.adopt.report import archived_text  # noqa: PLC0415 - the same

    asked = _Asked(is_loss_accepted=False, holes=None, is_sure=yes)
    with adopter(settings, stream) as found:
        written = found.archive(name, asked.confirm_archive)
    typer.echo(archived_text(written, name))


def rewind(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    to: Annotated[
        str,
        typer.Option("--to", help="Offsets (0:1200,1:1188), a time with zone, or a snapshot id."),
    ],
    bootstrap_servers: BootstrapServers = None,
    kafka_config: KafkaConfig = None,
    registry: Registry = None,
    sink: SinkOption = None,
    write_mode: WriteMode = None,
    warehouse: Warehouse = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Set a stream back to earlier offsets, and judge its records again.

    Use it after a wrong contract version accepted invalid records or refused
    valid ones: publish the corrected version, then rewind to the point at which
    the wrong version was published. Rows of records from that point on are
    deleted, in the same commit that moves the ledger back. Refusals from that
    point on stay in the quarantine topic, but no longer count. The next start
    judges these records again.

    --to takes the first offset to judge again of each partition; the others stay
    as they are. It also takes a time, compared with the timestamps of records,
    or a snapshot of Iceberg or a version of Delta: then the ledger of that
    snapshot gives the offsets.

    The source must still have all records from that point on. Upserted rows, and
    records in a topic, cannot be rewound.

    Stop the job first, and use the same options and variables as the job. The
    registry records who did it; the key needs the role approver.

    Examples:
      tidegate rewind hospital.admissions --to 0:1200,1:1188 --dry-run
      tidegate rewind hospital.admissions --to 2026-07-01T12:00:00Z
      tidegate rewind hospital.admissions --to 6418326490412341376 --yes

    Exit codes: 0 rewound; 1 not confirmed, or not possible to that point; 2 no
    ledger, an invalid setting, or no permission; 3 the registry, a broker or a
    store does not answer; 4 another instance is still writing, or the topic was
    created again.
    """
    given = {
        "bootstrap_servers": bootstrap_servers,
        "kafka_config": kafka_config,
        "registry_url": registry,
        "sink": sink,
        "write_mode": write_mode,
        "warehouse": warehouse,
    }
    settings = read_settings(given, AdoptSettings)

    from tidegate.spark_jobs.adopt.report import rewind_text, rewound_text  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.adopt.rewind import RewindTo, rewinder  # noqa: PLC0415 - the same

    point = RewindTo.parse(to)
    with rewinder(settings, stream) as found:
        if dry_run:
            typer.echo(rewind_text(found.look(point)))
            return
        asked = _Asked(is_loss_accepted=False, holes=None, is_sure=yes)
        typer.echo(rewound_text(found.rewind(point, asked.confirm_rewind)))


def erase(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    subject: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="Column or JSON Pointer of the field that identifies the person."),
    ] = None,
    key: Annotated[bool, typer.Option("--key", help="The Kafka key identifies the person.")] = False,
    value_file: Annotated[
        typer.FileText | None,
        typer.Option(help="File with the value; - is standard input.", show_default="prompt"),
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    kafka_config: KafkaConfig = None,
    registry: Registry = None,
    sink: SinkOption = None,
    write_mode: WriteMode = None,
    warehouse: Warehouse = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Erase the records of one person from a table and its quarantine topic.

    The value of a field (--subject) or of the Kafka key (--key) identifies the
    person. The value is read from a file, from standard input or from a prompt,
    because every user of the machine can see arguments.

    Rows are deleted in one commit with the ledger. The ledger counts them as
    dropped, so tidegate reconcile accounts for them. The quarantine topic is
    rewritten: the remaining records are appended again, and all earlier ones are
    deleted. A refused record that cannot be decoded is erased if it contains the
    value.

    Erase the records in the source topic first: otherwise a rewind restores
    them. To delete upserted rows, or records of an accepted topic, send a
    tombstone to the source.

    Stop the job first, and use the same options and variables as the job. The
    registry records who did it and the number of records, but not the person;
    the key needs the role approver.

    Examples:
      tidegate erase hospital.admissions --subject patient_id --dry-run
      tidegate erase hospital.admissions --key --value-file person.txt --yes

    Exit codes: 0 erased, or nothing found; 1 not confirmed, or not possible; 2
    no ledger or field, an invalid setting, or no permission; 3 the registry, a
    broker or a store does not answer; 4 another instance is still writing.
    """
    if key == (subject is not None):
        raise SettingsError("choose what identifies the person: --subject FIELD or --key")
    given = {
        "bootstrap_servers": bootstrap_servers,
        "kafka_config": kafka_config,
        "registry_url": registry,
        "sink": sink,
        "write_mode": write_mode,
        "warehouse": warehouse,
    }
    settings = read_settings({name: each for name, each in given.items() if each is not None}, AdoptSettings)
    value = _value(value_file)

    from tidegate.spark_jobs.adopt.erase import Subject, eraser  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.adopt.report import erase_text, erased_text  # noqa: PLC0415 - the same

    person = Subject(value, subject)
    with eraser(settings, stream) as found:
        if dry_run:
            typer.echo(erase_text(found.look(person)))
            return
        asked = _Asked(is_loss_accepted=False, holes=None, is_sure=yes)
        typer.echo(erased_text(found.erase(person, asked.confirm_erase)))


def _value(file: typer.FileText | None) -> str:
    """Return the value that names the person, without the end of its line. Raises SettingsError when there is none."""
    if file is None and not sys.stdin.isatty():
        raise SettingsError(
            "there is no terminal to ask for the value on: give it with --value-file FILE, or - for stdin"
        )
    text = typer.prompt("Value", hide_input=True) if file is None else file.read(_LONGEST_VALUE + 1)
    value = str(text).rstrip("\r\n")
    if not 0 < len(value) < _LONGEST_VALUE or "\n" in value:
        raise SettingsError(f"the value has 1 to {_LONGEST_VALUE - 1} characters, on one line")
    return value


class _Asked:
    """The confirmations that the command line allows, and prompts for the others."""

    def __init__(self, *, is_loss_accepted: bool, holes: int | None, is_sure: bool) -> None:
        self._is_loss_accepted = is_loss_accepted
        self._holes = holes
        self._is_sure = is_sure

    def confirm_look(self, look: Look) -> None:
        """Show what would be written; raise if the user declines."""
        from tidegate.spark_jobs.adopt.report import look_text  # noqa: PLC0415 - loads Spark

        typer.echo(look_text(look))
        holes = look.proposal.holes
        if holes and not self._is_loss_accepted:
            raise ConflictError(
                f"{holes:,} offsets are in no output, and nothing was changed. To go on without them: --accept-loss"
            )
        if self._is_sure and self._is_loss_accepted and (self._holes or 0) != holes:
            raise ConflictError(
                f"{holes:,} offsets are in no output, and nothing was changed: --holes {holes} confirms it"
            )
        self._confirm(f"Write this ledger{f', and give up {holes:,} offsets' if holes else ''}?")

    def confirm_skip(self, skip: Skip) -> None:
        """Show what would be given up; raise if the user declines."""
        from tidegate.spark_jobs.adopt.report import skip_text  # noqa: PLC0415 - loads Spark

        typer.echo(skip_text(skip))
        if not self._is_loss_accepted:
            raise ConflictError("nothing was changed; to go on without these records: --accept-loss")
        self._confirm("Go on without them?")

    def confirm_forgotten(self, forgotten: Forgotten) -> None:
        """Show what is no longer known; raise if the user declines."""
        from tidegate.spark_jobs.adopt.report import forgotten_text  # noqa: PLC0415 - loads Spark

        typer.echo(forgotten_text(forgotten))
        self._confirm("Go on without knowing them?")

    def confirm_archive(self, archive: Archive) -> None:
        """Show what would be put away; raise when it is not wanted."""
        from tidegate.spark_jobs.adopt.report import archive_text  # noqa: PLC0415 - loads Spark

        typer.echo(archive_text(archive))
        self._confirm("Begin again with an empty output?")

    def confirm_rewind(self, look: RewindLook) -> None:
        """Show what would be taken back; raise when it is not wanted."""
        from tidegate.spark_jobs.adopt.report import rewind_text  # noqa: PLC0415 - loads Spark

        typer.echo(rewind_text(look))
        self._confirm(f"Delete {look.rewind.rows:,} rows, and judge these records again?")

    def confirm_erase(self, look: EraseLook) -> None:
        """Show what would be erased; raise when it is not wanted, or when there is nothing."""
        from tidegate.spark_jobs.adopt.report import erase_text  # noqa: PLC0415 - loads Spark

        typer.echo(erase_text(look))
        if not look.erasure:
            raise typer.Exit
        self._confirm(
            f"Erase {len(look.erasure.rows):,} rows and {look.erasure.quarantined:,} refused records?"
        )

    def _confirm(self, question: str) -> None:
        if self._is_sure:
            return
        if not sys.stdin.isatty():
            raise SettingsError("nothing was changed: there is no terminal to ask on; --yes answers for you")
        if not typer.confirm(question):
            raise ConflictError("nothing was changed")
