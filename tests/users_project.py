"""A project of a user, with packages named as the folders of this repository are."""

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
    """Make the packages in a folder; each notes in `imported.txt` that it was imported. None has a module."""
    for name in NAMES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(_PACKAGE)
    return folder


def imported(project: Path) -> set[str]:
    """The packages of a project that were imported."""
    noted = project / "imported.txt"
    return set(noted.read_text().split()) if noted.exists() else set()


def environment(project: Path) -> dict[str, str]:
    """The environment of a process in which the project's packages come first on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "PYTHON"))}
    return kept | {"PYTHONPATH": str(project)}
