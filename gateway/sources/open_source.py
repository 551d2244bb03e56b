"""Open a source of records by the name that a person gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.sources.files import FileFormat, FileSource
from tidegate.gateway.sources.source import Source


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a source; those that do not concern it are ignored."""

    format: FileFormat | None = None
    nulls: Sequence[str] = ()


def open_source(name: str, options: SourceOptions) -> Source:
    """Open a file, topic or table. Raises SettingsError for one that does not exist or cannot be read."""
    path = Path(name)
    if name != "-" and not path.exists():
        raise SettingsError(f"there is no file {name}")
    return FileSource(path, options.format, options.nulls)
