"""The file that declares topics: parse it, validate it, and resolve it for one environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidegate.contracts.document.source import Place, SourceDocument, escape, syntax_error
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.contracts.errors import ContractError, Problem, SettingsError
from tidegate.contracts.stream.output_topics import (
    LEDGER_PARTITIONS,
    LEDGER_SETTINGS,
    LEDGER_TOPIC,
    accepted_topic,
    dropped_settings,
    dropped_topic,
    is_enough,
    marks_topic,
    output_settings,
    quarantine_topic,
    replayed_topic,
)
from tidegate.contracts.suggestions import did_you_mean

_BATCH_BYTES = 1_048_588
"""Kafka's default of `max.message.bytes`."""

Setting = str | int | float | bool | list[str]
Config = dict[str, Setting]
TopicName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
Partitions = Annotated[int, Field(ge=1, le=100_000)]
Replication = Annotated[int, Field(ge=1, le=100)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Defaults(_Part):
    """The settings of a topic. As `defaults`, they apply to topics that do not set them."""

    partitions: Partitions | None = None
    replication: Replication | None = None
    config: Config = {}


class Output(Defaults):
    """An output topic of the job.

    It defaults to the source's partitions and replication factor, and to the settings that the job needs.
    """


class Topic(Defaults):
    """A source topic. The fields of type Output are the topics that the job writes for it; None: not declared."""

    quarantine: Output | None = None
    accepted: Output | None = None
    dropped: Output | None = Field(default=None, description="One partition, unless it says otherwise.")
    marks: Output | None = Field(default=None, description="One partition, kept without limit.")
    replayed: Output | None = Field(default=None, description="One partition, kept for ever.")


class Environment(_Part):
    """The overrides of one environment: its defaults and topics take precedence over those of the file."""

    defaults: Defaults = Defaults()
    topics: dict[TopicName, Topic] = {}


class TopicFile(_Part):
    """The whole document."""

    api_version: Literal["tidegate/v1"] = Field(alias="apiVersion")
    kind: Literal["Topics"]
    defaults: Defaults = Defaults()
    ledger: Output | None = Field(default=None, description="The topic of the Kafka sink's ledgers.")
    topics: dict[TopicName, Topic]
    environments: dict[str, Environment] = {}


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """The declared state of one topic. If `replication` is None, the cluster's default applies.

    The values of `config` are strings as Kafka prints them.
    """

    name: str
    partitions: int
    replication: int | None
    config: Mapping[str, str]


def load_topics(path: Path, environment: str | None) -> tuple[WantedTopic, ...]:
    """Read a file, and return its topics for an environment (None: without overrides), in the file's order.

    Raises ContractError with the position of every mistake, and SettingsError if the file has no such environment.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise syntax_error(str(path), Place(1, 1), f"cannot be read: {error}") from None
    source = read_yaml(str(path), text)
    if source.problems:
        raise ContractError(source.problems)
    try:
        document = TopicFile.model_validate(source.value, strict=True)
    except ValidationError as error:
        raise ContractError(tuple(_problems(source, error))) from None
    if environment is not None and environment not in document.environments:
        raise SettingsError(
            f"{path} has no environment `{environment}`{did_you_mean(environment, document.environments)}; it has "
            f"{', '.join(document.environments) or 'none'}"
        )
    chosen = document.environments[environment] if environment else Environment()
    wanted = tuple(_wanted(document, chosen))
    problems = tuple(
        source.problem(pointer, message)
        for topic in wanted
        for pointer, message in _mistakes(topic, document)
    )
    if problems:
        raise ContractError(problems)
    return wanted


def _problems(source: SourceDocument, error: ValidationError) -> Iterator[Problem]:
    for one in error.errors(include_url=False, include_input=False):
        steps = [
            str(step)
            for step in one["loc"]
            if not str(step).startswith(("list[", "str", "int", "float", "bool"))
        ]
        pointer = "".join(f"/{escape(step)}" for step in steps if step != "[key]")
        if one["type"] == "extra_forbidden":
            yield source.problem(pointer, f"unknown key `{steps[-1]}`", at_key=True)
        else:
            yield source.problem(pointer, one["msg"][:1].lower() + one["msg"][1:])


def _wanted(document: TopicFile, environment: Environment) -> Iterator[WantedTopic]:
    defaults = (environment.defaults, document.defaults)
    names = dict.fromkeys((*document.topics, *environment.topics))
    for name in names:
        layers = [each[name] for each in (environment.topics, document.topics) if name in each]
        topic = _topic(name, (*layers, *defaults))
        yield topic
        size = topic.config.get("max.message.bytes", "")
        batch_bytes = int(size) if size.isdecimal() else _BATCH_BYTES
        needed = output_settings(batch_bytes)
        dropped = dropped_settings(batch_bytes, _retention(topic))
        for output_name, outputs, settings, partitions in (
            (quarantine_topic(name), [each.quarantine for each in layers], needed, topic.partitions),
            (accepted_topic(name), [each.accepted for each in layers], needed, topic.partitions),
            (dropped_topic(name), [each.dropped for each in layers], dropped, 1),
            (marks_topic(name), [each.marks for each in layers], needed, 1),
            (replayed_topic(name), [each.replayed for each in layers], needed, 1),
        ):
            given = [each for each in outputs if each is not None]
            if given:
                yield _output(output_name, given, replace(topic, partitions=partitions), settings)
    if document.ledger is not None:
        ledger = Defaults(partitions=LEDGER_PARTITIONS, config=LEDGER_SETTINGS)
        yield _topic(LEDGER_TOPIC, (document.ledger, *(_without_policy(each) for each in defaults), ledger))


def _retention(source: WantedTopic) -> int:
    """Return the retention of a source topic in milliseconds; -1 if it is unlimited or not in the file."""
    retention = source.config.get("retention.ms", "-1")
    is_compacted = "compact" in source.config.get("cleanup.policy", "")
    return int(retention) if retention.isdecimal() and not is_compacted else -1


def _without_policy(defaults: Defaults) -> Defaults:
    """Return defaults for the ledger topic, which has its own cleanup policy and number of partitions."""
    kept = {key: value for key, value in defaults.config.items() if key != "cleanup.policy"}
    return Defaults(replication=defaults.replication, config=kept)


def _topic(name: str, layers: tuple[Defaults, ...]) -> WantedTopic:
    """Merge layers of settings; earlier layers take precedence."""
    config: dict[str, str] = {}
    for layer in reversed(layers):
        config |= {key: _written(value) for key, value in layer.config.items()}
    partitions = next((each.partitions for each in layers if each.partitions is not None), 1)
    replication = next((each.replication for each in layers if each.replication is not None), None)
    return WantedTopic(name, partitions, replication, config)


def _output(name: str, given: list[Output], source: WantedTopic, needed: dict[str, str]) -> WantedTopic:
    """Merge the declared settings of an output topic over those that the job needs.

    Partitions, replication factor and `min.insync.replicas` default to those of `source`.
    """
    shared = {key: value for key, value in source.config.items() if key == "min.insync.replicas"}
    base = Defaults(partitions=source.partitions, replication=source.replication, config={**shared, **needed})
    return _topic(name, (*given, base))


def _written(value: Setting) -> str:
    """Return the value of a setting as Kafka prints it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, list) else str(value)


def _mistakes(topic: WantedTopic, document: TopicFile) -> Iterator[tuple[str, str]]:
    """Yield the JSON Pointer and the message of each setting that would cause records to be lost or rejected."""
    insync = topic.config.get("min.insync.replicas", "1")
    largest = topic.config.get("max.message.bytes", "0")
    owner, _, suffix = topic.name.rpartition(".")
    is_output = topic.name not in document.topics and suffix in {
        "quarantine",
        "accepted",
        "dropped",
        "marks",
        "replayed",
    }
    place = f"/topics/{escape(owner)}/{suffix}" if is_output else f"/topics/{escape(topic.name)}"
    if topic.name == LEDGER_TOPIC and document.ledger is not None:
        place = "/ledger"
        if topic.config["cleanup.policy"] != "compact" or topic.partitions < LEDGER_PARTITIONS:
            yield place, f"{LEDGER_TOPIC} must be compacted and have at least {LEDGER_PARTITIONS} partitions"
    if not largest.isdecimal():
        yield (
            f"{place}/config/max.message.bytes",
            f"max.message.bytes of {topic.name} is not a number: {largest}",
        )
    if not insync.isdecimal():
        yield place, f"min.insync.replicas of {topic.name} is not a number: {insync}"
    elif topic.replication is not None and int(insync) > topic.replication:
        yield (
            place,
            f"{topic.name} wants {insync} replicas in sync and has {topic.replication}: nothing could be written to it",
        )
    if is_output:
        for key, value in output_settings(0).items():
            actual = topic.config[key]
            if not _does(key, actual, value):
                yield (
                    f"{place}/config/{escape(key)}",
                    f"{topic.name} would lose records with {key} {actual}; the job needs {value}",
                )


def _does(key: str, actual: str, needed: str) -> bool:
    try:
        return is_enough(key, actual, needed)
    except ValueError:
        return False
