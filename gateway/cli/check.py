"""`tidegate check`: breaking changes of contracts, before they are merged."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.contracts.document.model import Compatibility
from tidegate.contracts.errors import SettingsError
from tidegate.gateway.checks.baselines import Baseline, FolderBaseline, GitBaseline, RegistryBaseline
from tidegate.gateway.checks.checking import check as check_candidates
from tidegate.gateway.checks.discovery import Selection, read_candidate, select
from tidegate.gateway.checks.formats.registry import FORMATS, TEXT
from tidegate.gateway.checks.formats.text import report_lines
from tidegate.gateway.checks.git import Revision
from tidegate.gateway.checks.places import repository_root
from tidegate.gateway.checks.results import CheckReport, FailOn
from tidegate.gateway.cli.options import DEFAULT_REGISTRY, RegistryUrl
from tidegate.gateway.cli.terminal import out, show_foreign
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.exits import ExitCode

REGISTRY = "registry"
GIT = "git:"

if TYPE_CHECKING:
    Format = str
else:
    # Typer lists the members of an enumeration as choices; mypy does not support computed members.
    Format = StrEnum("Format", {name.upper(): name for name in FORMATS})
_FOR_PEOPLE = Format(TEXT)


def _or(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"


def complete_against(incomplete: str) -> list[str]:
    """Complete `--against`: the registry, and the branches and tags of the current repository."""
    try:
        ran = subprocess.run(
            ["git", "for-each-ref", "--format=%(refname:short)"], capture_output=True, text=True, check=False
        )
    except OSError:
        refs = []
    else:
        refs = ran.stdout.split()
    known = [REGISTRY, *(f"{GIT}{ref}" for ref in ("HEAD", *refs))]
    return [name for name in known if name.startswith(incomplete)]


Paths = Annotated[
    list[Path], typer.Argument(metavar="FILE_OR_FOLDER", help="Contract documents, or folders of them.")
]
Against = Annotated[
    str,
    typer.Option(
        metavar="WHAT",
        help="Compare with the `registry`, a commit as `git:REF`, or another file or folder.",
        autocompletion=complete_against,
    ),
]
Level = Annotated[
    Compatibility | None,
    typer.Option(
        metavar="LEVEL",
        case_sensitive=False,
        help="NONE, BACKWARD, FORWARD or FULL, optionally with _TRANSITIVE.",
        show_default="the contract's level",
    ),
]
ReportFormat = Annotated[
    Format, typer.Option("--format", metavar="FORMAT", help=f"Format of the report: {_or(FORMATS)}.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        dir_okay=False,
        metavar="FILE",
        help="File for the report; the text format goes to the terminal.",
    ),
]
Failing = Annotated[
    FailOn, typer.Option(metavar="SEVERITY", help=f"Lowest severity that fails the check: {_or(FailOn)}.")
]
AllowMajor = Annotated[
    bool, typer.Option("--allow-major", help="Allow breaking changes in new major versions.")
]


def check(  # noqa: PLR0913 - one parameter for each option
    paths: Paths,
    *,
    against: Against = REGISTRY,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    level: Level = None,
    report_format: ReportFormat = _FOR_PEOPLE,
    output: Output = None,
    fail_on: Failing = FailOn.BREAKING,
    allow_major: AllowMajor = False,
) -> None:
    """Check contract changes for breaking changes before they are merged.

    Compares each contract with the version before it: schema, rules, columns
    and all other parts. Each finding shows its place (file:line:column), a
    record that was accepted before and is refused now, and the affected
    consumers. In a folder, documents of other formats (the Open Data Contract
    Standard, the Data Contract Specification, dbt) are named and not checked.

    Examples:
      tidegate check admissions/contract.yaml --against registry
      tidegate check contracts/ --against git:origin/main
      tidegate check contracts/ --against git:HEAD~1 --format github
      tidegate check contracts/ --format sarif --output check.sarif
      tidegate check new.yaml --against old.yaml --level FULL

    Exit codes: 0 no finding as severe as --fail-on; 1 findings; 2 usage, such
    as an unknown commit or no contract; 3 the registry does not answer; 7 the
    credentials are rejected.
    """
    selection = _selected(paths, against)
    with ExitStack() as stack:
        baseline = open_baseline(against, registry, selection, stack)
        candidates = [read_candidate(file) for file in selection.files]
        contracts = check_candidates(candidates, baseline, level)
    report = CheckReport(against, contracts, fail_on, allow_major)
    if not contracts:
        raise SettingsError(f"there is no contract in {_listed(paths)}: nothing to check")
    _write(report, report_format, output)
    if report.failed:
        raise typer.Exit(ExitCode.FINDINGS)


def _selected(paths: list[Path], against: str) -> Selection:
    selection = select(paths)
    show_foreign(selection.foreign)
    is_git = against.startswith(GIT)
    if selection.missing and not is_git:
        raise SettingsError(f"{_listed(list(selection.missing))}: there is no such file or folder")
    if not selection.files and not is_git:
        raise SettingsError(
            f"there is no contract in {_listed(paths)}: nothing to check; a contract begins with "
            "`apiVersion: tidegate/v1`"
        )
    return selection


def open_baseline(against: str, registry: str, selection: Selection, stack: ExitStack) -> Baseline:
    """Return the source of earlier versions that `against` names. Raises SettingsError for an invalid one."""
    if against == REGISTRY:
        return RegistryBaseline(stack.enter_context(RegistryClient(registry)))
    if against.startswith(GIT):
        paths = (*selection.folders, *(file.path.parent for file in selection.files), *selection.missing)
        revision = Revision(existing_folder(paths[0]), against.removeprefix(GIT))
        return GitBaseline(stack.enter_context(revision), selection)
    return FolderBaseline(Path(against), selection)


def existing_folder(path: Path) -> Path:
    """Return the path if it is an existing folder, otherwise its nearest existing parent."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.is_dir())


def _write(report: CheckReport, report_format: str, output: Path | None) -> None:
    chosen = FORMATS[report_format]
    text = chosen.write(report, repository_root(Path.cwd()))
    if chosen.summary is not None and (page := os.environ.get("GITHUB_STEP_SUMMARY")):
        write_file(Path(page), chosen.summary(report), mode="a")
    if output is not None:
        write_file(output, text)
    if output is not None or chosen.summary is not None or report_format == TEXT:
        for line in report_lines(report):
            out.print(line)
    if output is None and report_format != TEXT:
        typer.echo(text, nl=False)


def write_file(path: Path, text: str, *, mode: str = "w") -> None:
    """Write a file in UTF-8. Raises SettingsError when it cannot be written."""
    try:
        with path.open(mode, encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise SettingsError(f"cannot write {path}: {error.strerror}") from None


def _listed(paths: list[Path]) -> str:
    return ", ".join(str(path) for path in paths)
