"""A user's project with packages that have the names of this repository's folders."""

from __future__ import annotations

import os
from pathlib import Path

NAMES = ("contracts", "schemas", "gateway", "spark_jobs")
_PACKAGE = """\
from pathlib import Path

OWNER = "the user"
with (Path(__file__).parents[1] / "imported.txt").open("a") as noted:
    noted.write(__name__ + "\\n")
"""


def make_project(folder: Path) -> Path:
    """Write empty packages into a folder; each appends its name to `imported.txt` when it is imported."""
    for name in NAMES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(_PACKAGE)
    return folder


def imported(project: Path) -> set[str]:
    """Return the names of the project's packages that were imported."""
    noted = project / "imported.txt"
    return set(noted.read_text().split()) if noted.exists() else set()


def environment(project: Path) -> dict[str, str]:
    """Return the environment of a process that finds the project's packages first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "PYTHON"))}
    return kept | {"PYTHONPATH": str(project)}
