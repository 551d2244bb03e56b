"""Paths of files in reports: safe to print, or from the root of the repository as a code host knows them."""

from __future__ import annotations

from pathlib import Path

from tidegate.contracts.words import seen


def repository_root(folder: Path) -> Path | None:
    """Return the top folder of the git working tree that holds `folder`; None outside of one."""
    folder = folder.resolve()
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def from_root(file: str, root: Path | None) -> str:
    """Return the path of a file, which need not exist, from `root`; as it is when it does not lie below."""
    if root is None:
        return file
    path = Path(file)
    absolute = path.parent.resolve() / path.name
    return absolute.relative_to(root).as_posix() if absolute.is_relative_to(root) else file


def shown_path(path: Path | str) -> str:
    """Return a path as reports show it. It never begins like a command of GitHub's runner, which reads the log."""
    text = seen(str(path))
    return f"./{text}" if text.lstrip().startswith(":") else text
