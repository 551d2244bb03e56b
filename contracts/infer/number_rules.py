"""Propose rules about the numbers of one field: sentinels, and the range of all other numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tidegate.contracts.document.fields import join
from tidegate.contracts.infer.columns import ValueKind
from tidegate.contracts.infer.profile import FieldProfile
from tidegate.contracts.infer.proposal import Proposal, RuleList, label, slug, words_of
from tidegate.contracts.infer.values import NUMBER_SENTINELS, NumberProfile, Seen

_ENOUGH: Final = 1_000
"""Minimum number of values for which the largest one predicts future values."""
_NATURAL: Final[tuple[tuple[frozenset[str], float, float], ...]] = (
    (frozenset({"lat", "latitude"}), -90, 90),
    (frozenset({"lon", "lng", "longitude"}), -180, 180),
    (frozenset({"month"}), 1, 12),
    (frozenset({"day"}), 1, 31),
    (frozenset({"hour"}), 0, 23),
    (frozenset({"minute", "second"}), 0, 59),
    (frozenset({"percent", "percentage", "pct", "humid", "humidity"}), 0, 100),
    (frozenset({"age"}), 0, 130),
)
"""Last words of field names with a well-known range, which is proposed if all values are in it."""
# With these thresholds the rules find the sentinels that the demo plants, and refuse less than 0.1 % of the values of
# public data sets (tests/unit/contracts/infer/test_demo.py and test_data_sets.py).
_MOST_COMMON: Final = 0.2
"""Maximum share of a sentinel among the values; a more frequent value has a meaning of its own."""
_MOST_AT_AN_END: Final = 3
"""Maximum sentinels at one end of the values."""
_NEIGHBOURS: Final = 7
"""Values beside a candidate whose median count and distance are the usual ones."""
_STEPS_FROM_ZERO: Final = 5
"""A next value nearer to zero than this many usual steps continues it: the field counts from 0."""
_TIMES_ZERO: Final = 3
"""Minimum occurrences of a zero that stands for an unknown value."""
_FAR_FROM_ZERO: Final = 0.2
"""Minimum distance of the next value from such a zero, as a share of the median."""
_TIMES_KNOWN: Final = 2
"""Minimum occurrences of a well-known sentinel, unless it is very far from the others."""
_GAP_OF_KNOWN: Final = 0.3
"""Minimum distance of a well-known sentinel from the next value, as a share of the span of the others."""
_GAP_OF_SINGLE: Final = 2
"""The same for a well-known sentinel that occurs once."""
_TIMES_OTHER: Final = 5
"""Minimum occurrences of another value that stands out; also their minimum ratio to the usual count."""
_LEAST_INSIDE: Final = 50
"""Minimum absolute value of a sentinel inside the range: smaller ones such as 9 are common measurements."""
_TIMES_INSIDE: Final = 10
"""Minimum occurrences of a sentinel inside the range."""
_OVER_USUAL: Final = 20
"""Minimum ratio of these to the most frequent value beside it."""
_SHARE_OF_NEAR: Final = 0.8
"""Minimum share of these in the values near it, where the neighbours are not known one by one."""
_LONG_TAIL: Final = 3
"""Maximum ratio of the largest value to the 99th percentile; beyond it, the largest one predicts nothing."""
_ROOM: Final = 0.5
"""Room above the largest value, as a share of the span."""
_FEW: Final = 100
"""Fewer values make a proposal doubtful."""
_CLOCK_VALUES: Final = 100
"""Minimum different values of a field with times of day as HHMM."""
_CLOCK_PARTS: Final = 12
"""Minimum different hours, and minimum different minutes, of such a field."""
_CLOCK_LATEST: Final = 2200
"""Minimum of its largest value."""
_CLOCK_EXCEPTIONS: Final = 0.01
"""Maximum share of its values that are no time of day."""
_STEPS: Final = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Sentinel:
    """A value that stands for "unknown", and its occurrences."""

    value: Any
    seen: Seen


def number_rules(field: FieldProfile, rules: RuleList, *, is_personal: bool) -> None:
    """Add rules about the numbers of a field to `rules`; for a personal one, with well-known sentinels only."""
    profile = field.numbers
    if not profile.count:
        return
    sentinels, low, high = number_sentinels(profile)
    if is_personal:
        sentinels = [each for each in sentinels if float(each.value) in NUMBER_SENTINELS]
    if sentinels:
        _forbid(field, sentinels, rules)
    if low is not None and high is not None and not _is_identifier(field):
        _range(field, sentinels, low, high, rules)


def number_sentinels(profile: NumberProfile) -> tuple[list[Sentinel], float | None, float | None]:
    """Return the sentinels, and the smallest and largest of the other numbers; None without others."""
    ascending, descending = profile.counts.edges()
    if len(ascending) < 4:
        return [], ascending[0][0] if ascending else None, descending[0][0] if ascending else None
    high_found = list(_strip(descending, ascending[0][0], profile))
    low_found = list(_strip(ascending, descending[len(high_found)][0], profile))
    found = {each.value: each for each in (*low_found, *high_found)}
    for each in _spikes(profile):
        found.setdefault(each.value, each)
    low = next((value for value, _ in ascending if value not in found), None)
    high = next((value for value, _ in descending if value not in found), None)
    return sorted(found.values(), key=lambda each: each.value), low, high


def _strip(edge: list[tuple[float, Seen]], other_end: float, profile: NumberProfile) -> Iterator[Sentinel]:
    """Yield the sentinels at one end of the values, outermost first."""
    sample = profile.sampled()
    median = float(np.median(np.abs(sample)))
    for index in range(min(_MOST_AT_AN_END, len(edge) - 3)):
        value, seen = edge[index]
        following = edge[index + 1][0]
        beside = edge[index + 1 : index + 1 + _NEIGHBOURS]
        usual = float(np.median([each.count for _, each in beside]))
        steps = np.diff([each for each, _ in beside])
        if value == 0 and abs(following) < _STEPS_FROM_ZERO * float(np.median(np.abs(steps))):
            return  # a count that begins at 0, 1, 2
        if seen.count > _MOST_COMMON * profile.count:
            return
        if not _stands_out(value, seen, following, (abs(other_end - following), usual, median)):
            return
        yield Sentinel(value, seen)


def _stands_out(value: float, seen: Seen, following: float, others: tuple[float, float, float]) -> bool:
    """Return whether an outermost value is not a measurement.

    `following` is the next value; `others` are span, usual count and median of the other values.
    """
    span, usual, median = others
    gap = abs(value - following)
    is_known = float(value) in NUMBER_SENTINELS
    if value == 0:  # zero is not a measurement if all other values are far from it
        return seen.count >= _TIMES_ZERO and following > 0 and following >= _FAR_FROM_ZERO * median > 0
    if is_known and value < 0 <= following:
        return seen.count >= _TIMES_KNOWN
    if is_known and gap >= _GAP_OF_KNOWN * span:
        return seen.count >= _TIMES_KNOWN or gap >= _GAP_OF_SINGLE * span
    return gap >= span > 0 and seen.count >= max(_TIMES_OTHER, _TIMES_OTHER * usual)


def _spikes(profile: NumberProfile) -> Iterator[Sentinel]:
    """Yield known sentinels inside the range that are far more frequent than their neighbours."""
    values = sorted(profile.counts.values) if profile.counts.is_complete else []
    for value, seen in profile.sentinels.items():
        if abs(value) < _LEAST_INSIDE or seen.count < _TIMES_INSIDE:
            continue
        if values:
            at = int(np.searchsorted(values, value))
            around = [*values[max(0, at - 4) : at], *values[at + 1 : at + 5]]
            usual = [profile.counts.values[each].count for each in around]
            is_spike = len(usual) >= 4 and seen.count >= _OVER_USUAL * max(usual)
        else:
            is_spike = seen.count >= _SHARE_OF_NEAR * profile.near[value] and profile.near[value] > seen.count
        if is_spike:
            yield Sentinel(value, seen)


def _forbid(field: FieldProfile, sentinels: list[Sentinel], rules: RuleList) -> None:
    values = [plain_number(each.value) for each in sentinels]
    names = " and ".join(str(value) for value in values)
    verb = "stands" if len(values) == 1 else "stand"
    proposal = Proposal(
        "",  # RuleList.add sets the id
        field.path,
        f"{names}: apart from all other values of the field",
        support=field.numbers.count,
        exceptions=sum(each.seen.count for each in sentinels),
        first=tuple(sorted(each.seen.first for each in sentinels)[:5]),
    )
    rule = {
        "kind": "forbidden",
        "field": join(field.path),
        "values": values,
        "description": f"{names} {verb} for an unknown value.",
    }
    rules.add(f"{slug(field.path)}-is-known", rule, proposal)


def _range(field: FieldProfile, sentinels: list[Sentinel], low: float, high: float, rules: RuleList) -> None:
    if _clock_times(field, rules):
        return
    bounds, because, doubt = _bounds(field, low, high)
    if not bounds:
        return
    least, most = bounds.get("minimum", -math.inf), bounds.get("maximum", math.inf)
    outside = [each for each in sentinels if not least <= each.value <= most]
    proposal = Proposal(
        "",  # RuleList.add sets the id
        field.path,
        because,
        support=field.numbers.count,
        exceptions=sum(each.seen.count for each in outside),
        first=tuple(sorted(each.seen.first for each in outside)[:5]),
        doubt=doubt,
    )
    rule = {"kind": "range", "field": join(field.path), **bounds, "description": _sentence(field, bounds)}
    rules.add(f"{slug(field.path)}-is-plausible", rule, proposal)


def _sentence(field: FieldProfile, bounds: dict[str, Any]) -> str:
    name = label(field.path)
    if "maximum" not in bounds:
        return f"{name} must not be negative."
    return (
        f"{name} must be from {bounds['minimum']} to {bounds['maximum']}."
        if "minimum" in bounds
        else f"{name} must be at most {bounds['maximum']}."
    )


def _bounds(field: FieldProfile, low: float, high: float) -> tuple[dict[str, Any], str, str | None]:
    """Return the bounds of a range, why they are proposed, and a doubt about them (None without one)."""
    for names, least, most in _NATURAL:
        if words_of(field.path)[-1] in names and least <= low and high <= most:
            return (
                {"minimum": least, "maximum": most},
                "the range that the name stands for; all values lie in it",
                None,
            )
    bounds: dict[str, Any] = {}
    because = []
    if low >= 0:
        bounds["minimum"] = 0
        because.append("no value is negative")
    sample = field.numbers.sampled()
    if field.numbers.count < _ENOUGH or high <= 0:
        return bounds, "; ".join(because), None if field.numbers.count >= _FEW else "few values"
    usual = float(np.quantile(sample, 0.99))
    if high <= _LONG_TAIL * max(usual, 0) and field.numbers.counts.is_complete:
        bounds["maximum"] = nice_above(
            max(high, min(high + _ROOM * (high - max(low, 0)), sys.float_info.max))
        )
        because.append("the maximum leaves room above the largest value, by half of their span")
    return bounds, "; ".join(because), None


def _clock_times(field: FieldProfile, rules: RuleList) -> bool:
    """Propose a range if the field has times of day written as numbers HHMM; return whether it does."""
    counts = field.numbers.counts
    if not counts.is_complete or ValueKind.NUMBER in field.kinds or len(counts.values) < _CLOCK_VALUES:
        return False
    is_clock = {value: 0 <= value < 2400 and value % 100 < 60 for value in counts.values}
    others = [counts.values[value] for value, fits in is_clock.items() if not fits]
    exceptions = sum(seen.count for seen in others)
    hours = {value // 100 for value, fits in is_clock.items() if fits}
    if exceptions > _CLOCK_EXCEPTIONS * field.numbers.count or len(hours) < _CLOCK_PARTS:
        return False
    minutes = {value % 100 for value, fits in is_clock.items() if fits}
    if len(minutes) < _CLOCK_PARTS or max(counts.values) < _CLOCK_LATEST:
        return False
    beyond = [seen for value, seen in counts.values.items() if not 0 <= value <= 2359]
    proposal = Proposal(
        "",  # RuleList.add sets the id
        field.path,
        "times of day, written HHMM",
        support=field.numbers.count,
        exceptions=sum(seen.count for seen in beyond),
        first=tuple(sorted(seen.first for seen in beyond)[:5]),
    )
    rule = {
        "kind": "range",
        "field": join(field.path),
        "minimum": 0,
        "maximum": 2359,
        "description": f"{label(field.path)} is a time of day, from 0 to 2359.",
    }
    rules.add(f"{slug(field.path)}-is-a-clock-time", rule, proposal)
    return True


def _is_identifier(field: FieldProfile) -> bool:
    return words_of(field.path)[-1] in {"id", "key", "number", "no", "nr", "code"}


def plain_number(value: float) -> int | float:
    """Return a number without a fraction as an integer."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else value


def nice_above(value: float) -> int | float:
    """Return a round number at or above a positive value, such as 120 for 104.2; the value if there is none."""
    scale = 10.0 ** math.floor(math.log10(value))
    steps = (float(f"{step * scale:.12g}") for step in _STEPS)
    return plain_number(next((each for each in steps if value <= each < math.inf), value))
