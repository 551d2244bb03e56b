"""Folders and repositories to check."""

from tests.unit.checks.workplace import git, here, write

__all__ = ["git", "here", "write"]
