"""Paths of files in reports: safe to print, or relative to the root of the repository for code hosts."""

from __future__ import annotations

from pathlib import Path

from tidegate.contracts.words import seen


def repository_root(folder: Path) -> Path | None:
    """Return the top folder of the git working tree that holds `folder`; None outside of one."""
    folder = folder.resolve()
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def from_root(file: str, root: Path | None) -> str:
    """Return the path of a file relative to `root`; unchanged if it is not below `root`. The file need not exist."""
    if root is None:
        return file
    path = Path(file)
    absolute = path.parent.resolve() / path.name
    return absolute.relative_to(root).as_posix() if absolute.is_relative_to(root) else file


def shown_path(path: Path | str) -> str:
    """Return a path for reports. It never begins with `:`, as commands in the log for GitHub's runner do."""
    text = seen(str(path))
    return f"./{text}" if text.lstrip().startswith(":") else text
