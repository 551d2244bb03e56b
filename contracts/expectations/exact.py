"""Sums without rounding: whatever order the parts of a batch are added in, the total is the same.

A double is an integer times a power of two, so that sums of doubles are exact when those of one power are added as
integers. numpy does that for a whole array: `bincount` adds doubles, and is exact while its sums stay below 2^53, for
which numbers are cut into limbs.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_MANTISSA_BITS: Final = 53
_LIMB_BITS: Final = 18
_LIMBS: Final = 3
_CHUNK: Final = 1 << 16
_INT64: Final = 2**63

Number = int | Fraction | float
"""An exact number; a float only for infinity and NaN."""


def add(left: Number, right: Number) -> Number:
    """Add two sums; a NaN or an infinity stays one."""
    if isinstance(left, float) or isinstance(right, float):
        special = [each for each in (left, right) if isinstance(each, float)]
        return sum(special, 0.0)
    return left + right


def total(values: pa.Array, *, squared: bool = False) -> Number:
    """Add the values of an array without nulls, or their squares; of integers, decimals or doubles."""
    if not len(values):
        return 0
    if pa.types.is_floating(values.type):
        return _of_doubles(np.asarray(values.cast(pa.float64())), squared=squared)
    if pa.types.is_decimal(values.type):
        unscaled, scale = _unscaled(values), 10**values.type.scale
        return Fraction(_of_integers(unscaled, squared=squared), scale**2 if squared else scale)
    return _of_integers(np.asarray(values), squared=squared)


def _of_integers(values: Any, *, squared: bool) -> int:
    if values.dtype != object:
        largest = max(abs(int(values.min())), abs(int(values.max())))
        if (largest * largest if squared else largest) * len(values) < _INT64:
            values = values.astype(np.int64)
            return int(values @ values) if squared else int(values.sum())
    numbers: list[int] = values.tolist()
    return sum(each * each for each in numbers) if squared else sum(numbers)


def _unscaled(values: pa.Array) -> Any:
    """Return the integers that decimals are kept as: in 64 bits each where all of them fit."""
    words = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
    words = words[values.offset : values.offset + len(values)]
    low, high = words[:, 0], words[:, 1]
    if (high == low >> 63).all():
        return low
    return (high.astype(object) << 64) + low.view(np.uint64).astype(object)


def _of_doubles(values: Any, *, squared: bool) -> Number:
    finite = np.isfinite(values)
    if not finite.all():
        special = values[~finite]
        with np.errstate(invalid="ignore"):  # infinity minus infinity is what it should be: NaN
            return float((special * special if squared else special).sum())
    add_chunk = _squares if squared else _doubles
    return sum(
        (add_chunk(values[start : start + _CHUNK]) for start in range(0, len(values), _CHUNK)), Fraction(0)
    )


def _doubles(values: Any) -> Fraction:
    limbs, exponents = _limbs(values)
    return _scaled(((limb, _LIMB_BITS * place) for place, limb in enumerate(limbs)), exponents, 1)


def _squares(values: Any) -> Fraction:
    limbs, exponents = _limbs(values)
    products = (
        (limbs[i] * limbs[j] * (1 if i == j else 2), _LIMB_BITS * (i + j))
        for i in range(_LIMBS)
        for j in range(i, _LIMBS)
    )
    return _scaled(products, exponents, 2)


def _limbs(values: Any) -> tuple[list[Any], Any]:
    """Cut doubles into integers below 2^18 in absolute value, lowest first, and the power of two of the lowest."""
    mantissas, exponents = np.frexp(values)
    integers = np.ldexp(mantissas, _MANTISSA_BITS).astype(np.int64)
    signs, rest = np.sign(integers), np.abs(integers)
    limbs = []
    for _ in range(_LIMBS):
        limbs.append((signs * (rest & (1 << _LIMB_BITS) - 1)).astype(np.float64))
        rest >>= _LIMB_BITS
    return limbs, exponents.astype(np.int64) - _MANTISSA_BITS


def _scaled(parts: Any, exponents: Any, power: int) -> Fraction:
    lowest = int(exponents.min())
    found = 0
    for part, shift in parts:
        sums = np.bincount(exponents - lowest, weights=part)
        found += sum(int(each) << shift + power * at for at, each in enumerate(sums) if each)
    return Fraction(found) * Fraction(2) ** (power * lowest)


def highest_and_lowest(values: pa.Array) -> tuple[Any, Any, bool] | None:
    """Return the lowest and the highest value of an array without nulls, and whether there is a NaN; None for no value.

    A NaN is above all numbers, as SQL has it; lowest and highest are then of the numbers, None without one.
    """
    if not len(values):
        return None
    has_nan = pa.types.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())
    if has_nan:
        values = values.filter(pc.invert(pc.is_nan(values)))
    found = pc.min_max(values)
    return found["min"].as_py(), found["max"].as_py(), has_nan
