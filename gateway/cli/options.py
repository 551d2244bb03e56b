"""Arguments and options that several verbs share, so that each has one spelling and one help text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal

import typer

from tidegate.contracts.errors import SettingsError

DEFAULT_REGISTRY: Final = "http://127.0.0.1:8081"

RegistryUrl = Annotated[
    str, typer.Option(metavar="URL", envvar="TIDEGATE_REGISTRY_URL", help="Address of the registry.")
]
StreamId = Annotated[
    str, typer.Argument(metavar="STREAM", help="Name of the stream: the id of its contract.")
]
ContractId = Annotated[str, typer.Argument(metavar="CONTRACT", help="Id of the contract.")]
OutputFormat = Annotated[Literal["text", "json"], typer.Option("--format", help="Format of the output.")]
"""The one way to ask for JSON: one document, or one object a line where the number of objects has no bound."""


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
