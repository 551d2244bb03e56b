"""The folder with the copies of one stream: a manifest file for each version, and a folder for each load."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Final
from uuid import uuid4

from pyroaring import BitMap64

from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.stream.history import (
    HISTORY_PARTITION,
    HistoryLoad,
    HistoryManifest,
    HistoryMark,
    HistoryPart,
)
from tidegate.contracts.stream.positions import Positions
from tidegate.spark_jobs.settings import SinkSettings

_FOLDER: Final = "tidegate-history"
_MANIFEST: Final = "manifest-{:06}.json"
_LEFT_SECONDS: Final = 24 * 3600


class HistoryFolder:
    """The folder `<warehouse>/tidegate-history/<stream>`, which must be visible to the driver and all executors."""

    def __init__(self, settings: SinkSettings, stream: str) -> None:
        self.path: Path = settings.warehouse.absolute() / _FOLDER / stream
        self.stream = stream

    def read(self) -> HistoryManifest | None:
        """Return the newest manifest; None if there is none. Raises StreamStopped if it is damaged."""
        newest = max(self.path.glob("manifest-*.json"), default=None)
        return None if newest is None else HistoryManifest.parse(newest.read_text(), str(newest))

    def read_or_new(self) -> HistoryManifest:
        """Return the newest manifest, or a new one that is not written yet."""
        return self.read() or HistoryManifest(id=uuid4().hex, stream=self.stream)

    def new_load(self) -> Path:
        """Return a unique folder path for a new load; remove folders that crashed runs left more than a day ago."""
        self.path.mkdir(parents=True, exist_ok=True)
        manifest = self.read()
        loads = () if manifest is None else manifest.loads
        wanted = {each.id for each in loads}
        oldest = time.time() - _LEFT_SECONDS  # another run may be writing a younger one
        for found in self.path.glob("load-*"):
            if found.name not in wanted and found.stat().st_mtime < oldest:
                shutil.rmtree(found, ignore_errors=True)
        return self.path / f"load-{len(loads):06}-{uuid4().hex[:8]}"

    def add(self, before: HistoryManifest, load: HistoryLoad) -> HistoryManifest:
        """Write the manifest with one more load. Raises Unavailable if another run has added one since `before`."""
        added = before.with_load(load)
        path = self.path / _MANIFEST.format(len(added.loads))
        scratch = path.with_name(f".{load.id}.json")
        scratch.write_text(added.model_dump_json())
        try:
            path.hardlink_to(scratch)  # atomic, and fails if the file exists
        except FileExistsError:
            raise Unavailable(f"another run has loaded the history of {self.stream} meanwhile") from None
        finally:
            scratch.unlink()
        for old in sorted(self.path.glob("manifest-*.json"))[:-2]:
            old.unlink(missing_ok=True)
        return added

    def held(self, mark: HistoryMark | None, end: int) -> tuple[int, Positions]:
        """Return the first offset from which the copy has all records before `end`, and their source positions.

        The offset is `end` if the folder holds a different history than this mark's, or none.
        """
        manifest = self.read()
        begin, offsets = end, BitMap64()
        if manifest is not None and mark in manifest.marks:
            for placed in reversed([*manifest.placed(0, end)]):
                if not self._has(placed.part):
                    break
                begin = placed.first
                offsets.add_range(begin, min(placed.end, end))
        return begin, Positions.of({HISTORY_PARTITION: offsets})

    def has_copies(self) -> bool:
        """Return whether any folder of a load exists, finished or not."""
        return next(self.path.glob("load-*"), None) is not None

    def _has(self, part: HistoryPart) -> bool:
        path = self.path / part.path
        return path.is_file() and path.stat().st_size == part.size

    def require_whole(self, manifest: HistoryManifest, start: int) -> None:
        """Raise StreamStopped unless the parts with offsets from `start` on exist with their sizes."""
        for placed in manifest.placed(start):
            path = self.path / placed.part.path
            if not self._has(placed.part):
                state = "has another size" if path.is_file() else "is missing"
                raise StreamStopped(
                    f"{path} {state}: it holds records of the history of {self.stream} that are not judged yet. Restore it; "
                    f"or delete {self.path}, and begin again with an empty output: tidegate archive {self.stream}"
                )
