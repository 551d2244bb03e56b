"""Names of files as reports show them: nothing in them acts on a terminal, a log or the runner that reads it."""

from __future__ import annotations

from pathlib import Path

from tidegate.contracts.words import seen


def shown_path(path: Path | str) -> str:
    """Return a path as reports show it. None begins like a command of GitHub's runner, which reads the log."""
    text = seen(str(path))
    return f"./{text}" if text.lstrip().startswith(":") else text
