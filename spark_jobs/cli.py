"""The command `tidegate enforce`. Cheap to import: Spark is loaded when the command runs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError as UnreadableSource

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.stream.reconciliation import Answer
from tidegate.spark_jobs.settings import SINKS, JobSettings, ReconcileSettings, SinkSettings

_EXIT_CODES = {Answer.HOLDS: 0, Answer.LOST: 1, Answer.UNPROVEN: 6}
"""Those of the gateway's table of exit codes."""

BootstrapServers = Annotated[
    str | None, typer.Option(help="Kafka brokers, host:port,...", envvar="TIDEGATE_BOOTSTRAP_SERVERS")
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(
        help="File of client properties: how to reach Kafka (SASL, TLS).", envvar="TIDEGATE_KAFKA_CONFIG"
    ),
]
_TABLES = [name for name, rules in SINKS.items() if rules.is_table]
_TOPICS = [name for name, rules in SINKS.items() if not rules.is_table]
SinkOption = Annotated[
    str | None,
    typer.Option(
        help=f"{', '.join(_TABLES[:-1])} or {_TABLES[-1]} (a table), or {' or '.join(_TOPICS)} (a topic)."
    ),
]
Warehouse = Annotated[Path | None, typer.Option(help="Directory of the tables.", envvar="TIDEGATE_WAREHOUSE")]


def enforce(  # noqa: PLR0913 - one parameter for each option
    contracts: Annotated[list[str], typer.Argument(metavar="CONTRACT_ID...", help="Contracts to enforce.")],
    *,
    bootstrap_servers: BootstrapServers = None,
    kafka_config: KafkaConfig = None,
    registry: Annotated[
        str | None, typer.Option(help="Address of the registry.", envvar="TIDEGATE_REGISTRY_URL")
    ] = None,
    sink: SinkOption = None,
    write_mode: Annotated[
        str | None, typer.Option(help="append, or upsert on the primary key (not kafka).")
    ] = None,
    merge_mode: Annotated[
        str | None, typer.Option(help="copy-on-write or merge-on-read: how iceberg and delta upsert.")
    ] = None,
    warehouse: Warehouse = None,
    checkpoints: Annotated[
        Path | None, typer.Option(help="Directory of Spark's checkpoints.", envvar="TIDEGATE_CHECKPOINTS")
    ] = None,
    trigger_seconds: Annotated[
        float | None, typer.Option(help="Most seconds between batches that are not full (5; kafka 0.5).")
    ] = None,
    max_offsets: Annotated[int | None, typer.Option(help="Most offsets in one batch.")] = None,
    max_batch_bytes: Annotated[
        int | None, typer.Option(help="About so many bytes of keys, values and headers in one batch.")
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what is there, then end.")
    ] = False,
    starting: Annotated[
        str | None, typer.Option(help="earliest or latest: where a new stream begins.")
    ] = None,
    registry_grace_seconds: Annotated[
        float | None, typer.Option(help="How long the last good contract serves while the registry is away.")
    ] = None,
    ready_file: Annotated[Path | None, typer.Option(help="Written when every stream runs.")] = None,
) -> None:
    """Enforce contracts on their topics, until a signal stops it.

    Each contract is a stream of its own: records that keep the contract go to the table lake.CONTRACT_ID (or to the
    topic TOPIC.accepted), the others to TOPIC.quarantine with the reason. SIGTERM and Ctrl-C stop between two
    batches; a restart continues where the tables' ledgers stand.

    Example: tidegate enforce hospital.admissions --bootstrap-servers localhost:9092 --registry http://localhost:8081
    """
    given = {
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
    settings = read_settings({name: value for name, value in given.items() if value is not None}, JobSettings)

    from tidegate.spark_jobs.enforce import enforce_contracts  # noqa: PLC0415 - loads Spark

    received = enforce_contracts(settings, tuple(dict.fromkeys(contracts)), ready_file)
    if received == signal.SIGINT:
        raise typer.Exit(128 + signal.SIGINT)


def reconcile(  # noqa: PLR0913 - one parameter for each option
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Contract id of the stream.")],
    *,
    bootstrap_servers: BootstrapServers = None,
    kafka_config: KafkaConfig = None,
    sink: SinkOption = None,
    warehouse: Warehouse = None,
    registry: Annotated[
        str | None,
        typer.Option(
            help="Address of the registry, for tables that are upserted into.", envvar="TIDEGATE_REGISTRY_URL"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    limit: Annotated[int, typer.Option(min=0, max=10_000, help="Most records to name of each kind.")] = 20,
) -> None:
    """Prove from topics, sink and ledger that every offset of a stream has one fate.

    Ends with code 0 when that holds. Names the records that have no fate or two, and ends with code 1 if there are any. Ends
    with code 6 when no fault shows, and topics have deleted what would prove that there is none. A table that is upserted into
    needs --registry, to read the keys of records. The stream may run meanwhile: what is in flight is not judged.

    Example: tidegate reconcile hospital.admissions --bootstrap-servers localhost:9092 --warehouse ./warehouse
    """
    given = {
        "bootstrap_servers": bootstrap_servers,
        "kafka_config": kafka_config,
        "sink": sink,
        "warehouse": warehouse,
        "registry_url": registry,
    }
    settings = read_settings(
        {name: value for name, value in given.items() if value is not None}, ReconcileSettings
    )

    from tidegate.spark_jobs.contract_source import find_plan  # noqa: PLC0415 - compiles contracts
    from tidegate.spark_jobs.reconcile.compare import reconcile_stream  # noqa: PLC0415 - loads Spark
    from tidegate.spark_jobs.reconcile.report import as_findings, as_text, json_text  # noqa: PLC0415 - the same

    found = reconcile_stream(settings, stream, lambda: find_plan(settings, stream))
    findings = as_findings(found, limit)
    typer.echo(json_text(findings) if as_json else as_text(findings))
    if code := _EXIT_CODES[findings.answer]:
        raise typer.Exit(code)


Settings = TypeVar("Settings", bound=SinkSettings)


def read_settings(given: dict[str, Any], kind: type[Settings]) -> Settings:
    """Read settings of options and the environment; an option that is None was not given. Raises SettingsError."""
    try:
        return kind(**given)
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
