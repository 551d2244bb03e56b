"""Propose rules about several fields of one object: order, presence, ratio, and disjoint sets of values."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from itertools import permutations, product
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidegate.contracts.document.fields import join
from tidegate.contracts.infer.columns import ValueKind
from tidegate.contracts.infer.number_rules import plain_number
from tidegate.contracts.infer.pairs import FieldPairs, Pair, PairOrder, Path, Ratio
from tidegate.contracts.infer.presence import Presence
from tidegate.contracts.infer.profile import EACH, FieldProfile, Profile
from tidegate.contracts.infer.proposal import Proposal, RuleList, label, slug, words_of
from tidegate.contracts.infer.structure import ProposedType
from tidegate.contracts.infer.values import Occurrences, Seen

_NUMBERS: Final = frozenset({ValueKind.INTEGER, ValueKind.NUMBER})
_EXCEPTIONS: Final = 0.02
_INFORMATIVE: Final = 0.05
_EXPLAINED: Final = 0.1
"""A relation holds if its violations are at most this share of those expected by chance."""
_MOST_DOUBTFUL: Final = 5
_GAP: Final = 1.05
_ENOUGH: Final = 10_000
_RARE: Final = 1e-4
_WORDS_OF_CEL: Final = frozenset({"false", "in", "null", "true"})
_OPPOSITES: Final = (
    ("min", "max"), ("minimum", "maximum"), ("low", "high"), ("lower", "upper"), ("start", "end"), ("begin", "end"),
    ("from", "to"), ("first", "last"), ("net", "gross"), ("open", "close"), ("old", "new"), ("birth", "death"),
)  # fmt: skip


def relation_rules(
    profile: Profile,
    names: Mapping[Path, FieldProfile],
    types: Mapping[Path, ProposedType],
    personal: Collection[Path],
    rules: RuleList,
) -> None:
    """Add rules about the fields of each object to `rules`. Values of personal fields are not written."""
    for relations in profile.relations.values():
        # An object may later turn out to be a map, whose keys have no profile. Drop the relations of its fields.
        relations.pairs.keep(names)
        relations.presence.keep(names)
        _orders(relations.pairs, types, rules)
        _origins(relations.pairs, rules)
        _ratios(relations.pairs, names, rules)
        _presence(relations.presence, rules)
        _labels(relations.presence, types, personal, rules)
    _separate(profile, personal, rules)


def _orders(pairs: FieldPairs, types: Mapping[Path, ProposedType], rules: RuleList) -> None:
    doubtful = 0
    for order in pairs.orders.values():
        if not _holds(order) or not _compare(order, types):
            continue
        is_related = order.kind != "number" or _are_opposites(order.left, order.right)
        if not is_related:
            # A number of minutes may always be below one of miles. Without related names such orders mean little.
            doubtful += 1
            if doubtful > _MOST_DOUBTFUL:
                continue
        left, right = label(order.left), label(order.right)
        proposal = Proposal(
            "",
            order.left,
            f"values of different records would violate it in {_percent(order.by_chance, order.both)}",
            support=order.both,
            exceptions=order.violated.count,
            first=tuple(order.violated.first),
            doubt=None if is_related else "the names do not say that the two are related",
        )
        rule = {
            "kind": "ordered",
            "fields": [join(order.left), join(order.right)],
            "description": f"{left} must not be after {right}."
            if order.kind != "number"
            else f"{left} must be at most {right}.",
        }
        rules.add(f"{slug(order.left)}-to-{slug(order.right)}", rule, proposal)


def _holds(order: PairOrder) -> bool:
    violated = order.violated.count
    return (
        order.both >= 50
        and violated <= _EXCEPTIONS * order.both
        and order.by_chance >= _INFORMATIVE * order.both
        and violated <= _EXPLAINED * order.by_chance
        and order.equal < 0.95 * order.both
    )


def _compare(order: PairOrder, types: Mapping[Path, ProposedType]) -> bool:
    """Return whether two fields compare by their proposed types; times with and without a zone do not."""
    left, right = types.get(order.left), types.get(order.right)
    if left is None or right is None:
        return False
    if order.kind == "number":  # a field with a format has its order, also if it holds numbers beside texts
        return all(each.format is None and not _NUMBERS.isdisjoint(each.kinds) for each in (left, right))
    return left.format is not None and left.format is right.format


def _are_opposites(left: Path, right: Path) -> bool:
    one, two = set(words_of(left)), set(words_of(right))
    return any(low in one and high in two for low, high in _OPPOSITES)


def _origins(pairs: FieldPairs, rules: RuleList) -> None:
    for (one, two), origin in pairs.origins.items():
        if origin.zero.count < 2 or EACH in one:
            continue
        left, right = (_member(path) for path in (one, two))
        proposal = Proposal(
            "",
            one,
            "coordinates 0,0 lie in the Gulf of Guinea, and are written for an unknown place",
            support=origin.both,
            exceptions=origin.zero.count,
            first=tuple(origin.zero.first),
        )
        rule = {
            "kind": "cel",
            "expr": f"{left} != 0.0 || {right} != 0.0",
            "description": "Coordinates 0,0 stand for an unknown place.",
        }
        rules.add(f"{slug(one)}-and-{slug(two)}-are-known", rule, proposal)


def _ratios(pairs: FieldPairs, names: Mapping[Path, FieldProfile], rules: RuleList) -> None:
    for ratio in pairs.ratios.values():
        if EACH in ratio.left or not all(
            ValueKind.NUMBER not in names[path].kinds for path in (ratio.left, ratio.right)
        ):
            continue
        found = _limit_of(ratio)
        if found is None:
            continue
        limit, exceptions = found
        left, right = label(ratio.left), label(ratio.right)
        proposal = Proposal(
            "",
            ratio.left,
            f"the two grow together, and few values of {left} lie far above {limit} times {right}",
            support=ratio.both,
            exceptions=len(exceptions),
            first=tuple(sorted(position for _, position in exceptions)[:5]),
        )
        rule = {
            "kind": "cel",
            "expr": f"{_member(ratio.left)} <= {_member(ratio.right)} * {limit}",
            "description": f"{left} must be at most {limit} times {right}.",
        }
        rules.add(f"{slug(ratio.left)}-per-{slug(ratio.right)}", rule, proposal)


def _limit_of(ratio: Ratio) -> tuple[int, list[tuple[float, int]]] | None:
    """Return a whole number in the gap below the few largest ratios, and these ratios; None without a gap."""
    if ratio.positive < _ENOUGH or not ratio.sample:
        return None
    quotients = [value for value, _ in ratio.largest]
    median = float(np.median(np.concatenate(ratio.sample)))
    most = max(1, int(_RARE * ratio.positive))
    for count in range(min(len(quotients) - 5, most), 0, -1):
        above, below = quotients[count - 1], quotients[count]
        # A ratio that spreads over orders of magnitude always has gaps at its upper end.
        if above >= _GAP * below and below <= 2 * median:
            limit = plain_number(float(np.floor(above)))
            if below <= limit < above and limit >= 2:
                return int(limit), ratio.largest[:count]
    return None


def _presence(presence: Presence, rules: RuleList) -> None:
    """Propose which fields are required if another one is present, without rules that follow from others."""
    optional = presence.optional
    implied = {
        (one, two): presence.lone[one, two].count if (one, two) in presence.lone else 0
        for one, two in permutations(optional, 2)
        if _implies(presence, one, two)
    }
    same = _groups(optional, implied)
    for group in same:
        for member in group[1:]:
            for pair in ((group[0], member), (member, group[0])):
                _required(presence, pair, rules)
    heads = [group[0] for group in same]
    # Exact implications are separate from those with exceptions: each is left out if others of its sort imply it.
    for is_exact in (True, False):
        edges = {
            pair for pair, count in implied.items() if set(pair) <= set(heads) and (count == 0) is is_exact
        }
        for one, two in sorted(edges, key=lambda pair: (heads.index(pair[0]), heads.index(pair[1]))):
            if not any((one, via) in edges and (via, two) in edges for via in heads if via not in (one, two)):
                _required(presence, (one, two), rules)


def _implies(presence: Presence, one: Path, two: Path) -> bool:
    """Return whether the second field is nearly always present with the first one, and less often without it."""
    present = presence.present(one)
    lacking = presence.lone[one, two].count if (one, two) in presence.lone else 0
    missing = presence.lacks[two].count
    if present < 50 or presence.rows - present < 10 or missing < 10:
        return False
    by_chance = missing / presence.rows
    return lacking / present <= min(0.01, 0.3 * by_chance)


def _groups(optional: list[Path], implied: Mapping[Pair, int]) -> list[list[Path]]:
    """Return the fields in their order, grouped by whether they are always present together."""
    groups: list[list[Path]] = []
    for path in optional:
        for group in groups:
            if implied.get((group[0], path)) == 0 and implied.get((path, group[0])) == 0:
                group.append(path)
                break
        else:
            groups.append([path])
    return groups


def _required(presence: Presence, pair: Pair, rules: RuleList) -> None:
    condition, required = pair
    tally = presence.lone.get(pair)
    proposal = Proposal(
        "",
        required,
        f"missing in {_percent(presence.lacks[required].count, presence.rows)} of all records",
        support=presence.present(condition),
        exceptions=tally.count if tally is not None else 0,
        first=tuple(tally.first) if tally is not None else (),
    )
    rule = {
        "kind": "required_when",
        "field": join(required),
        "when": {"field": join(condition), "present": True},
        "description": f"A record with {label(condition)} has {label(required)}.",
    }
    rules.add(f"{slug(condition)}-has-{slug(required)}", rule, proposal)


def _labels(
    presence: Presence, types: Mapping[Path, ProposedType], personal: Collection[Path], rules: RuleList
) -> None:
    """Propose which fields are required if another one has certain texts."""
    best: dict[Path, tuple[float, Path, list[str]]] = {}
    for (path, labels), other in product(presence.labels.items(), presence.optional):
        overall = presence.lacks[other].count / presence.rows
        if path in personal or path == other or overall < 0.05 or presence.present(other) < 50:
            continue
        lacking = presence.lacking.get((path, other), {})
        frequent = [
            text for text, each in labels.items() if each.count >= 100 and _may_hold(types.get(path), text)
        ]
        requiring = [
            text
            for text in frequent
            if text not in lacking or lacking[text].count <= min(0.01, 0.1 * overall) * labels[text].count
        ]
        if not requiring or len(requiring) == len(frequent):
            continue
        covered = sum(labels[text].count - lacking.get(text, Occurrences()).count for text in requiring)
        share = covered / presence.present(other)
        if other not in best or share > best[other][0]:
            best[other] = (share, path, sorted(requiring))
    for other, (_, path, texts) in best.items():
        lacking = presence.lacking.get((path, other), {})
        entries = [lacking[text] for text in texts if text in lacking]
        proposal = Proposal(
            "",
            other,
            f"missing in {_percent(presence.lacks[other].count, presence.rows)} of all records",
            support=sum(presence.labels[path][text].count for text in texts),
            exceptions=sum(each.count for each in entries),
            first=tuple(sorted(first for each in entries for first in each.first)[:5]),
        )
        test: dict[str, Any] = {"equals": texts[0]} if len(texts) == 1 else {"one_of": texts}
        named = texts[0] if len(texts) == 1 else "one of these values"
        rule = {
            "kind": "required_when",
            "field": join(other),
            "when": {"field": join(path), **test},
            "description": f"A record whose {label(path)} is {named} has {label(other)}.",
        }
        rules.add(f"{slug(path)}-decides-{slug(other)}", rule, proposal)


def _may_hold(kind: ProposedType | None, text: str) -> bool:
    """Return whether the proposed type of a field allows a text."""
    if kind is None or ValueKind.STRING not in kind.kinds:
        return False
    return kind.format is None or bool(kind.format.test(pa.array([text]))[0])


def _separate(profile: Profile, personal: Collection[Path], rules: RuleList) -> None:
    """Propose that a field never has one of the few values of another: no flight ends at a departure airport."""
    codes = [each for each in profile.root.fields.values() if _is_code(each) and each.path not in personal]
    few = [field for field in codes if 2 <= len(field.texts.counts) <= 20]
    many = [field for field in codes if len(field.texts.counts) >= 20]
    for one in few:
        for two in many:
            if (
                one is two
                or two.texts.count < _ENOUGH
                or set(one.texts.shapes.found) != set(two.texts.shapes.found)
            ):
                continue
            shared: dict[str, Seen] = {
                text: two.texts.counts[text] for text in one.texts.counts if text in two.texts.counts
            }
            count = sum(seen.count for seen in shared.values())
            if count > _RARE * two.texts.count:
                continue
            proposal = Proposal(
                "",
                two.path,
                f"{label(two.path)} has nearly no value of {label(one.path)}, though both are codes of one kind",
                support=two.texts.count,
                exceptions=count,
                first=tuple(sorted(seen.first for seen in shared.values())[:5]),
                doubt=None if shared else "the two may be lists of different things",
            )
            rule = {
                "kind": "forbidden",
                "field": join(two.path),
                "values": sorted(one.texts.counts),
                "description": f"{label(two.path)} is never a value of {label(one.path)}.",
            }
            rules.add(f"{slug(two.path)}-is-not-{slug(one.path)}", rule, proposal)


def _is_code(field: FieldProfile) -> bool:
    texts = field.texts
    return texts.is_complete and not texts.formats and len(texts.shapes.found) == 1 and texts.longest <= 10


def _member(path: Path) -> str:
    """Return the CEL expression for a member of the record."""
    text = "this"
    for step in path:
        is_plain = step.isidentifier() and step.isascii() and step not in _WORDS_OF_CEL
        text += f".{step}" if is_plain else f"[{json.dumps(step, ensure_ascii=False)}]"
    return text


def _percent(part: int, whole: int) -> str:
    share = part / max(whole, 1)
    return f"{share:.2g} %" if share == 0 else f"{100 * share:.3g} %"
