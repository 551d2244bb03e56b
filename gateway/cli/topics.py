"""`tidegate topics`: create and update Kafka topics from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.contracts.stream.kafka_connection import KafkaConnection, KafkaSettings
from tidegate.gateway.cli.options import KafkaConfig, subcommands
from tidegate.gateway.cli.terminal import err, out
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.topics.cluster import Cluster
from tidegate.gateway.topics.document import load_topics
from tidegate.gateway.topics.plan import AddPartitions, Change, ChangeSetting, CreateTopic, Plan, plan_topics

_PENDING = 2
"""The exit code that other planning tools use. Wrong usage also exits with 2, but prints nothing on stdout."""

app = subcommands()

File = Annotated[
    Path,
    typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="YAML file that declares the topics."),
]
Environment = Annotated[
    str | None,
    typer.Option("--environment", "-e", help="Environment in the file, such as dev or prod."),
]
Servers = Annotated[
    str, typer.Option(envvar="TIDEGATE_BOOTSTRAP_SERVERS", help="Kafka brokers (host:port,...).")
]


@app.callback()
def topics() -> None:
    """Create and update the topics of a Kafka cluster from a file.

    The file declares partitions, replication and settings of topics and their
    quarantine topics, with differences for each environment. Nothing is ever
    deleted: topics and settings that are not in the file stay unchanged.
    """


@app.command()
def plan(
    file: File,
    *,
    bootstrap_servers: Servers,
    kafka_config: KafkaConfig = None,
    environment: Environment = None,
) -> None:
    """Show the differences between the file and the cluster; change nothing.

    Examples:
      tidegate topics plan topics.yaml -e prod --bootstrap-servers kafka:9092

    Exit codes: 0 no differences; 1 the file is invalid, or a change is not
    possible; 2 there are changes to apply; 3 no broker answers.
    """
    found, _ = _planned(file, _kafka(bootstrap_servers, kafka_config), environment)
    if found.impossible:
        raise typer.Exit(ExitCode.FINDINGS)
    if found.changes:
        raise typer.Exit(_PENDING)
    _print("nothing to do")


@app.command()
def apply(
    file: File,
    *,
    bootstrap_servers: Servers,
    kafka_config: KafkaConfig = None,
    environment: Environment = None,
) -> None:
    """Apply the changes that `plan` shows.

    If one change is not possible, none is applied. A second run changes nothing.

    Examples:
      tidegate topics apply topics.yaml -e prod --bootstrap-servers kafka:9092

    Exit codes: 0 applied; 1 the file is invalid, or a change is not possible; 2
    the cluster refuses; 3 no broker answers.
    """
    found, cluster = _planned(file, _kafka(bootstrap_servers, kafka_config), environment)
    if found.impossible:
        err.print("nothing was changed")
        raise typer.Exit(ExitCode.FINDINGS)
    for change in found.changes:
        cluster.apply(change)
    _print(f"{len(found.changes)} changes made" if found.changes else "nothing to do")


def _kafka(servers: str, config: Path | None) -> KafkaConnection:
    return KafkaSettings(kafka_config=config).connection_to(servers)


def _planned(file: Path, kafka: KafkaConnection, environment: str | None) -> tuple[Plan, Cluster]:
    wanted = load_topics(file, environment)
    cluster = Cluster(kafka)
    found = plan_topics(wanted, cluster.topics(topic.name for topic in wanted))
    for change in found.changes:
        for line in _lines(change):
            _print(line)
    for each in found.impossible:
        _print(f"! {each.topic}: {each.reason}")
    return found, cluster


def _lines(change: Change) -> list[str]:
    match change:
        case CreateTopic(topic):
            replication = "the cluster's own" if topic.replication is None else str(topic.replication)
            settings = [f"    {key} = {value}" for key, value in sorted(topic.config.items())]
            return [f"+ {topic.name}: partitions {topic.partitions}, replication {replication}", *settings]
        case AddPartitions(topic, before, after):
            return [f"~ {topic}: partitions {before} -> {after}"]
        case ChangeSetting(topic, key, before, after):
            return [f"~ {topic}: {key} {'(unknown here)' if before is None else before} -> {after}"]


def _print(line: str) -> None:
    out.print(line)
