"""Arguments and options that several verbs share, with the same spelling and help text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal

import typer

from tidegate.contracts.errors import SettingsError

HELP: Final = {"help_option_names": ["-h", "--help"]}
DEFAULT_REGISTRY: Final = "http://127.0.0.1:8081"

RegistryUrl = Annotated[
    str, typer.Option(metavar="URL", envvar="TIDEGATE_REGISTRY_URL", help="Address of the registry.")
]
StreamId = Annotated[
    str, typer.Argument(metavar="STREAM", help="Name of the stream: the id of its contract.")
]
ContractId = Annotated[str, typer.Argument(metavar="CONTRACT", help="Id of the contract.")]
ContractFile = Annotated[
    Path,
    typer.Argument(metavar="CONTRACT", exists=True, dir_okay=False, help="Contract document, YAML or JSON."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", dir_okay=False, help="File to write.", show_default="standard output"),
]
Nulls = Annotated[
    list[str] | None,
    typer.Option(
        "--null", metavar="TEXT", help="Text that stands for null in CSV, besides an empty cell. Repeatable."
    ),
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar="TIDEGATE_KAFKA_CONFIG",
        show_envvar=False,
        help="Kafka client properties (SASL, TLS); default: TIDEGATE_KAFKA_CONFIG.",
    ),
]
AllowEmpty = Annotated[
    bool, typer.Option("--allow-empty", help="Do not fail if there is no record to judge.")
]
OutputFormat = Annotated[Literal["text", "json"], typer.Option("--format", help="Format of the output.")]
"""JSON output is one document, or one object a line if the number of objects is not bounded."""


def subcommands() -> typer.Typer:
    """Return an empty command group for subcommands."""
    return typer.Typer(
        add_completion=False, rich_markup_mode="rich", no_args_is_help=True, context_settings=HELP
    )


@contextmanager
def opened_output(output: Path | None) -> Iterator[BinaryIO]:
    """Open the file of an option, or standard output for None. Raises SettingsError."""
    if output is None:
        yield sys.stdout.buffer
        return
    try:
        target = output.open("wb")
    except OSError as error:
        raise SettingsError(f"{output} cannot be written: {error.strerror}") from error
    with target:
        yield target
