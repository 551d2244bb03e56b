"""`tidegate diff`: the differences in meaning between two contracts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tidegate.contracts.document.load import LoadedContract, load_contract, read_source
from tidegate.contracts.errors import ContractError, SettingsError
from tidegate.contracts.lint.lint import foreign_message
from tidegate.contracts.words import counted, seen
from tidegate.gateway.checks.checking import compare_documents
from tidegate.gateway.checks.formats.json_report import diff_json
from tidegate.gateway.checks.formats.text import contract_lines
from tidegate.gateway.checks.git import Revision, load_contract_at
from tidegate.gateway.cli.check import GIT, Level
from tidegate.gateway.cli.options import DEFAULT_REGISTRY, OutputFormat, RegistryUrl
from tidegate.gateway.cli.terminal import out
from tidegate.gateway.client.registry import RegistryClient

_REGISTRY = "registry:"
_HELP = "A file, `registry:ID@VERSION` (or @latest), or `git:REF:PATH`."


Old = Annotated[str, typer.Argument(metavar="OLD", help=_HELP)]
New = Annotated[str, typer.Argument(metavar="NEW", help="The other version, in the same form.")]


def diff(
    old: Old,
    new: New,
    *,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    level: Level = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show the differences between two contracts and the affected consumers.

    The findings are those of `tidegate check`, for any two versions, but they do
    not fail the command. In git:REF:PATH, the path is relative to the top folder
    of the repository, or to the current folder if it begins with ./

    Examples:
      tidegate diff old.yaml new.yaml
      tidegate diff registry:admissions@1.2.0 registry:admissions@latest
      tidegate diff git:main:admissions.yaml admissions.yaml --format json

    Exit codes: 0 compared, with or without findings; 2 a document is missing or
    is not a contract; 3 the registry does not answer; 7 the credentials are
    rejected.
    """
    with ExitStack() as stack:
        base, candidate = (_load(name, registry, stack) for name in (old, new))
    try:
        found = compare_documents(base, candidate, level)
    except ContractError as error:
        raise _no_contract(error) from None
    if output_format == "json":
        typer.echo(diff_json(found), nl=False)
        return
    for line in contract_lines(found, several=False):
        out.print(line)
    if found.suggested_version is None:
        names = (seen(each.document.name) for each in (base, candidate))
        out.print(f"no difference between {' and '.join(names)}")
        return
    findings = f" · {counted(len(found.findings), 'finding')}"
    out.print(Text.assemble("suggested version ", (found.suggested_version, "bold"), findings))


def _load(name: str, registry: str, stack: ExitStack) -> LoadedContract:
    try:
        if name.startswith(_REGISTRY):
            return _from_registry(name.removeprefix(_REGISTRY), registry, stack)
        if name.startswith(GIT):
            return _from_git(name.removeprefix(GIT), stack)
        return _own(Path(name).read_bytes, name, lambda: load_contract(Path(name)))
    except ContractError as error:
        raise _no_contract(error) from None


def _no_contract(error: ContractError) -> SettingsError:
    more = f" (and {len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
    return SettingsError(f"only contracts that are right can be compared: {error.problems[0]}{more}")


def _from_registry(name: str, registry: str, stack: ExitStack) -> LoadedContract:
    contract_id, _, version = name.partition("@")
    if not contract_id or not version:
        raise SettingsError(
            f"`registry:{name}` names no version; write registry:ID@VERSION, such as "
            f"registry:{contract_id or 'hospital.admissions'}@latest"
        )
    return stack.enter_context(RegistryClient(registry)).fetch(contract_id, version)


def _from_git(name: str, stack: ExitStack) -> LoadedContract:
    ref, _, path = name.partition(":")
    if not ref or not path:
        raise SettingsError(f"`git:{name}` names no file; write git:REF:PATH, such as git:main:contract.yaml")
    revision = stack.enter_context(Revision(Path.cwd(), ref))
    key = revision.key(Path(path)) if path.startswith(("./", "../")) else path
    if key is None:
        raise SettingsError(f"{path} lies outside the repository {revision.root}")
    return _own(lambda: revision.read(key), f"git:{name}", lambda: load_contract_at(revision, key))


def _own(read: Callable[[], bytes], name: str, load: Callable[[], LoadedContract]) -> LoadedContract:
    """Return the contract that `load` returns. Raises SettingsError for a document of another format, ContractError."""
    try:
        return load()
    except ContractError:
        try:
            message = foreign_message(read_source(name, read()).value)
        except OSError:  # the error of `load` describes it
            message = None
        if message is None:
            raise
        raise SettingsError(f"{name}: {message}") from None
