"""The commands `tidegate enforce`, `reconcile` and `maintain`. Importing this module does not load Spark."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Final

import typer

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer
from tidegate.spark_jobs.history.request import HistoryRequest
from tidegate.spark_jobs.options import (
    BootstrapServers,
    KafkaConfig,
    MergeMode,
    OutputFormat,
    QuarantineTable,
    Registry,
    SinkOption,
    Starting,
    StreamId,
    Warehouse,
    WriteMode,
    default_of,
    read_settings,
)
from tidegate.spark_jobs.progress import shown_progress
from tidegate.spark_jobs.settings import ContractSelection, JobSettings, MaintainSettings, ReconcileSettings

_EXIT_CODES = {ReconciliationAnswer.HOLDS: 0, ReconciliationAnswer.LOST: 1, ReconciliationAnswer.UNPROVEN: 6}
"""Exit codes of the answers, as in the gateway's table of exit codes."""

Contracts = Annotated[
    list[str] | None, typer.Argument(metavar="[CONTRACT_ID]...", help="Contracts to enforce.")
]
Every = Annotated[
    bool, typer.Option("--all", help="Enforce all contracts that the job's key may read, also new ones.")
]
Prefixes = Annotated[
    list[str] | None,
    typer.Option(help="Enforce contracts with this id prefix, also new ones; can be repeated."),
]
Domains = Annotated[
    list[str] | None,
    typer.Option(help="Enforce contracts of this domain, also new ones; can be repeated."),
]
MaxStreams = Annotated[
    int | None,
    typer.Option(
        help="Maximum number of streams with --all, --prefix or --domain.",
        show_default=default_of("max_streams"),
    ),
]
Checkpoints = Annotated[
    Path | None, typer.Option(help="Directory of Spark's checkpoints.", envvar="TIDEGATE_CHECKPOINTS")
]
TriggerSeconds = Annotated[
    float | None,
    typer.Option(help="Maximum seconds between batches that are not full.", show_default="5; kafka 0.5"),
]
MaxOffsets = Annotated[
    int | None,
    typer.Option(help="Maximum number of offsets in a batch.", show_default=default_of("max_offsets")),
]
MaxBatchBytes = Annotated[
    int | None,
    typer.Option(
        help="Approximate maximum bytes of keys, values and headers in a batch.",
        show_default=default_of("max_batch_bytes"),
    ),
]
AvailableNow = Annotated[
    bool, typer.Option("--available-now", help="Process the available records, then exit.")
]
GraceSeconds = Annotated[
    float | None,
    typer.Option(
        help="How long the job uses the last contract while the registry does not answer.",
        show_default="no limit",
    ),
]
ReadyFile = Annotated[Path | None, typer.Option(help="File that the job writes when all streams run.")]
RegistryOfKeys = Annotated[
    str | None,
    typer.Option(help="Address of the registry, for tables with upserts.", envvar="TIDEGATE_REGISTRY_URL"),
]
FromFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--from-files",
        metavar="PATH",
        help="Judge files, folders or patterns instead of the topic, and exit; can be repeated.",
    ),
]
FromTable = Annotated[
    list[str] | None,
    typer.Option(
        "--from-table",
        metavar="TABLE",
        help="Judge a table instead of the topic, and exit: lake.NAMESPACE.TABLE, or delta:FOLDER with --sink delta.",
    ),
]
Null = Annotated[
    list[str] | None,
    typer.Option(
        "--null",
        metavar="TEXT",
        help="Text that stands for null in CSV, besides an empty cell; can be repeated.",
    ),
]
Limit = Annotated[
    int, typer.Option(metavar="N", min=0, max=10_000, help="Maximum number of records to list of each kind.")
]

_HELP_OF_ENFORCE: Final = """\
Each contract is a separate stream. Accepted records go to the table
lake.CONTRACT_ID (or to the topic TOPIC.accepted), refused ones to
TOPIC.quarantine with the reason. SIGTERM and Ctrl-C stop the job between two
batches; a restart continues from the ledgers.

With --all, --prefix or --domain, the job follows the registry. The stream of
a newly published contract starts without a restart. The stream of a retired
or deleted contract ends between two batches.

With --from-files or --from-table, one stream judges the history of its
records instead of its topic, exactly once. A run that is repeated, or goes on
after a crash, writes no record again. The records are copied into the
warehouse first. The run waits while a job runs the stream.

Options override the TIDEGATE_ variables of the environment.

Examples:
  export TIDEGATE_REGISTRY_URL=http://registry:8081
  tidegate enforce hospital.admissions --bootstrap-servers kafka:9092
  tidegate enforce --all --bootstrap-servers kafka:9092
  tidegate enforce --prefix hospital. --prefix lab. --max-streams 20
  tidegate enforce hospital.admissions --from-files '/data/2025-*.jsonl'
  tidegate enforce hospital.admissions --from-table lake.raw.admissions

Exit codes: 0 stopped by SIGTERM, or finished with --available-now; 2 an
invalid setting; 3 a registry, broker or store does not answer; 4 a stream
stopped; 5 another instance has taken over a stream; 7 the credentials are
rejected; 130 stopped by Ctrl-C.
"""


def enforce(  # noqa: PLR0913 - one parameter for each option
    contracts: Contracts = None,
    *,
    every: Every = False,
    prefix: Prefixes = None,
    domain: Domains = None,
    max_streams: MaxStreams = None,
    bootstrap_servers: BootstrapServers = None,
    kafka_config: KafkaConfig = None,
    registry: Registry = None,
    sink: SinkOption = None,
    write_mode: WriteMode = None,
    merge_mode: MergeMode = None,
    quarantine_table: QuarantineTable = False,
    warehouse: Warehouse = None,
    checkpoints: Checkpoints = None,
    trigger_seconds: TriggerSeconds = None,
    max_offsets: MaxOffsets = None,
    max_batch_bytes: MaxBatchBytes = None,
    available_now: AvailableNow = False,
    from_files: FromFiles = None,
    from_table: FromTable = None,
    null: Null = None,
    starting: Starting = None,
    registry_grace_seconds: GraceSeconds = None,
    ready_file: ReadyFile = None,
) -> None:
    """Enforce contracts on their topics until a signal stops the job."""
    wanted = _wanted(contracts or [], every=every, prefixes=prefix or [], domains=domain or [])
    history = _history(wanted, from_files or [], from_table or [], null or [])
    given = {
        "max_streams": max_streams,
        "bootstrap_servers": bootstrap_servers,
        "kafka_config": kafka_config,
        "registry_url": registry,
        "sink": sink,
        "write_mode": write_mode,
        "merge_mode": merge_mode,
        "quarantine_table": quarantine_table or None,
        "warehouse": warehouse,
        "checkpoints": checkpoints,
        "trigger_seconds": trigger_seconds,
        "max_offsets": max_offsets,
        "max_batch_bytes": max_batch_bytes,
        "available_now": available_now or history is not None or None,
        "starting": starting,
        "registry_grace_seconds": registry_grace_seconds,
    }
    settings = read_settings(given, JobSettings)

    from tidegate.spark_jobs.enforce import enforce_contracts  # noqa: PLC0415 - loads Spark

    received = enforce_contracts(settings, wanted, ready_file, history=history)
    if received == signal.SIGINT:
        raise typer.Exit(128 + signal.SIGINT)


# Typer takes the help of a command from its docstring.
enforce.__doc__ = f"{enforce.__doc__}\n\n{_HELP_OF_ENFORCE}"


def _history(
    wanted: tuple[str, ...] | ContractSelection, files: list[str], tables: list[str], nulls: list[str]
) -> HistoryRequest | None:
    """Return the history to judge; None for the topic. Raises SettingsError if several streams are named."""
    if not files and not tables:
        if nulls:
            raise SettingsError("--null concerns CSV, and is used with --from-files")
        return None
    if isinstance(wanted, ContractSelection) or len(wanted) != 1:
        raise SettingsError("--from-files and --from-table concern one contract: name it")
    return HistoryRequest(tuple(files), tuple(tables), tuple(nulls))


def _wanted(
    contracts: list[str], *, every: bool, prefixes: list[str], domains: list[str]
) -> tuple[str, ...] | ContractSelection:
    """Return the contracts to enforce, by id or by a selection. Raises SettingsError if none or both are given."""
    if bool(contracts) == (every or bool(prefixes) or bool(domains)):
        raise SettingsError("name the contracts to enforce, or choose them with --all, --prefix or --domain")
    if "" in {*prefixes, *domains}:
        raise SettingsError(
            "an empty --prefix or --domain chooses nothing; to enforce every contract, say --all"
        )
    if every and (prefixes or domains):
        raise SettingsError("--all leaves no contract out: give it without --prefix and --domain")
    return (
        tuple(dict.fromkeys(contracts)) if contracts else ContractSelection(tuple(prefixes), tuple(domains))
    )


def reconcile(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    bootstrap_servers: BootstrapServers = None,
    kafka_config: KafkaConfig = None,
    sink: SinkOption = None,
    warehouse: Warehouse = None,
    registry: RegistryOfKeys = None,
    output_format: OutputFormat = "text",
    limit: Limit = 20,
) -> None:
    """Prove that every offset of a stream has exactly one fate.

    Compares topics, sink and ledger, and lists records that are lost or exist
    twice. A table with upserts needs --registry, to read the keys of records.
    The stream may run at the same time: unpublished records are not judged.
    The history of a stream (enforce --from-files) is proven with its topic.

    Examples:
      export TIDEGATE_BOOTSTRAP_SERVERS=kafka:9092
      tidegate reconcile hospital.admissions --warehouse ./warehouse

    Exit codes: 0 proven; 1 records are lost or exist twice; 2 an invalid
    setting; 3 a broker or store does not answer; 6 no fault was found, but
    deleted topic records prevent a proof; 7 the credentials are rejected.
    """
    given = {
        "bootstrap_servers": bootstrap_servers,
        "kafka_config": kafka_config,
        "sink": sink,
        "warehouse": warehouse,
        "registry_url": registry,
    }
    settings = read_settings(given, ReconcileSettings)

    from tidegate.spark_jobs.contract_source import find_plan  # noqa: PLC0415 - compiles contracts
    from tidegate.spark_jobs.reconcile.compare import reconcile_stream  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.reconcile.report import as_findings, as_text, json_text  # noqa: PLC0415 - the same

    with shown_progress():
        found = reconcile_stream(settings, stream, lambda: find_plan(settings, stream))
    findings = as_findings(found, limit)
    typer.echo(json_text(findings) if output_format == "json" else as_text(findings))
    if code := _EXIT_CODES[findings.answer]:
        raise typer.Exit(code)


def maintain(
    stream: StreamId,
    *,
    sink: SinkOption = None,
    warehouse: Warehouse = None,
    output_format: OutputFormat = "text",
) -> None:
    """Expire snapshots, merge small files and remove orphan files of a table.

    The job does this in the background. Use this command if maintenance is
    turned off in the job by TIDEGATE_COMPACTION, TIDEGATE_SNAPSHOT_EXPIRY or
    TIDEGATE_ORPHAN_REMOVAL; set these variables to true for the command only. It
    works until nothing is left to do. The job may run at the same time: its
    batches have priority.

    Examples:
      tidegate maintain hospital.admissions --warehouse ./warehouse

    Exit codes: 0 maintained; 2 no such table, or an invalid setting; 3 the
    store does not answer, or a part failed.
    """
    settings = read_settings({"sink": sink, "warehouse": warehouse}, MaintainSettings)

    from tidegate.spark_jobs.enforce import log_to_stderr  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.sinks.maintain import maintain_table, maintained_text  # noqa: PLC0415 - the same

    log_to_stderr()
    with shown_progress():
        found = maintain_table(settings, stream)
    if output_format == "json":
        # The sums over both tables, because they show the work for the stream.
        tables = [found.done, *([found.refusals.done] if found.refusals else [])]
        sums = {name: sum(getattr(each, name) for each in tables) for name in type(found.done).model_fields}
        typer.echo(type(found.done)(**sums).model_dump_json(indent=2))
    else:
        typer.echo(maintained_text(found))
    if found.error is not None:
        raise found.error
