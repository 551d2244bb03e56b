"""The history of a stream: records of files and tables, copied once and numbered from 0, as an additional partition.

The copy is written before its records are judged, and never changes. Its manifest lists the inputs and the written
files of each load; the offsets of a load continue those of the load before it. Ledger and outputs count the records
under a partition number that no topic has, and treat them like all others. Pure values; no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tidegate.contracts.errors import SettingsError, StreamStopped

HISTORY_PARTITION: Final = 2**31 - 1
"""The partition of a stream's history in ledgers and event pointers: the highest number, which no topic reaches."""

_VALUE = ConfigDict(frozen=True, extra="forbid")
_Count = Annotated[int, Field(ge=0)]


def of_topic(vector: Mapping[int, int]) -> dict[int, int]:
    """Return offsets by partition without the partition of the history, which the topic does not have."""
    return {partition: offset for partition, offset in vector.items() if partition != HISTORY_PARTITION}


class HistoryMark(BaseModel):
    """The newest load of the history that a run has claimed in the ledger, and the offset after its last record."""

    model_config = _VALUE

    load: str
    end: _Count


class HistoryInput(BaseModel):
    """A file or table as it was when it was copied.

    A file has its size in bytes, its time of change in nanoseconds since 1970 and the SHA-256 of its bytes. A table
    has the `version` that was read: the id of a snapshot (Iceberg), or the version of the log (Delta).
    """

    model_config = _VALUE

    name: str
    size: _Count = 0
    changed_ns: int = 0
    sha256: str = ""
    version: int | None = None

    def is_like(self, other: HistoryInput) -> bool:
        """Return whether the other input has the same size, time and version, so probably the same content."""
        return (self.size, self.changed_ns, self.version) == (other.size, other.changed_ns, other.version)


class HistoryPart(BaseModel):
    """One file of the copy: its path below the folder of copies, its records and its bytes."""

    model_config = _VALUE

    path: str
    records: Annotated[int, Field(ge=1)]
    size: Annotated[int, Field(ge=1)]


class HistoryLoad(BaseModel):
    """The copy that one run has made: the inputs that it read, and the files that it wrote."""

    model_config = _VALUE

    id: str
    at: datetime
    inputs: tuple[HistoryInput, ...]
    parts: tuple[HistoryPart, ...]

    @property
    def records(self) -> int:
        """Return the number of records."""
        return sum(part.records for part in self.parts)


class PlacedPart(NamedTuple):
    """A part with the offset of its first record."""

    part: HistoryPart
    first: int

    @property
    def end(self) -> int:
        """Return the offset after its last record."""
        return self.first + self.part.records


class HistoryManifest(BaseModel):
    """All loads of a stream's history, in order. `id` identifies the history, as a topic id identifies a topic."""

    model_config = _VALUE

    format: Literal[1] = 1
    id: str
    stream: str
    loads: tuple[HistoryLoad, ...] = ()

    @model_validator(mode="after")
    def _has_no_input_twice(self) -> Self:
        names = [(each.name, each.version) for load in self.loads for each in load.inputs]
        if len(set(names)) < len(names):
            raise ValueError("an input was loaded twice")
        return self

    @classmethod
    def parse(cls, text: str, place: str) -> Self:
        """Parse a manifest; `place` names it in the error. Raises StreamStopped if it is damaged."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise StreamStopped(
                f"{place} cannot be read as the manifest of a history: {first['msg']}. Restore the folder of copies"
            ) from None

    @property
    def end(self) -> int:
        """Return the offset after the last record."""
        return sum(load.records for load in self.loads)

    @property
    def marks(self) -> tuple[HistoryMark, ...]:
        """Return the mark of the history after each load, in order.

        A folder restored from an older backup lacks the newest mark, even if the same files are loaded again.
        """
        ends = accumulate(load.records for load in self.loads)
        return tuple(
            HistoryMark(load=f"{self.id}/{load.id}", end=end)
            for load, end in zip(self.loads, ends, strict=True)
        )

    def with_load(self, load: HistoryLoad) -> HistoryManifest:
        """Return the manifest with one more load."""
        return self.model_copy(update={"loads": (*self.loads, load)})

    def placed(self, start: int = 0, end: int | None = None) -> Iterator[PlacedPart]:
        """Yield the parts that hold offsets in [start, end)."""
        first = 0
        for load in self.loads:
            for part in load.parts:
                placed = PlacedPart(part, first)
                if placed.end > start and (end is None or first < end):
                    yield placed
                first = placed.end

    def unread(self, inputs: Sequence[HistoryInput]) -> tuple[HistoryInput, ...]:
        """Return the inputs whose name is in no load, in their order. `inputs` need no SHA-256.

        Raises SettingsError for an input that is named twice.
        """
        names = [each.name for each in inputs]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise SettingsError(f"{twice} is named twice")
        known = {each.name for load in self.loads for each in load.inputs}
        return tuple(each for each in inputs if each.name not in known)

    def touched(self, inputs: Iterable[HistoryInput]) -> tuple[tuple[HistoryInput, HistoryInput], ...]:
        """Return pairs (loaded, current) of inputs whose size, time or version changed since the last load."""
        known = {each.name: each for load in self.loads for each in load.inputs}
        return tuple(
            (known[each.name], each)
            for each in inputs
            if each.name in known and not each.is_like(known[each.name])
        )
