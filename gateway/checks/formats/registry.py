"""The output formats of `tidegate check`, by the name that `--format` takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate.gateway.checks.formats.codequality import check_codequality
from tidegate.gateway.checks.formats.github import check_annotations, step_summary
from tidegate.gateway.checks.formats.json_report import check_json
from tidegate.gateway.checks.formats.junit import check_junit
from tidegate.gateway.checks.formats.sarif import check_sarif
from tidegate.gateway.checks.formats.text import check_text
from tidegate.gateway.checks.results import CheckReport


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """An output format. Paths in the result of `write` are relative to the repository's root, if there is one.

    `summary` returns the text to append to the file in GITHUB_STEP_SUMMARY.
    """

    write: Callable[[CheckReport, Path | None], str]
    summary: Callable[[CheckReport], str] | None = None


TEXT = "text"

FORMATS = {
    TEXT: OutputFormat(lambda report, _root: check_text(report)),
    "json": OutputFormat(lambda report, _root: check_json(report)),
    "sarif": OutputFormat(check_sarif),
    "junit": OutputFormat(lambda report, _root: check_junit(report)),
    "codequality": OutputFormat(check_codequality),
    "github": OutputFormat(check_annotations, summary=step_summary),
}
