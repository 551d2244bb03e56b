"""Propose rules about the texts of one field: sentinels for "unknown", lists of values, patterns."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.infer.profile import FieldProfile
from tidegate.contracts.infer.proposal import Proposal, RuleList, label, slug
from tidegate.contracts.infer.shapes import TextShape, pattern_of
from tidegate.contracts.infer.values import Seen

MOST_LISTED: Final = 50
_LONGEST_LISTED: Final = 30
_PER_VALUE: Final = 50
"""Minimum average number of records per value for which a list is enforced."""
_LISTED_FROM: Final = 5
"""Minimum number of records with a listed value; a rarer value may be a mistake."""
_ENOUGH: Final = 200
_RARE: Final = 1e-3
_AMBIGUOUS: Final = frozenset(
    {"unknown", "unk", "none", "default", "test", "other", "not applicable", "void", "na", "nan", "xx", "."}
)
"""Sentinels that may also be real values."""


@dataclass(frozen=True, slots=True)
class _Local:
    """Dates or numbers as a spreadsheet writes them in one country: no type of JSON, so they stay texts."""

    shape: str
    """A regular expression of their shapes. One of the shapes has a `mark`."""
    mark: str
    pattern: str
    advice: str

    def is_of(self, shapes: Iterable[str]) -> bool:
        """Return whether all texts are written so."""
        is_marked = any(self.mark in each for each in shapes)
        return is_marked and all(re.fullmatch(self.shape, each) for each in shapes)


_AS_TEXT: Final = "as texts they have neither bounds nor order, so write them as"
_LOCAL: Final = (
    _Local(r"0{1,2}([./])0{1,2}\1(00|0000)", "", "", f"these are local dates: {_AS_TEXT} 2025-12-31"),
    _Local(
        r"-?0{1,3}(,000)*(\.0+)?",
        ",",
        r"^-?[0-9]{1,3}(,[0-9]{3})*(\.[0-9]+)?$",
        f"these are numbers with commas between thousands: {_AS_TEXT} 1234.56",
    ),
    # 1,234 is rather a thousand than a number with three decimals.
    _Local(
        r"-?(0{1,3}(\.000)*|0+),0+",
        ",",
        r"^-?([0-9]{1,3}(\.[0-9]{3})*|[0-9]+),[0-9]+$",
        f"these are numbers with a decimal comma: {_AS_TEXT} 1234.56",
    ),
)


def text_rules(field: FieldProfile, rules: RuleList, *, is_personal: bool) -> None:
    """Add rules about the texts of a field to `rules`. Values of personal fields are not written."""
    texts = field.texts
    unknown = {text: seen for text, seen in texts.sentinels.items() if seen.count < 0.9 * texts.count}
    if unknown:
        _forbid(field, unknown, rules)
    if texts.formats or not texts.count:
        return
    values = (
        {text: seen for text, seen in texts.counts.items() if text not in unknown}
        if texts.is_complete
        else {}
    )
    # Ambiguous sentinels are only questions to the author, so the list must not refuse them.
    asked = {
        text: seen for text, seen in unknown.items() if _is_ambiguous(text) and seen.count >= _LISTED_FROM
    }
    refused = {text: seen for text, seen in unknown.items() if text not in asked}
    if not is_personal and values and _list(field, {**values, **asked}, refused, rules):
        return
    _pattern(field, values, unknown, rules, is_personal=is_personal)


def _forbid(field: FieldProfile, unknown: dict[str, Seen], rules: RuleList) -> None:
    values = sorted(unknown)
    ambiguous = [text for text in values if _is_ambiguous(text)]
    # Ambiguous sentinels get a doubtful rule of their own, so that the rule for the others is enforced.
    for some, doubt in (
        ([text for text in values if text not in ambiguous], None),
        (ambiguous, "it may be a value of its own"),
    ):
        if not some:
            continue
        seen = [unknown[text] for text in some]
        names = " and ".join(repr(text) if text else "an empty text" for text in some[:4])
        proposal = Proposal(
            "",
            field.path,
            f"{names}: written for an unknown value",
            support=field.texts.count,
            exceptions=sum(each.count for each in seen),
            first=tuple(sorted(each.first for each in seen)[:5]),
            doubt=doubt,
        )
        rule = {
            "kind": "forbidden",
            "field": join(field.path),
            "values": some,
            "description": f"{names} {'stands' if len(some) == 1 else 'stand'} for an unknown value.",
        }
        rules.add(f"{slug(field.path)}-is-known", rule, proposal)


def _is_ambiguous(text: str) -> bool:
    return text.strip().lower() in _AMBIGUOUS


def _list(field: FieldProfile, values: dict[str, Seen], unknown: dict[str, Seen], rules: RuleList) -> bool:
    """Propose the list of values that the field may have, if they are few; return whether the rule is enforced."""
    if not 2 <= len(values) <= MOST_LISTED or any(len(text) > _LONGEST_LISTED for text in values):
        return False
    count = sum(seen.count for seen in values.values())
    variants = _variants(values)
    kept = {text: seen for text, seen in values.items() if text not in variants}
    once = sum(seen.count == 1 for seen in kept.values())
    doubt = None
    if count < _PER_VALUE * len(kept) or min(seen.count for seen in kept.values()) < _LISTED_FROM:
        # If some values occur only once or twice, others probably exist that have not occurred yet.
        doubt = f"{once} of its {len(kept)} values occur once" if once else "few records for each value"
        if count < 10 * len(kept):
            return False
    seen = [*(values[text] for text in variants), *unknown.values()]
    proposal = Proposal(
        "",
        field.path,
        f"{len(kept)} different values"
        + (f"; left out: {len(variants)} other spellings of them" if variants else ""),
        support=field.texts.count,
        exceptions=sum(each.count for each in seen),
        first=tuple(sorted(each.first for each in seen)[:5]),
        doubt=doubt,
    )
    rule = {
        "kind": "one_of",
        "field": join(field.path),
        "values": sorted(kept),
        "description": f"{label(field.path)} is one of the known values.",
    }
    rules.add(f"{slug(field.path)}-is-listed", rule, proposal)
    return doubt is None


def _variants(values: dict[str, Seen]) -> set[str]:
    """Return rare values that differ from a frequent one only by case or surrounding whitespace."""
    alike = defaultdict(list)
    for text in values:
        alike[text.strip().casefold()].append(text)
    found = set()
    for texts in alike.values():
        most = max(values[text].count for text in texts)
        found |= {text for text in texts if values[text].count < 0.02 * most}
    return found


def _pattern(
    field: FieldProfile,
    values: dict[str, Seen],
    unknown: dict[str, Seen],
    rules: RuleList,
    *,
    is_personal: bool,
) -> None:
    """Propose a pattern, and a first character that nearly all texts have."""
    shapes = dict(field.texts.shapes.found)
    for text in unknown:
        shapes.pop(_shape_of(text), None)
    if field.texts.shapes.is_free or not shapes or field.texts.count < _ENOUGH:
        return
    usual, rare = _usual(shapes)
    # Literal characters in a pattern would reveal the values of a personal field that has few of them.
    is_various = not field.texts.is_complete or len(field.texts.counts) > 100
    pattern = pattern_of(usual, literals=is_various or not is_personal)
    local = next((each for each in _LOCAL if each.is_of(usual)), None)
    if local is not None and local.pattern:
        pattern = local.pattern
    if pattern is None or not _says_something(pattern):
        return
    exceptions = sum(shape.count for shape in rare.values()) + sum(seen.count for seen in unknown.values())
    first = [seen.first for text, seen in values.items() if _shape_of(text) in rare]
    proposal = Proposal(
        "",
        field.path,
        (
            "all values are written alike"
            if len(usual) == 1
            else f"the values are written in {len(usual)} ways"
        )
        + ("" if local is None else f"; {local.advice}"),
        support=field.texts.count,
        exceptions=exceptions,
        first=tuple(sorted([*first, *(seen.first for seen in unknown.values())])[:5]),
        doubt="all records have the same value" if len(values) == 1 else None,
    )
    rule = {
        "kind": "matches",
        "field": join(field.path),
        "pattern": pattern,
        "description": f"{label(field.path)} is written in its usual form.",
    }
    rules.add(f"{slug(field.path)}-is-well-formed", rule, proposal)
    if not is_personal:
        _prefix(field, values, pattern, rules)


def _usual(shapes: dict[str, TextShape]) -> tuple[dict[str, TextShape], dict[str, TextShape]]:
    """Return the shapes of nearly all texts, and the rare shapes with other characters."""
    total = sum(shape.count for shape in shapes.values())
    ordered = sorted(shapes.items(), key=lambda each: -each[1].count)
    usual: dict[str, TextShape] = {}
    rare: dict[str, TextShape] = {}
    alphabet: set[str] = set()
    for text, shape in ordered:
        is_rare = sum(each.count for each in rare.values()) + shape.count <= _RARE * total
        if usual and is_rare and not set(text) <= alphabet:
            rare[text] = shape
        else:
            usual[text] = shape
            alphabet |= set(text)
    return usual, rare


def _prefix(field: FieldProfile, values: dict[str, Seen], pattern: str, rules: RuleList) -> None:
    """Propose the first character that nearly all texts have, unless the pattern already requires it."""
    first: dict[str, int] = defaultdict(int)
    for text, seen in values.items():
        first[text[:1]] += seen.count
    if len(first) < 2 or len(values) < 100:
        return
    usual = max(first, key=lambda each: first[each])
    total = sum(first.values())
    others = [seen for text, seen in values.items() if text[:1] != usual]
    exceptions = sum(seen.count for seen in others)
    if exceptions > _RARE * total or not usual.isalnum() or pattern.startswith(f"^{usual}"):
        return
    proposal = Proposal(
        "",
        field.path,
        f"nearly all values begin with {usual}",
        support=total,
        exceptions=exceptions,
        first=tuple(sorted(seen.first for seen in others)[:5]),
    )
    rule = {
        "kind": "matches",
        "field": join(field.path),
        "pattern": f"^{usual}",
        "description": f"{label(field.path)} begins with {usual}.",
    }
    rules.add(f"{slug(field.path)}-begins-with-{usual.lower()}", rule, proposal)


def _says_something(pattern: str) -> bool:
    """Return whether a pattern restricts more than the set of characters and the length."""
    return re.fullmatch(r"\^\[(a-z|A-Za-z|0-9A-Za-z)\](\{\d+,\d+\})?\$", pattern) is None


def _shape_of(text: str) -> str:
    return re.sub("[a-z]", "a", re.sub("[A-Z]", "A", re.sub("[0-9]", "0", text)))
