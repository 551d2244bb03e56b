"""Options that several commands of the job share, and the settings read from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError as UnreadableSource

from tidegate.contracts.errors import SettingsError
from tidegate.spark_jobs.settings import SINKS, JobSettings, SparkSettings
from tidegate.spark_jobs.settings import MergeMode as MergeModeName
from tidegate.spark_jobs.settings import Starting as StartingName
from tidegate.spark_jobs.settings import WriteMode as WriteModeName


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
    str | None, typer.Option("--registry", help="Address of the registry.", envvar="TIDEGATE_REGISTRY_URL")
]
_TABLES = [name for name, rules in SINKS.items() if rules.is_table]
_TOPICS = [name for name, rules in SINKS.items() if not rules.is_table]
if TYPE_CHECKING:
    ListedSink = str
else:
    # Typer offers the values of a Literal; mypy does not support computed ones.
    ListedSink = Literal[tuple(SINKS)]
SinkOption = Annotated[
    ListedSink | None,
    typer.Option(
        metavar="SINK",
        help=f"{', '.join(_TABLES[:-1])} or {_TABLES[-1]} (a table), or {' or '.join(_TOPICS)} (a topic).",
        show_default=default_of("sink"),
    ),
]
Warehouse = Annotated[Path | None, typer.Option(help="Directory of the tables.", envvar="TIDEGATE_WAREHOUSE")]
WriteMode = Annotated[
    WriteModeName | None,
    typer.Option(
        metavar="MODE",
        help="append, or upsert on the primary key (not kafka).",
        show_default=default_of("write_mode"),
    ),
]
MergeMode = Annotated[
    MergeModeName | None,
    typer.Option(
        metavar="MODE",
        help="copy-on-write or merge-on-read, for upserts of iceberg and delta.",
        show_default=default_of("merge_mode"),
    ),
]
QuarantineTable = Annotated[
    bool,
    typer.Option("--quarantine-table", help="Keep refused records in a table too (not kafka)."),
]
Starting = Annotated[
    StartingName | None,
    typer.Option(
        metavar="WHERE",
        help="earliest or latest: start of a stream without a ledger.",
        show_default=default_of("starting"),
    ),
]
OutputFormat = Annotated[Literal["text", "json"], typer.Option("--format", help="Format of the output.")]

_SHARED: Final = {
    "bootstrap_servers": BootstrapServers,
    "kafka_config": KafkaConfig,
    "registry_url": Registry,
    "sink": SinkOption,
    "write_mode": WriteMode,
    "merge_mode": MergeMode,
    "warehouse": Warehouse,
    "starting": Starting,
}
_FURTHER: Final = frozenset({"merge_mode", "starting"})
Given = dict[str, Any]
"""The values of shared options by the names of their settings; None for an option that is not set."""


def output_options(*further: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces the parameter `given` of a command with the options that locate outputs.

    The command receives their values as `given`. `further` names more options, of `_FURTHER`.
    """
    names = [name for name in _SHARED if name in further or name not in _FURTHER]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(*arguments: Any, **options: Any) -> None:
            given = {name: options.pop(name, None) for name in names}
            command(*arguments, given=given, **options)

        parameters: list[Parameter] = []
        for each in signature(command, eval_str=True).parameters.values():
            if each.name == "given":
                parameters += (
                    each.replace(name=name, annotation=_SHARED[name], default=None) for name in names
                )
            else:
                parameters.append(each)
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined] # read by Typer
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


Settings = TypeVar("Settings", bound=SparkSettings)


def read_settings(given: Given, kind: type[Settings]) -> Settings:
    """Return settings of class `kind` from options and environment; None means not given. Raises SettingsError."""
    try:
        return kind(**{name: value for name, value in given.items() if value is not None})
    except UnreadableSource as error:
        # The cause quotes the text, which may contain secrets.
        raise SettingsError(
            f'{error}: it should be JSON, as in TIDEGATE_CATALOG_PROPERTIES=\'{{"type": "rest"}}\''
        ) from None
    except ValidationError as error:
        raise SettingsError("; ".join(_problems(error, given))) from error


def _problems(error: ValidationError, given: Given) -> Iterator[str]:
    """Yield a sentence on the values that cannot work, and one on the settings that are missing."""
    missing = [str(each["loc"][0]) for each in error.errors() if each["type"] == "missing"]
    wrong = "; ".join(
        f"{'.'.join(map(str, each['loc'])).replace('_', '-')}: {each['msg']}"
        for each in error.errors()
        if each["type"] != "missing"
    )
    if wrong:
        yield f"{wrong} (each setting is an option, or an environment variable TIDEGATE_...)"
    if missing:
        options = ", ".join(_option(each) for each in missing if each in given)
        variables = ", ".join(f"TIDEGATE_{each.upper()}" for each in missing)
        words = "a setting is missing" if len(missing) == 1 else "settings are missing"
        yield f"{words}: " + (f"give {options}, or set {variables}" if options else f"set {variables}")


def _option(name: str) -> str:
    return "--registry" if name == "registry_url" else f"--{name.replace('_', '-')}"
