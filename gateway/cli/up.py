"""`tidegate up`: run broker, gateway and job on this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.stream.sink_names import SinkName
from tidegate.gateway.cli.jars import JarsProgress
from tidegate.gateway.cli.terminal import out
from tidegate.gateway.embedded.runtime import OwnKafka, Runtime, RuntimeOptions
from tidegate.gateway.embedded.signals import ending_signals
from tidegate.gateway.embedded.up import serve_contracts, watch
from tidegate.gateway.exits import ExitCode

_LABEL_WIDTH = 10


Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[CONTRACT]...", exists=True, dir_okay=False, help="Contracts to publish at the start."
    ),
]
State = Annotated[Path, typer.Option(help="Folder of topics, registry, tables and logs, kept between runs.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Delete the state of earlier runs first.")]
Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, show_default="8081, or a free one", help="Port of registry and desk."),
]
BrokerPort = Annotated[
    int | None,
    typer.Option(min=1, max=65535, show_default="19092, or a free one", help="Port of the Kafka broker."),
]
OwnServers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="Kafka brokers that you have, instead of a broker on this machine.",
    ),
]
OwnConfig = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config",
        metavar="FILE",
        help="Client properties for your brokers (SASL, TLS).",
        dir_okay=False,
    ),
]
SinkOption = Annotated[SinkName, typer.Option(help="Destination of accepted records: a table or a topic.")]


def up(  # noqa: PLR0913 - one parameter for each option
    files: Files = None,
    *,
    state: State = Path(".tidegate"),
    fresh: Fresh = False,
    port: Port = None,
    broker_port: BrokerPort = None,
    sink: SinkOption = SinkName.ICEBERG,
    bootstrap_servers: OwnServers = None,
    kafka_config: OwnConfig = None,
) -> None:
    """Run broker, registry and enforcement on this machine.

    Starts a Kafka broker, the registry and the streaming job, without Docker and
    without root, until Ctrl-C. All ports are on loopback. Stopping ends all
    processes; the next start continues from the saved state. Contracts that are
    published while it runs are enforced without a restart.

    With --bootstrap-servers it uses brokers that you have: it reads the topics of
    the contracts, creates those that are not there, and writes quarantine topics.

    Examples:
      tidegate up contract.yaml
      tidegate up contract.yaml --bootstrap-servers kafka:9092
      tidegate up --state /data/tidegate --port 8090
      tidegate up --fresh contracts/*.yaml
      export TIDEGATE_POSTGRESQL_URL=postgresql://me:secret@db/lake
      tidegate up --sink postgresql contract.yaml

    Exit codes: 0 stopped by Ctrl-C or SIGTERM after it was ready; 130 stopped
    before; 2 something is missing on this machine (Java, a port, disk space); 3
    a part failed; 4 a stream stopped.
    """
    if sink is SinkName.POSTGRESQL and not os.environ.get("TIDEGATE_POSTGRESQL_URL"):  # the job inherits it
        raise SettingsError(
            "--sink postgresql needs a database: set TIDEGATE_POSTGRESQL_URL to postgresql://user:password@host/database"
        )
    kafka = _own_kafka(bootstrap_servers, kafka_config, broker_port)
    _run(RuntimeOptions(state, fresh, port, broker_port, sink.value, kafka=kafka), files or [])


def _own_kafka(servers: str | None, config: Path | None, broker_port: int | None) -> OwnKafka | None:
    """Return the brokers of the user, if any. Raises SettingsError for options that exclude each other."""
    if servers is None and config is not None:
        raise SettingsError("--kafka-config is about brokers of yours: name them with --bootstrap-servers")
    if servers is not None and broker_port is not None:
        raise SettingsError(
            "--broker-port is about a broker that `up` starts; with --bootstrap-servers there is none"
        )
    return None if servers is None else OwnKafka(servers, config)


def _run(options: RuntimeOptions, files: list[Path]) -> None:
    """Run all processes until one ends or a signal comes. Raises typer.Exit after a signal."""
    is_ready = False
    with ending_signals():
        try:
            with JarsProgress() as progress, Runtime(options, show, progress) as runtime:
                try:
                    contracts = serve_contracts(runtime, files, show)
                    show("desk", f"{runtime.registry_url}/desk")
                    out.print("ready · Ctrl-C stops everything", style="bold green")
                    is_ready = True
                    watch(runtime, contracts)
                except KeyboardInterrupt:
                    # The terminal may have been closed.
                    with suppress(OSError):
                        out.print(
                            "stopping job, registry and broker; the first time, this takes up to half a minute"
                        )
                    raise
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.OK if is_ready else ExitCode.INTERRUPTED) from None


def show(label: str, line: str) -> None:
    """Print one line of progress."""
    out.print(Text.assemble((f"{label:<{_LABEL_WIDTH}} ", "bold"), line))
