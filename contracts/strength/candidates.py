"""Candidate rules that good records should satisfy and corrupted ones may break; the judge decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidegate.contracts.infer.proposal import slug
from tidegate.contracts.infer.shapes import Shapes, pattern_of
from tidegate.contracts.strength.good_values import GoodField
from tidegate.contracts.strength.mutations import DAYS_OF_SENTINELS, WORDS_OF_SENTINELS, number_sentinels

Rule = dict[str, Any]
_LATEST: Final = "2099-12-31"
_DECADE: Final = 10
_TRIMMED: Final = r"^(\S|\S[\s\S]*\S)?$"
_DECODED: Final = r"^[^\x{FFFD}ÃÂ]*$"
"""Texts without traces of a wrong decoder: the replacement character, and first bytes of UTF-8 read as Latin-1."""


def candidate_rules(
    fields: Sequence[GoodField], pairs: Iterable[tuple[GoodField, GoodField]], taken: Iterable[str]
) -> tuple[Rule, ...]:
    """Return candidate rules with ids that are not in `taken`, better ones before others that catch as much."""
    ids, found = set(taken), []
    for rule in (*_pair_rules(pairs), *(rule for each in fields for rule in _field_rules(each))):
        unique, number = rule["id"], 1
        while unique in ids:
            number += 1
            unique = f"{rule['id']}-{number}"
        ids.add(unique)
        found.append({**rule, "id": unique})
    return tuple(found)


def _pair_rules(pairs: Iterable[tuple[GoodField, GoodField]]) -> Iterator[Rule]:
    for first, second in pairs:
        name = f"{slug(first.path)[:30]}-not-after-{slug(second.path)[:30]}".rstrip("-")
        yield {"id": name, "kind": "ordered", "fields": [first.pointer, second.pointer]}


def _field_rules(field: GoodField) -> Iterator[Rule]:
    name, about = slug(field.path), {"field": field.pointer}
    known = {"id": f"{name}-is-known", "kind": "forbidden", **about}
    if field.numbers:
        if not field.is_classified:
            yield {"id": f"{name}-is-possible", "kind": "range", **about, **_number_bounds(field.numbers)}
        if sentinels := number_sentinels(field):
            yield known | {"values": list(sentinels)}
    if field.times is not None:
        if not field.is_classified:
            yield {"id": f"{name}-is-possible", "kind": "range", **about, **_day_bounds(field)}
        yield known | {"values": list(DAYS_OF_SENTINELS)}
    if field.texts:
        if field.times is None and not field.is_classified:
            yield from _text_rules(field, name)
        words = [word for word in WORDS_OF_SENTINELS if word not in field.distinct]
        if words:
            yield known | {"values": words}
        yield {"id": f"{name}-is-trimmed", "kind": "matches", **about, "pattern": _TRIMMED}
        yield {"id": f"{name}-is-decoded", "kind": "matches", **about, "pattern": _DECODED}
    if field.always_has_value:
        given = {"kind": "cel", **about, "expr": "value != null", "nulls": "violate"}
        yield {"id": f"{name}-is-given", **given}


def _text_rules(field: GoodField, name: str) -> Iterator[Rule]:
    if field.has_few_values:
        values = sorted(set(field.texts))
        yield {"id": f"{name}-is-listed", "kind": "one_of", "field": field.pointer, "values": values}
    pattern = _pattern(field.texts)
    if pattern is not None:
        yield {
            "id": f"{name}-is-well-formed",
            "kind": "matches",
            "field": field.pointer,
            "pattern": pattern,
        }


def _pattern(texts: list[str]) -> str | None:
    labels, counts = np.unique(np.array(texts, dtype=object), return_counts=True)
    shapes = Shapes()
    shapes.add(pa.array(labels, pa.string()), counts)
    return pattern_of(shapes.found)


def _number_bounds(numbers: list[int | float]) -> Rule:
    """Return round bounds with room for future numbers."""
    low, high = min(numbers), max(numbers)
    bounds: Rule = {"minimum": 0 if low >= 0 else -_round_above(-low)}
    bounds["maximum"] = _round_above(high) if high > 0 else 0
    return bounds


def _round_above(number: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, 50 and so on that is not below a positive number; also 0.5, 0.2."""
    power = 10.0 ** math.floor(math.log10(number))
    found = next((step * power for step in (1, 2, 5, 10) if step * power >= number), number)
    if not math.isfinite(found):  # no double is both round and large enough
        return number
    return int(found) if found >= 1 else found


def _day_bounds(field: GoodField) -> Rule:
    """Return bounds from the start of the decade before that of the first good day, to the end of 2099."""
    first = min(int(each[:4]) for each in field.texts)
    start = f"{max(1, first // _DECADE * _DECADE - _DECADE):04d}-01-01"
    if field.is_date:
        return {"not_before": start, "not_after": _LATEST}
    return {"not_before": f"{start}T00:00:00Z", "not_after": f"{_LATEST}T23:59:59Z"}
