"""The rows of a table, collected while records are judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from tidegate.contracts.columns.typed import TypedColumn

NOTHING: Final[dict[str, Any]] = {}
"""A record without any value."""
_BLOCK_RECORDS: Final = 1_000

Suspect = tuple[int, Any, int | None]
"""A record that is not known to be good: its index, the record or its Violation, and None.

If the record is known to break only rules, the index, None, and the bit set of these rules.
"""


class JudgedRows(Protocol):
    """Judges the records of a batch, and collects the rows of those that are kept."""

    def suspects(self) -> Iterator[Suspect]:
        """Add the records that are known to be good, and yield all others; those not kept get a row of nulls."""
        ...

    def keep(self, index: int, record: Any) -> None:
        """Build the row of a suspect from its record; call it before the next suspect is requested."""
        ...

    def finish(self) -> tuple[list[pa.Array], list[int]]:
        """Return the columns of all records, and the positions of those that some column cannot hold (null there)."""
        ...


class TableRows:
    """Collects records, and converts them to columns block by block.

    With blocks, few records are alive at a time. Keeping a whole batch of them costs more, in memory and garbage
    collection, than all other work here.
    """

    def __init__(self, columns: Sequence[TypedColumn], judged: Iterable[tuple[int, Any, bool]] = ()) -> None:
        """Initialise from columns and records with their index and whether they are known to be valid."""
        self._judged = judged
        self._kept: Any = NOTHING
        self._added = 0
        self._columns = columns
        self._block: list[Any] = []
        self._chunks: list[list[pa.Array]] = [[] for _ in columns]
        self._refused: list[int] = []

    def suspects(self) -> Iterator[Suspect]:
        """Add the records that are good, and yield the others; those that are not kept get a row of nulls."""
        for index, record, is_good in self._judged:
            self._kept = record if is_good else NOTHING
            if not is_good:
                yield index, record, None
            self.add(self._kept)

    def keep(self, index: int, record: Any) -> None:  # noqa: ARG002 - it is the index of the last suspect
        """Build the row of the last suspect from its record."""
        self._kept = record

    def add(self, record: Any) -> None:
        """Add the next record of the batch."""
        self._block.append(record)
        if len(self._block) == _BLOCK_RECORDS:
            self._convert()

    def finish(self) -> tuple[list[pa.Array], list[int]]:
        """Return the columns of all added records, and the positions of values that do not fit (null there)."""
        self._convert()
        return [pa.concat_arrays(chunks) for chunks in self._chunks], self._refused

    def _convert(self) -> None:
        for column, chunks in zip(self._columns, self._chunks, strict=True):
            array, refused = column.convert(self._block)
            self._refused += (self._added + position for position in refused)
            chunks.append(array)
        self._added += len(self._block)
        self._block = []
