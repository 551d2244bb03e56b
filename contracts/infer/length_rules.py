"""Propose lengths of texts for the schema, for fields without an enforced pattern or list of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidegate.contracts.infer.number_rules import nice_above
from tidegate.contracts.infer.pairs import Path
from tidegate.contracts.infer.profile import FieldProfile
from tidegate.contracts.infer.proposal import LEAST, MOST, Proposal, RuleList, label
from tidegate.contracts.infer.structure import Structure
from tidegate.contracts.infer.values import Seen, TextProfile

_ENOUGH_FOR_MOST: Final = 200
"""Minimum number of texts for which the longest predicts future ones; the bound is three times its length."""
_ENOUGH: Final = 1_000
"""Minimum number of texts for which a common length is a rule: at most one in a thousand should have another."""
_VARIOUS: Final = 100
"""Minimum number of distinct texts with a common length; fewer may have it by chance."""
_RARE: Final = 1e-3


def length_rules(fields: dict[Path, FieldProfile], structure: Structure, rules: RuleList) -> None:
    """Propose `minLength` and `maxLength` of texts, and set them in the schema of `structure`."""
    bounded = {
        each.path
        for each in rules.rules
        if each.is_enforced and each.rule and each.rule["kind"] in ("matches", "one_of")
    }
    for path, schema in structure.texts.items():
        if path not in bounded:
            for each, value in _proposals(path, fields[path].texts):
                schema[each.code] = value
                structure.proposals.append(each)


def _proposals(path: Path, texts: TextProfile) -> list[tuple[Proposal, int]]:
    name = label(path)
    ascending, descending = texts.lengths.edges()
    if (length := _common(texts)) is not None:
        because = f"nearly all texts of {name} have {length:,} characters"
        shorter = [seen for each, seen in ascending if each < length]
        longer = [seen for each, seen in descending if each > length]
        return [
            (_proposal(LEAST, path, because, texts, shorter), length),
            (_proposal(MOST, path, because, texts, longer), length),
        ]
    found = []
    if texts.count >= _ENOUGH and ascending[0][0] > 0:
        found.append((_proposal(LEAST, path, f"no text of {name} is empty", texts), 1))
    if texts.count >= _ENOUGH_FOR_MOST:
        most = int(nice_above(3 * max(descending[0][0], 10)))
        because = f"the bound of {name} is three times the length of the longest text, or more"
        found.append((_proposal(MOST, path, because, texts), most))
    return found


def _common(texts: TextProfile) -> int | None:
    """Return the length that nearly all texts have, apart from sentinels; None if there is none."""
    if texts.count < _ENOUGH or (texts.is_complete and len(texts.counts) < _VARIOUS):
        return None
    lengths: dict[int, Seen] = texts.lengths.values
    if not texts.lengths.is_complete:
        return None
    most = max(lengths, key=lambda each: lengths[each].count)
    others = texts.count - lengths[most].count
    unknown = sum(seen.count for text, seen in texts.sentinels.items() if len(text) != most)
    return most if others - unknown <= _RARE * texts.count and unknown < 0.1 * texts.count else None


def _proposal(
    code: str, path: Path, because: str, texts: TextProfile, others: Sequence[Seen] = ()
) -> Proposal:
    return Proposal(
        code,
        path,
        because,
        support=texts.count,
        exceptions=sum(each.count for each in others),
        first=tuple(sorted(each.first for each in others)[:5]),
    )


def withdraw_doubtful(structure: Structure) -> None:
    """Remove lengths from the schema that became doubtful by the held-back records."""
    for each in structure.proposals:
        if each.doubt is not None:
            texts: dict[str, Any] = structure.texts[each.path]
            texts.pop(each.code, None)
