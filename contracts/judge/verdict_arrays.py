"""The verdicts of an array of records: a collector, and the Arrow type of the result."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.contracts.verdict import Disposition

# The job's workers do not send this struct to Java: it cost Spark 0.15 of 3 µs a record, and 99 of 100 records fail no slot. Only
# counts and failed records are sent (spark_jobs/worker/result_kinds.py).
VERDICT_TYPE = pa.struct(
    [pa.field("disposition", pa.int8(), nullable=False), pa.field("failed", pa.binary())]
)
"""Arrow type of a verdict.

`failed` is a bit set over `tidegate.contracts.judge.plan.EnforcementPlan.slots`, beginning with the least significant bit
of the first byte; null if the record failed no slot.
"""


class Verdicts:
    """The verdicts of one array of records; accepted records take no space."""

    def __init__(self, length: int, dispositions: tuple[Disposition, ...]) -> None:
        self._of_slot = dispositions
        self._dispositions = bytearray(length)
        self._failed: dict[int, int] = {}
        self._of_bits: dict[int, Disposition] = {}

    def __len__(self) -> int:
        return len(self._dispositions)

    def add(self, index: int, bits: int, least: Disposition = Disposition.ACCEPTED) -> Disposition:
        """Add failed slots to the verdict of a record; return its new disposition, which is at least `least`."""
        bits |= self._failed.get(index, 0)
        self._failed[index] = bits
        disposition = self._of_bits.get(bits)
        if disposition is None:  # cached, because most records break the same few rules
            disposition = max(each for slot, each in enumerate(self._of_slot) if bits >> slot & 1)
            self._of_bits[bits] = disposition
        if disposition < least or disposition < self._dispositions[index]:
            disposition = max(least, Disposition(self._dispositions[index]))
        self._dispositions[index] = disposition
        return disposition

    def is_written(self, index: int) -> bool:
        """Return whether a record is written to the sink."""
        return self._dispositions[index] <= int(Disposition.ALERTED)

    def not_written(self) -> pa.Array:
        """Return for each record whether it is not written to the sink."""
        return pa.array(np.frombuffer(self._dispositions, np.int8) > int(Disposition.ALERTED))

    def array(self) -> pa.StructArray:
        """Return the verdicts as an array of VERDICT_TYPE."""
        places = sorted(self._failed)
        failed = (self._failed[place] for place in places)
        values = [bits.to_bytes((bits.bit_length() + 7) // 8, "little") for bits in failed]
        columns = [
            pa.array(np.frombuffer(self._dispositions, np.int8)),
            _scattered(len(self), np.array(places), values),
        ]
        return pa.StructArray.from_arrays(columns, fields=list(VERDICT_TYPE))


def _scattered(length: int, places: npt.NDArray[np.int64], values: list[bytes]) -> pa.Array:
    """Return an array of binary with `values` at ascending `places`, else nulls; builds no list of nulls."""
    if not values:
        return pa.nulls(length, pa.binary())
    lengths, is_there = np.zeros(length + 1, np.int32), np.zeros(length, np.bool_)
    lengths[places + 1] = list(map(len, values))
    is_there[places] = True
    validity = pa.py_buffer(np.packbits(is_there, bitorder="little"))
    offsets = pa.py_buffer(np.cumsum(lengths, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), length, [validity, offsets, pa.py_buffer(b"".join(values))])
