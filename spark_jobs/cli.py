"""The commands `tidegate enforce`, `reconcile` and `maintain`. Cheap to import: Spark is loaded when the command runs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError as UnreadableSource

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.stream.reconciliation import Answer
from tidegate.spark_jobs.settings import (
    SINKS,
    JobSettings,
    MaintainSettings,
    ReconcileSettings,
    Selection,
    SinkSettings,
)

_EXIT_CODES = {Answer.HOLDS: 0, Answer.LOST: 1, Answer.UNPROVEN: 6}
"""Those of the gateway's table of exit codes."""


def default_of(name: str) -> str:
    """Return the default of a setting, for help texts."""
    return str(JobSettings.model_fields[name].default)


BootstrapServers = Annotated[
    str | None, typer.Option(help="Kafka brokers (host:port,...).", envvar="TIDEGATE_BOOTSTRAP_SERVERS")
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(help="File of Kafka client properties (SASL, TLS).", envvar="TIDEGATE_KAFKA_CONFIG"),
]
StreamId = Annotated[str, typer.Argument(metavar="STREAM", help="Contract id of the stream.")]
Registry = Annotated[
    str | None, typer.Option(help="Address of the registry.", envvar="TIDEGATE_REGISTRY_URL")
]
_TABLES = [name for name, rules in SINKS.items() if rules.is_table]
_TOPICS = [name for name, rules in SINKS.items() if not rules.is_table]
SinkOption = Annotated[
    str | None,
    typer.Option(
        help=f"{', '.join(_TABLES[:-1])} or {_TABLES[-1]} (a table), or {' or '.join(_TOPICS)} (a topic).",
        show_default=default_of("sink"),
    ),
]
Warehouse = Annotated[Path | None, typer.Option(help="Directory of the tables.", envvar="TIDEGATE_WAREHOUSE")]


def enforce(  # noqa: PLR0913 - one parameter for each option
    contracts: Annotated[
        list[str] | None, typer.Argument(metavar="[CONTRACT_ID]...", help="Contracts to enforce.")
    ] = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Enforce all contracts that the job's key may read, also new ones.")
    ] = False,
    prefix: Annotated[
        list[str] | None,
        typer.Option(help="Enforce contracts with this id prefix, also new ones; can be repeated."),
    ] = None,
    domain: Annotated[
        list[str] | None,
        typer.Option(help="Enforce contracts of this domain, also new ones; can be repeated."),
    ] = None,
    max_streams: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of streams with --all, --prefix or --domain.",
            show_default=default_of("max_streams"),
        ),
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    kafka_config: KafkaConfig = None,
    registry: Registry = None,
    sink: SinkOption = None,
    write_mode: Annotated[
        str | None,
        typer.Option(
            help="append, or upsert on the primary key (not kafka).", show_default=default_of("write_mode")
        ),
    ] = None,
    merge_mode: Annotated[
        str | None,
        typer.Option(
            help="copy-on-write or merge-on-read, for upserts of iceberg and delta.",
            show_default=default_of("merge_mode"),
        ),
    ] = None,
    warehouse: Warehouse = None,
    checkpoints: Annotated[
        Path | None, typer.Option(help="Directory of Spark's checkpoints.", envvar="TIDEGATE_CHECKPOINTS")
    ] = None,
    trigger_seconds: Annotated[
        float | None,
        typer.Option(help="Maximum seconds between batches that are not full.", show_default="5; kafka 0.5"),
    ] = None,
    max_offsets: Annotated[
        int | None,
        typer.Option(help="Maximum number of offsets in a batch.", show_default=default_of("max_offsets")),
    ] = None,
    max_batch_bytes: Annotated[
        int | None,
        typer.Option(
            help="Approximate maximum bytes of keys, values and headers in a batch.",
            show_default=default_of("max_batch_bytes"),
        ),
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process the available records, then exit.")
    ] = False,
    starting: Annotated[
        str | None,
        typer.Option(
            help="earliest or latest: start of a stream without a ledger.",
            show_default=default_of("starting"),
        ),
    ] = None,
    registry_grace_seconds: Annotated[
        float | None,
        typer.Option(
            help="How long the job uses the last contract while the registry does not answer.",
            show_default="no limit",
        ),
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="File that the job writes when all streams run.")
    ] = None,
) -> None:
    """Enforce contracts on their topics until a signal stops the job.

    Each contract is a separate stream. Accepted records go to the table
    lake.CONTRACT_ID (or to the topic TOPIC.accepted), refused ones to
    TOPIC.quarantine with the reason. SIGTERM and Ctrl-C stop the job between two
    batches; a restart continues from the ledgers.

    With --all, --prefix or --domain, the job follows the registry. The stream of
    a newly published contract starts without a restart. The stream of a retired
    or deleted contract ends between two batches.

    Options override the TIDEGATE_ variables of the environment.

    Examples:
      export TIDEGATE_REGISTRY_URL=http://registry:8081
      tidegate enforce hospital.admissions --bootstrap-servers kafka:9092
      tidegate enforce --all --bootstrap-servers kafka:9092
      tidegate enforce --prefix hospital. --prefix lab. --max-streams 20

    Exit codes: 0 stopped by SIGTERM, or finished with --available-now; 2 an
    invalid setting, or the key is refused; 3 a registry, broker or store does
    not answer; 4 a stream stopped; 5 another instance has taken over a stream;
    130 stopped by Ctrl-C.
    """
    if bool(contracts) == (every or bool(prefix) or bool(domain)):
        raise SettingsError("name the contracts to enforce, or choose them with --all, --prefix or --domain")
    if "" in {*(prefix or ()), *(domain or ())}:
        raise SettingsError(
            "an empty --prefix or --domain chooses nothing; to enforce every contract, say --all"
        )
    if every and (prefix or domain):
        raise SettingsError("--all leaves no contract out: give it without --prefix and --domain")
    given = {
        "max_streams": max_streams,
        "bootstrap_servers": bootstrap_servers,
        "kafka_config": kafka_config,
        "registry_url": registry,
        "sink": sink,
        "write_mode": write_mode,
        "merge_mode": merge_mode,
        "warehouse": warehouse,
        "checkpoints": checkpoints,
        "trigger_seconds": trigger_seconds,
        "max_offsets": max_offsets,
        "max_batch_bytes": max_batch_bytes,
        "available_now": available_now or None,
        "starting": starting,
        "registry_grace_seconds": registry_grace_seconds,
    }
    settings = read_settings(given, JobSettings)

    from tidegate.spark_jobs.enforce import enforce_contracts  # noqa: PLC0415 - loads Spark

    wanted = (
        tuple(dict.fromkeys(contracts)) if contracts else Selection(tuple(prefix or ()), tuple(domain or ()))
    )
    received = enforce_contracts(settings, wanted, ready_file)
    if received == signal.SIGINT:
        raise typer.Exit(128 + signal.SIGINT)


def reconcile(  # noqa: PLR0913 - one parameter for each option
    stream: StreamId,
    *,
    bootstrap_servers: BootstrapServers = None,
    kafka_config: KafkaConfig = None,
    sink: SinkOption = None,
    warehouse: Warehouse = None,
    registry: Annotated[
        str | None,
        typer.Option(
            help="Address of the registry, for tables with upserts.", envvar="TIDEGATE_REGISTRY_URL"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    limit: Annotated[
        int, typer.Option(min=0, max=10_000, help="Maximum number of records to list of each kind.")
    ] = 20,
) -> None:
    """Prove that every offset of a stream has exactly one fate.

    Compares topics, sink and ledger, and lists records that are lost or exist
    twice. A table with upserts needs --registry, to read the keys of records.
    The stream may run at the same time: unpublished records are not judged.

    Examples:
      export TIDEGATE_BOOTSTRAP_SERVERS=kafka:9092
      tidegate reconcile hospital.admissions --warehouse ./warehouse

    Exit codes: 0 proven; 1 records are lost or exist twice; 2 an invalid
    setting; 3 a broker or store does not answer; 6 no fault was found, but
    deleted topic records prevent a proof.
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

    found = reconcile_stream(settings, stream, lambda: find_plan(settings, stream))
    findings = as_findings(found, limit)
    typer.echo(json_text(findings) if as_json else as_text(findings))
    if code := _EXIT_CODES[findings.answer]:
        raise typer.Exit(code)


def maintain(
    stream: StreamId,
    *,
    sink: SinkOption = None,
    warehouse: Warehouse = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Expire snapshots, merge small files and remove orphan files of a table.

    The job does this in the background. Use this command if maintenance is
    turned off in the job by TIDEGATE_COMPACTION, TIDEGATE_SNAPSHOT_EXPIRY or
    TIDEGATE_ORPHAN_REMOVAL; set these variables to true for the command only. It
    works until nothing is left to do. The job may run at the same time: its
    batches have priority.

    Examples:
      tidegate maintain hospital.admissions --warehouse ./warehouse

    Exit codes: 0 maintained; 2 no such table, or an invalid setting; 3 the store
    does not answer, or a part failed.
    """
    settings = read_settings({"sink": sink, "warehouse": warehouse}, MaintainSettings)

    from tidegate.spark_jobs.enforce import log_to_stderr  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.sinks.maintain import maintain_table, maintained_text  # noqa: PLC0415 - the same

    log_to_stderr()
    found = maintain_table(settings, stream)
    typer.echo(found.done.model_dump_json(indent=2) if as_json else maintained_text(found))
    if found.error is not None:
        raise found.error


Settings = TypeVar("Settings", bound=SinkSettings)


def read_settings(given: dict[str, Any], kind: type[Settings]) -> Settings:
    """Read settings from options and the environment; an option that is None is not set. Raises SettingsError."""
    try:
        return kind(**{name: value for name, value in given.items() if value is not None})
    except UnreadableSource as error:
        # Its cause quotes the text, which may hold secrets.
        raise SettingsError(
            f'{error}: it should be JSON, as in TIDEGATE_CATALOG_PROPERTIES=\'{{"type": "rest"}}\''
        ) from None
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])).replace('_', '-')}: {problem['msg']}"
            for problem in error.errors()
        )
        raise SettingsError(
            f"{problems} (each setting is an option, or an environment variable TIDEGATE_...)"
        ) from error
