"""`tidegate suite`: convert between a contract and suites of Great Expectations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from tidegate.contracts.compiled import table_columns
from tidegate.contracts.document.load import read_source
from tidegate.contracts.errors import ContractError, SettingsError
from tidegate.contracts.exchange.expectation_suite import unread_of_suite, with_derived_columns
from tidegate.contracts.expectations.library import read_suite, write_suite
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.gateway.cli.options import ContractFile
from tidegate.gateway.cli.terminal import show_left_out

SuiteFile = Annotated[
    Path | None,
    typer.Option(
        "--import",
        metavar="SUITE",
        exists=True,
        dir_okay=False,
        help="Suite of Great Expectations, as a JSON file.",
    ),
]


def suite(contract: ContractFile, suite_file: SuiteFile = None) -> None:
    """Convert expectations to a suite of Great Expectations, or the reverse.

    Without --import, prints the expectations of the contract as a suite in JSON.
    With --import, prints the expectations of the suite as the contract's key
    `expectations` in YAML. Every column that they name must be in the contract;
    a field's name stands for the column that the contract derives from it.
    Parts of the suite that are not used are listed on standard error.
    `tidegate import SUITE` makes a contract of a suite alone.

    Examples:
      tidegate suite contract.yaml > suite.json
      tidegate suite contract.yaml --import suite.json >> contract.yaml

    Exit codes: 0 printed; 1 the contract or the suite is invalid; 2 a file is
    missing.
    """
    document = lint(contract).contract
    if suite_file is None:
        typer.echo(write_suite(document), nl=False)
        return
    try:
        content = suite_file.read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read {suite_file}: {error.strerror}") from None
    source = read_source(str(suite_file), content)
    known = {column.name for column in table_columns(document)}
    try:
        found = read_suite(content, {rule.id for rule in document.rules})
        left_out = tuple(unread_of_suite(source.value, found))
        found = tuple(with_derived_columns(each, known) for each in found)
        compile_plan(document.model_copy(update={"expectations": found}))
    except ContractError as error:
        raise ContractError(
            tuple(source.problem(each.pointer, each.message) for each in error.problems)
        ) from None
    show_left_out(left_out)
    typer.echo("expectations:")
    for each in found:  # JSON is YAML
        plain = orjson.loads(each.model_dump_json(by_alias=True, exclude_defaults=True))
        typer.echo(f"  - {orjson.dumps(plain).decode()}")
