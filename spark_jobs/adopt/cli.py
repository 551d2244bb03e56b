"""The commands `tidegate adopt`, `archive`, `rewind` and `erase`. Importing this module does not load Spark."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from tidegate.contracts.errors import SettingsError
from tidegate.spark_jobs.adopt.confirmations import Confirmations
from tidegate.spark_jobs.options import Given, StreamId, output_options, read_settings
from tidegate.spark_jobs.progress import shown_progress
from tidegate.spark_jobs.settings import AdoptSettings

_LONGEST_VALUE = 1_000
_MAX_NAME_BYTES: Final = 63 - len("_quarantine")
_TABLE_NAME = re.compile(r"[A-Za-z0-9_]{1,128}")

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Ledger = Annotated[str | None, typer.Option(help="Name of the ledger, if quarantined records name several.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace an existing ledger after a rollback of the table.")
]
Partition = Annotated[int | None, typer.Option(min=0, help="Partition with deleted records, to skip them.")]
FirstOffset = Annotated[
    int | None, typer.Option("--from", min=0, help="First available offset of the partition.")
]
ForgetDeleted = Annotated[
    bool, typer.Option("--forget-deleted", help="Continue despite deleted records of an output topic.")
]
AcceptLoss = Annotated[bool, typer.Option("--accept-loss", help="Accept that offsets are in no output.")]
Holes = Annotated[
    int | None,
    typer.Option(min=0, help="Exact number of offsets to accept, with --yes and --accept-loss."),
]
NewName = Annotated[
    str | None, typer.Option("--as", help="New name of the table.", show_default="its name and the time")
]
RepeatRecords = Annotated[
    bool,
    typer.Option("--repeat-records", help="Accept that readers of the accepted topic get its records again."),
]
Point = Annotated[
    str, typer.Option("--to", help="Offsets (0:1200,1:1188), a time with zone, or a snapshot id.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
SubjectField = Annotated[
    str | None,
    typer.Option(metavar="FIELD", help="Column or JSON Pointer of the field that identifies the person."),
]
ByKey = Annotated[bool, typer.Option("--key", help="The Kafka key identifies the person.")]
ValueFile = Annotated[
    typer.FileText | None,
    typer.Option(help="File with the value; - is standard input.", show_default="prompt"),
]

_HELP_OF_ADOPT: Final = """\
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
nothing to adopt; 3 the registry, a broker or a store does not answer; 4 the
outputs do not match the source, or are still written to; 7 no permission.
"""


@output_options("merge_mode", "starting")
def adopt(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    given: Given,
    ledger: Ledger = None,
    replace: Replace = False,
    partition: Partition = None,
    first: FirstOffset = None,
    forget_deleted: ForgetDeleted = False,
    accept_loss: AcceptLoss = False,
    holes: Holes = None,
    yes: Yes = False,
) -> None:
    """Rebuild the ledger of a stream from its outputs."""
    _check_combination(
        ledger, replace=replace, partition=partition, first=first, forget_deleted=forget_deleted
    )
    asked = Confirmations(is_loss_accepted=accept_loss, holes=holes, is_sure=yes)
    settings = read_settings(given, AdoptSettings)

    from tidegate.spark_jobs.adopt.adopt import Adopter  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.adopt.report import adopted_text  # noqa: PLC0415 - the same

    with shown_progress(), Adopter.opened(settings, stream) as found:
        if forget_deleted:
            written = found.forget_deleted(asked.confirm_forgotten)
        elif partition is not None and first is not None:
            written = found.skip(partition, first, asked.confirm_skip)
        else:
            written = found.rebuild(ledger, asked.confirm_look, replace=replace)
    typer.echo(adopted_text(written))


# Typer takes the help of a command from its docstring.
adopt.__doc__ = f"{adopt.__doc__}\n\n{_HELP_OF_ADOPT}"


def _check_combination(
    ledger: str | None, *, replace: bool, partition: int | None, first: int | None, forget_deleted: bool
) -> None:
    """Raise SettingsError for options of `tidegate adopt` that exclude each other."""
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


def _archive_name(stream: str, now: datetime) -> str:
    """Return the default name of an archived table.

    PostgreSQL limits names to 63 bytes, and the name of the archived quarantine table is longer.
    """
    time = f"_{now:%Y%m%dT%H%M%S}"
    return stream.rpartition(".")[2][: _MAX_NAME_BYTES - len(time)] + time


@output_options("starting")
def archive(
    stream: StreamId,
    *,
    given: Given,
    name: NewName = None,
    repeat_records: RepeatRecords = False,
    yes: Yes = False,
) -> None:
    """Rename the table of a stream, and let the stream start again.

    Use it if a stream cannot continue with its table: its topic was deleted and
    created again, the write mode changes from append to upsert, the primary key
    has changed, or a column cannot follow the contract. The renamed table keeps
    its rows. The next start writes to a new table, from the first record that
    the topic still has. Nothing is deleted.

    A topic cannot be renamed. With the Kafka sink the accepted topic stays, and
    each record names the ledger that wrote it. If the source topic is still the
    same, readers get its records again: accept that with --repeat-records, or
    begin at the end of the source with --starting latest.

    Stop the job first, and use the same options and variables as the job. The
    registry records who did it; the key needs the role approver.

    Examples:
      tidegate archive hospital.admissions --warehouse ./warehouse
      tidegate archive hospital.admissions --as admissions_2025 --yes

    Exit codes: 0 archived; 1 not confirmed, or the name exists; 2 an invalid
    setting; 3 the registry, a broker or a store does not answer; 4 another
    instance is still writing; 7 no permission.
    """
    name = name or _archive_name(stream, datetime.now(UTC))
    if not _TABLE_NAME.fullmatch(name):
        raise SettingsError(f"--as {name}: a name has letters, digits and underscores, 128 at most")
    settings = read_settings(given, AdoptSettings)

    from tidegate.spark_jobs.adopt.archive import Archiver  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.adopt.report import archived_text  # noqa: PLC0415 - the same

    with shown_progress(), Archiver.opened(settings, stream) as found:
        written = found.archive(name, Confirmations(is_sure=yes).confirm_archive, repeats=repeat_records)
    typer.echo(archived_text(written, name))


@output_options()
def rewind(
    stream: StreamId,
    *,
    to: Point,
    given: Given,
    dry_run: DryRun = False,
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
    ledger, an invalid setting; 3 the registry, a broker or a store does not
    answer; 4 another instance is still writing, or the topic was created again;
    5 another instance claimed the stream; 7 no permission.
    """
    settings = read_settings(given, AdoptSettings)

    from tidegate.spark_jobs.adopt.report import rewind_text, rewound_text  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.adopt.rewind import Rewinder, RewindTo  # noqa: PLC0415 - the same

    point = RewindTo.parse(to)
    with shown_progress(), Rewinder.opened(settings, stream) as found:
        if dry_run:
            text = rewind_text(found.look(point))
        else:
            text = rewound_text(found.rewind(point, Confirmations(is_sure=yes).confirm_rewind))
    typer.echo(text)


@output_options()
def erase(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    subject: SubjectField = None,
    key: ByKey = False,
    value_file: ValueFile = None,
    given: Given,
    dry_run: DryRun = False,
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
    no ledger or field, an invalid setting; 3 the registry, a broker or a store
    does not answer; 4 another instance is still writing; 5 another instance
    claimed the stream; 7 no permission.
    """
    if key == (subject is not None):
        raise SettingsError("choose what identifies the person: --subject FIELD or --key")
    settings = read_settings(given, AdoptSettings)
    value = _value(value_file)

    from tidegate.spark_jobs.adopt.erase import Eraser, Subject  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.adopt.report import erase_text, erased_text  # noqa: PLC0415 - the same

    person = Subject(value, subject)
    with shown_progress(), Eraser.opened(settings, stream) as found:
        if dry_run:
            text = erase_text(found.look(person))
        else:
            text = erased_text(found.erase(person, Confirmations(is_sure=yes).confirm_erase))
    typer.echo(text)


def _value(file: typer.FileText | None) -> str:
    """Return the value that identifies the person, without the line end. Raises SettingsError if there is none."""
    if file is None and not sys.stdin.isatty():
        raise SettingsError(
            "there is no terminal to ask for the value on: give it with --value-file FILE, or - for stdin"
        )
    text = typer.prompt("Value", hide_input=True) if file is None else file.read(_LONGEST_VALUE + 1)
    value = str(text).rstrip("\r\n")
    if not 0 < len(value) < _LONGEST_VALUE or "\n" in value:
        raise SettingsError(f"the value has 1 to {_LONGEST_VALUE - 1} characters, on one line")
    return value
