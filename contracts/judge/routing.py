"""Route each record to the compatibility group of the schema that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.contracts.formats.framing import BARE, NO_ID, prefixed_ids
from tidegate.contracts.formats.writers import WriterSchemas

UNNAMED: Final = -1
"""Place of a record without a schema id, if the contract names no group for such records."""


@dataclass(frozen=True, slots=True)
class Router:
    """Finds the place of each record's group: its index in the groups of the plan.

    `place_of` maps schema ids to places; `unframed` is the place of records without an id. Records whose frame is
    damaged or names an unknown schema go to the `lead`, whose frames refuse them. So do tombstones without a header,
    which name no schema and have no value.
    """

    place_of: Mapping[int, int]
    lead: int
    unframed: int
    has_prefixes: bool
    has_headers: bool
    writers: WriterSchemas | None

    def places(self, values: pa.Array, headers: pa.Array | None) -> npt.NDArray[np.int64]:
        """Return the place of each record. The arguments are those of `EnforcementPlan.judge`."""
        if self.has_prefixes:
            ids = prefixed_ids(values)
        else:
            ids = np.where(np.asarray(values.is_null()), NO_ID, BARE)
        named, index = np.unique(ids, return_inverse=True)
        places = np.array([self._place(number) for number in named.tolist()], np.int64)[index]
        if self.has_headers and headers is not None:
            places = np.where(np.asarray(headers.is_null()), places, self._by_header(headers))
        return places

    def _place(self, number: int) -> int:
        return self.unframed if number == BARE else self.place_of.get(number, self.lead)

    def _by_header(self, headers: pa.Array) -> npt.NDArray[np.int64]:
        encoded = headers.dictionary_encode()
        found = [self._of_header(header) for header in encoded.dictionary.to_pylist()]
        places: npt.NDArray[np.int64] = np.array([*found, self.lead], np.int64)
        indices: npt.NDArray[np.int64] = np.asarray(encoded.indices.fill_null(-1), np.int64)
        return places[indices]

    def _of_header(self, header: bytes) -> int:
        writer = None if self.writers is None else self.writers.by_header.get(header)
        return self.lead if writer is None else self.place_of.get(writer.id, self.lead)
