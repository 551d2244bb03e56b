"""Propose rules about the dates and timestamps of one field: days that stand for "unknown" or "never"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tidegate.contracts.document.fields import join
from tidegate.contracts.infer.number_rules import Sentinel
from tidegate.contracts.infer.profile import FieldProfile
from tidegate.contracts.infer.proposal import Proposal, RuleList, slug
from tidegate.contracts.infer.text_formats import TextFormat
from tidegate.contracts.infer.values import DAY_SENTINELS, DayProfile, Seen

_MONTH: Final = 31
_DECADE: Final = 3_653


def day_rules(
    field: FieldProfile, rules: RuleList, *, day_format: TextFormat | None, is_personal: bool
) -> None:
    """Add rules about the days of a field to `rules`; it has dates, or timestamps with or without a zone."""
    profile = field.days if field.days.count else field.texts.days
    # The rules of a personal field contain only well-known days.
    sentinels = [each for each in day_sentinels(profile) if not is_personal or each.value in DAY_SENTINELS]
    if not sentinels:
        return
    days = [str(np.datetime64(int(each.value), "D")) for each in sentinels]
    names = " and ".join(days)
    proposal = Proposal(
        "",
        field.path,
        f"{names}: apart from all other days of the field, or far more frequent than the days around",
        support=profile.count,
        exceptions=sum(each.seen.count for each in sentinels),
        first=tuple(sorted(each.seen.first for each in sentinels)[:5]),
    )
    verb = "stands" if len(days) == 1 else "stand"
    description = {"description": f"{names} {verb} for an unknown date."}
    if day_format is TextFormat.DATE:
        rule: dict[str, Any] = {"kind": "forbidden", "field": join(field.path), "values": days}
        rules.add(f"{slug(field.path)}-is-known", {**rule, **description}, proposal)
        return
    bounds = _bounds(profile, sentinels, "" if day_format is TextFormat.LOCAL_DATE_TIME else "Z")
    if bounds:
        rules.add(
            f"{slug(field.path)}-is-known",
            {"kind": "range", "field": join(field.path), **bounds, **description},
            proposal,
        )


def _bounds(profile: DayProfile, sentinels: list[Sentinel], zone: str) -> dict[str, str]:
    """Return the bounds of a range of timestamps that excludes the sentinels at both ends."""
    found = {each.value for each in sentinels}
    ascending, descending = profile.counts.edges()
    bounds = {}
    low = next((day for day, _ in ascending if day not in found), None)
    high = next((day for day, _ in descending if day not in found), None)
    below = [day for day in found if low is not None and day < low]
    above = [day for day in found if high is not None and day > high]
    if below:
        bounds["not_before"] = f"{np.datetime64(int(max(below)) + 1, 'D')}T00:00:00{zone}"
    if above:
        bounds["before"] = f"{np.datetime64(int(min(above)), 'D')}T00:00:00{zone}"
    return bounds


def day_sentinels(profile: DayProfile) -> list[Sentinel]:
    """Return the days that stand for "unknown", in ascending order."""
    ascending, descending = profile.counts.edges()
    if len(ascending) < 4:
        return []
    high = list(_strip(descending, ascending[0][0]))
    low = list(_strip(ascending, descending[len(high)][0]))
    found = {each.value: each for each in (*low, *high)}
    if profile.counts.is_complete:
        for each in _spikes(profile.counts.values):
            found.setdefault(each.value, each)
    return sorted(found.values(), key=lambda each: each.value)


def _strip(edge: list[tuple[int, Seen]], other_end: int) -> Iterator[Sentinel]:
    """Yield the sentinels at one end, outermost first."""
    for index in range(min(4, len(edge) - 3)):
        day, seen = edge[index]
        following = edge[index + 1][0]
        span = abs(other_end - following)
        usual = float(np.median([each.count for _, each in edge[index + 1 : index + 8]]))
        gap = abs(day - following)
        if day in DAY_SENTINELS:
            is_found = gap > max(_MONTH, 0.1 * span) or seen.count >= max(5, 10 * usual)
        else:
            is_found = gap > max(_DECADE, 2 * span) and seen.count >= max(3, 3 * usual)
        if not is_found:
            return
        yield Sentinel(day, seen)


def _spikes(values: dict[int, Seen]) -> Iterator[Sentinel]:
    """Yield known sentinels that are far more frequent than the days around them."""
    ordered = sorted(values)
    for day in DAY_SENTINELS & values.keys():
        at = int(np.searchsorted(ordered, day))
        around = [values[each].count for each in (*ordered[max(0, at - 5) : at], *ordered[at + 1 : at + 6])]
        if len(around) >= 6 and values[day].count >= max(10, 20 * max(around)):
            yield Sentinel(day, values[day])
