"""The verdicts of an array of records, as they are collected and as Arrow takes them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contracts.verdict import Disposition

VERDICT_TYPE = pa.struct(
    [pa.field("disposition", pa.int8(), nullable=False), pa.field("failed", pa.binary())]
)
"""`failed` is a bit set, least significant bit of the first byte first, over `contracts.plan.EnforcementPlan.slots`; null for none."""


def packed(verdicts: pa.StructArray) -> pa.Array:
    """Give verdicts as one array of binary, null where nothing failed: what most records cross to the JVM with is nothing.

    The first byte is the disposition, `failed` comes after it.
    """
    disposition = verdicts.field("disposition").view(pa.binary(1)).cast(pa.binary())
    return pc.binary_join_element_wise(disposition, verdicts.field("failed"), pa.scalar(b"", pa.binary()))


class Verdicts:
    """The verdicts of one array of records, most of which are accepted and cost nothing here."""

    def __init__(self, length: int, dispositions: tuple[Disposition, ...]) -> None:
        self._of_slot = dispositions
        self._dispositions = bytearray(length)
        self._failed: dict[int, int] = {}
        self._of_bits: dict[int, Disposition] = {}

    def __len__(self) -> int:
        return len(self._dispositions)

    def add(self, index: int, bits: int, least: Disposition = Disposition.ACCEPTED) -> Disposition:
        """Add failed slots to the verdict of a record, whose disposition is `least` at least; gives it as it is then."""
        bits |= self._failed.get(index, 0)
        self._failed[index] = bits
        disposition = self._of_bits.get(bits)
        if disposition is None:  # records break the same few rules again and again
            disposition = max(each for slot, each in enumerate(self._of_slot) if bits >> slot & 1)
            self._of_bits[bits] = disposition
        if disposition < least or disposition < self._dispositions[index]:
            disposition = max(least, Disposition(self._dispositions[index]))
        self._dispositions[index] = disposition
        return disposition

    def is_written(self, index: int) -> bool:
        """Whether a record is not kept from the sink."""
        return self._dispositions[index] <= int(Disposition.ALERTED)

    def not_written(self) -> pa.Array:
        """Say of each record whether it is kept from the sink."""
        return pa.array(np.frombuffer(self._dispositions, np.int8) > int(Disposition.ALERTED))

    def array(self) -> pa.StructArray:
        """Give VERDICT_TYPE."""
        failed = pa.nulls(len(self), pa.binary())
        if self._failed:  # few are: not a list with all the others in it
            bits = (each.to_bytes((each.bit_length() + 7) // 8, "little") for each in self._failed.values())
            places = np.full(len(self), len(self._failed))
            places[list(self._failed)] = np.arange(len(self._failed))
            failed = pa.array([*bits, None], pa.binary()).take(pa.array(places))
        return pa.StructArray.from_arrays(
            [pa.array(np.frombuffer(self._dispositions, np.int8)), failed], fields=list(VERDICT_TYPE)
        )
