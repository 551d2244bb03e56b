"""`tidegate suite`: expectation suites of Great Expectations, into a contract and out of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.expectations.library import read_suite, write_suite
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.lint.lint import lint

ContractFile = Annotated[
    Path,
    typer.Argument(metavar="CONTRACT", exists=True, dir_okay=False, help="Contract document, YAML or JSON."),
]
SuiteFile = Annotated[
    Path | None,
    typer.Option(
        "--import",
        metavar="SUITE",
        exists=True,
        dir_okay=False,
        help="Suite as Great Expectations keeps it, JSON.",
    ),
]


def suite(contract: ContractFile, suite_file: SuiteFile = None) -> None:
    """Write a contract's expectations as a suite of Great Expectations, or a suite as a contract's expectations.

    Without --import it prints the suite of the contract, JSON. With it, it prints the
    suite's expectations as the contract's key `expectations`, YAML, after it has held
    them against the contract: every column that they name has to be one.

    Examples:
      tidegate suite contract.yaml > suite.json
      tidegate suite contract.yaml --import suite.json >> contract.yaml
    """
    document = lint(contract).contract
    if suite_file is None:
        typer.echo(write_suite(document), nl=False)
        return
    try:
        found = read_suite(suite_file.read_bytes())
    except OSError as error:
        raise SettingsError(f"cannot read {suite_file}: {error.strerror}") from None
    compile_plan(document.model_copy(update={"expectations": found}))
    typer.echo("expectations:")
    for each in found:  # JSON is YAML
        plain = orjson.loads(each.model_dump_json(by_alias=True, exclude_defaults=True))
        typer.echo(f"  - {orjson.dumps(plain).decode()}")
