"""`tidegate lint`: check that documents are valid contracts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import ContractError, SettingsError
from tidegate.contracts.expectations.vocabulary import VOCABULARY
from tidegate.contracts.lint.lint import lint as lint_document
from tidegate.contracts.words import counted, seen
from tidegate.gateway.checks.discovery import affected_contracts, select
from tidegate.gateway.cli.terminal import err, out, show_error, show_foreign, show_warnings
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.registry.schemas.imported_rules import ImportedRules, carried_rules

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        exists=True,
        help="Contract documents, YAML or JSON; or folders, with all contracts below them.",
    ),
]

Strict = Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")]
Changed = Annotated[
    bool,
    typer.Option(
        "--changed",
        help="The files are changed files of any kind: lint the contracts among them, and the contracts whose schema is among them.",
    ),
]


def lint(files: Files, *, strict: Strict = False, changed: Changed = False) -> None:
    """Check that contract documents are valid.

    Reports all mistakes at once, as file:line:column: unknown keys, rules on
    fields that the schema does not declare, unsuitable types, invalid patterns
    and expressions. The schema is checked too. Undeclared names, such as fields
    of open objects, keywords and formats, are warnings.

    Examples:
      tidegate lint contracts/*.yaml
      tidegate lint .
      tidegate lint --strict contract.yaml
      git diff --name-only --diff-filter=d | xargs tidegate lint --changed

    Exit codes: 0 no problems; 1 problems, or warnings with --strict; 2 a file
    is missing, or a folder has no contract.
    """
    problems = warnings = 0
    files = affected_contracts(files) if changed else _documents(files)
    for file in files:
        try:
            loaded = lint_document(file)
        except ContractError as error:
            show_error(error)
            problems += len(error.problems)
            continue
        show_warnings(loaded)
        warnings += len(loaded.warnings)
        contract = loaded.contract
        rules = counted(len(contract.rules), "rule")
        more = f" · {counted(len(contract.expectations), 'expectation')}" if contract.expectations else ""
        carried = carried_rules(contract)
        number = len(carried.rules) + len(carried.left_out)
        more += f" · {counted(number, 'rule')} of the schema not judged" if number else ""
        found = f" · {contract.id} {contract.version} · {rules}{more}"
        out.print(Text.assemble(f"{seen(str(file))}: ", ("ok", "green"), found))
        for note in _notes(contract, carried):
            out.print(Text.assemble("  ", ("note", "yellow"), f": {seen(note)}"))
    where = f" in {counted(len(files), 'file')}"
    if problems:
        err.print(Text.assemble((counted(problems, "problem"), "bold red"), where))
    if warnings:
        err.print(Text.assemble((counted(warnings, "warning"), "bold yellow"), where))
    if problems or (strict and warnings):
        raise typer.Exit(ExitCode.FINDINGS)


def _documents(arguments: list[Path]) -> list[Path]:
    """Return the documents that the arguments name. Raises SettingsError if there are none."""
    selection = select(arguments)
    show_foreign(selection.foreign)
    if not selection.files:
        folders = ", ".join(map(str, selection.folders))
        raise SettingsError(
            f"there is no contract in {folders}: a contract begins with `apiVersion: tidegate/v1`; `tidegate infer SOURCE` "
            "proposes one from records"
        )
    return [each.path for each in selection.files]


def _notes(contract: DataContract, carried: ImportedRules) -> Iterator[str]:
    """Yield remarks on a valid contract."""
    for each in contract.expectations:
        if not VOCABULARY[each.type].is_exact:
            yield f"Great Expectations judges {each.id}, which costs time in every batch"
    for rule in carried.rules:
        written = json.dumps(rule.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)
        yield (
            f"the schema carries a rule for clients at {rule.field or 'its root'}, which is judged only if the contract has it: "
            f"{written}"
        )
    for reason in carried.left_out:
        yield f"of the rules that the schema carries for clients, one {reason}"
