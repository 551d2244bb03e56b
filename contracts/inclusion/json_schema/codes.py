"""The stable codes of what differs between two JSON Schemas, and the sentences that say it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.inclusion.answer import Counterexample, Difference, Outcome
from tidegate.contracts.inclusion.json_schema.gaps import Gap, Situation, nearest_old
from tidegate.contracts.inclusion.json_schema.nodes import (
    Additional,
    All,
    Bound,
    Contains,
    ItemAt,
    ItemCount,
    ItemsFrom,
    Length,
    Matching,
    Node,
    Property,
    PropertyCount,
    Required,
    Side,
    TypeIs,
    WrittenAsInteger,
    is_false,
    resolved,
)
from tidegate.contracts.inclusion.json_schema.sentences import Words

CODES: Final = {
    "schema.type-narrowed": "a type that was accepted is not any more",
    "schema.type-added": "the type was free and is not any more",
    "schema.enum-value-removed": "a value that was listed is not any more",
    "schema.enum-added": "any value was accepted, and now only those listed",
    "schema.const-changed": "the one accepted value is another, or one of several is left",
    "schema.const-added": "any value was accepted, and now one only",
    "schema.minimum-raised": "the least accepted number is larger",
    "schema.minimum-added": "there was no least number",
    "schema.exclusive-minimum-raised": "the numbers begin above a larger one",
    "schema.exclusive-minimum-added": "there was no least number",
    "schema.maximum-lowered": "the largest accepted number is smaller",
    "schema.maximum-added": "there was no largest number",
    "schema.exclusive-maximum-lowered": "the numbers end below a smaller one",
    "schema.exclusive-maximum-added": "there was no largest number",
    "schema.multiple-of-changed": "numbers must be multiples of another step",
    "schema.multiple-of-added": "numbers need not have been multiples of anything",
    "schema.min-length-raised": "strings must be longer",
    "schema.min-length-added": "strings could be of any length",
    "schema.max-length-lowered": "strings must be shorter",
    "schema.max-length-added": "strings could be of any length",
    "schema.pattern-changed": "strings must match another pattern",
    "schema.pattern-added": "strings need not have matched a pattern",
    "schema.format-changed": "strings must have another format",
    "schema.format-added": "strings need not have had a format",
    "schema.content-encoding-added": "strings must be encoded (drafts 6 and 7 assert it)",
    "schema.content-encoding-changed": "strings must be encoded otherwise (drafts 6 and 7 assert it)",
    "schema.content-media-type-added": "strings must be of a media type (drafts 6 and 7 assert it)",
    "schema.content-media-type-changed": "strings must be of another media type (drafts 6 and 7 assert it)",
    "schema.min-items-raised": "arrays must have more items",
    "schema.min-items-added": "arrays could have any number of items",
    "schema.max-items-lowered": "arrays must have fewer items",
    "schema.max-items-added": "arrays could have any number of items",
    "schema.unique-items-added": "arrays could have an item twice",
    "schema.items-closed": "arrays could have items where none are allowed any more",
    "schema.items-constrained": "items were free and are not any more",
    "schema.contains-added": "arrays need not have had an item of a kind",
    "schema.contains-changed": "arrays must have an item of another kind",
    "schema.min-contains-raised": "arrays must have more items of a kind",
    "schema.min-contains-added": "arrays must have several items of a kind",
    "schema.max-contains-lowered": "arrays must have fewer items of a kind",
    "schema.max-contains-added": "arrays could have any number of items of a kind",
    "schema.unevaluated-items-changed": "items that no other keyword speaks of are restricted otherwise",
    "schema.required-added": "a property that could be absent must be there",
    "schema.property-removed": "a property that was declared is not allowed any more",
    "schema.property-closed": "properties that are not declared are not allowed any more",
    "schema.property-constrained": "a property that was free is not any more",
    "schema.min-properties-raised": "objects must have more properties",
    "schema.min-properties-added": "objects could have any number of properties",
    "schema.max-properties-lowered": "objects must have fewer properties",
    "schema.max-properties-added": "objects could have any number of properties",
    "schema.property-names-added": "properties could have any name",
    "schema.property-names-changed": "properties must have other names",
    "schema.dependency-added": "a property needs others that it did not need",
    "schema.unevaluated-properties-changed": "properties that no other keyword speaks of are restricted otherwise",
    "schema.any-of-narrowed": "what one alternative accepted, none of the new ones does",
    "schema.one-of-narrowed": "what was accepted fits none of the new alternatives, or several",
    "schema.not-added": "something is excluded that was not",
    "schema.not-changed": "something else is excluded",
    "schema.condition-added": "under a condition, more is asked for",
    "schema.condition-changed": "under another condition, or under the same, other things are asked for",
    "schema.closed": "nothing is accepted any more",
    "schema.reference-undecided": "a reference cannot be followed, or leads back to itself",
    "schema.undecided": "the schemas are too large or too deeply nested to compare",
}
"""Every code, and what it means."""

_MAX_LOOKED_AT: Final = 2_000
_FIXED: Final = {
    "anyOf": "schema.any-of-narrowed",
    "oneOf": "schema.one-of-narrowed",
    "unevaluatedItems": "schema.unevaluated-items-changed",
    "unevaluatedProperties": "schema.unevaluated-properties-changed",
    **dict.fromkeys(("dependencies", "dependentRequired", "dependentSchemas"), "schema.dependency-added"),
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef", "$schema"), "schema.reference-undecided"),
}
_NAMES: Final = {"if": "condition"}
_ALWAYS_ADDED: Final = frozenset({"required", "uniqueItems"})
_LIMITS: Final = {
    "minimum": frozenset({"minimum", "exclusiveMinimum"}),
    "exclusiveMinimum": frozenset({"minimum", "exclusiveMinimum"}),
    "maximum": frozenset({"maximum", "exclusiveMaximum"}),
    "exclusiveMaximum": frozenset({"maximum", "exclusiveMaximum"}),
    "enum": frozenset({"enum", "const"}),
    "const": frozenset({"enum", "const"}),
    "contains": frozenset({"contains", "minContains"}),
}
"""The keywords of the old schema that say the same kind of thing as one of the new."""


@dataclass(frozen=True, slots=True)
class _Change:
    code: str
    keyword: str
    new_pointer: str
    before: Node | None
    sentence: str


def difference(gap: Gap, known: Sequence[Node], counterexample: Counterexample | None) -> Difference:
    """Return what a gap is; it is refuted exactly when there is a counterexample.

    `known` is what the old schema says of the place, its choices made as far as they are forced.
    """
    change = _change(gap, known)
    at = gap.situation
    before = change.before
    words = Words(at)
    end = words.shown if counterexample is not None else words.open(is_out_of_steps=gap.is_out_of_steps)
    return Difference(
        outcome=Outcome.UNDETERMINED if counterexample is None else Outcome.REFUTED,
        code=change.code,
        keyword=change.keyword,
        old_pointer=nearest_old(at.holding, at.old, at.old_pointer)
        if before is None
        else before.place.pointer,
        new_pointer=change.new_pointer,
        field=join(at.field),
        sentence=f"{words.condition}{change.sentence}; {end}",
        counterexample=counterexample,
    )


def _change(gap: Gap, known: Sequence[Node]) -> _Change:
    at, target = gap.situation, gap.target
    if is_false(target):
        return _closed(at, target)
    if isinstance(target, Property | Matching | Additional | ItemAt | ItemsFrom):
        return _constrained(at, target)
    keyword = target.place.keyword
    before = _before(target, (*at.holding, *known), at.old)
    code = _code(target, keyword, before)
    return _Change(code, keyword, target.place.pointer, before, Words(at).changed(target, before))


def _closed(at: Situation, target: Node) -> _Change:
    """Nothing is accepted at a place any more: a property or an item that may not be there."""
    via, pointer, words = at.via, target.place.pointer, Words(at)
    if isinstance(via, ItemAt | ItemsFrom):
        return _Change("schema.items-closed", via.place.keyword or "items", pointer, None, words.no_item())
    if via is None:
        return _Change("schema.closed", target.place.keyword, pointer, None, words.nothing())
    keyword = via.place.keyword or ("properties" if isinstance(via, Property) else "patternProperties")
    if at.is_declared and at.field[-1] != "*":
        return _Change("schema.property-removed", keyword, pointer, None, words.no_property())
    pattern = via.pattern if isinstance(via, Matching) else None
    return _Change("schema.property-closed", keyword, pointer, None, words.no_properties(pattern))


def _constrained(at: Situation, target: Node) -> _Change:
    place, words = target.place, Words(at)
    if isinstance(target, ItemAt | ItemsFrom):
        keyword, sentence = place.keyword or "items", words.constrained(place.value)
        return _Change("schema.items-constrained", keyword, place.pointer, None, sentence)
    keyword = place.keyword or ("properties" if isinstance(target, Property) else "patternProperties")
    inner = target.schema.place.value if isinstance(target, Property | Matching | Additional) else place.value
    return _Change("schema.property-constrained", keyword, place.pointer, None, words.constrained(inner))


def _before(target: Node, holding: tuple[Node, ...], side: Side) -> Node | None:
    """Return what the old schema says of the same kind, beside each other or through references."""
    keyword = target.place.keyword
    alike = _LIMITS.get(keyword, frozenset({keyword}))
    if isinstance(target, Required):
        return None
    waiting = [*reversed(holding)]
    seen: set[int] = set()
    while waiting and len(seen) < _MAX_LOOKED_AT:
        node = resolved(waiting.pop())
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.place.side is side and node.place.keyword in alike and not _only_annotates(node, target):
            return node
        if isinstance(node, All):
            waiting.extend(reversed(node.parts))
    return None


def _only_annotates(node: Node, target: Node) -> bool:
    """Return whether a format is the target's own, and asserted by the target alone."""
    is_format = node.place.keyword == "format" == target.place.keyword
    return is_format and node.place.value == target.place.value and isinstance(node, All) and not node.parts


def _code(target: Node, keyword: str, before: Node | None) -> str:
    if keyword in _FIXED:
        return _FIXED[keyword]
    if not keyword:
        return "schema.undecided"
    name = _NAMES.get(keyword) or re.sub("([A-Z])", lambda match: f"-{match[1].lower()}", keyword)
    return f"schema.{name}-{_verb(target, keyword, before)}"


def _verb(target: Node, keyword: str, before: Node | None) -> str:
    if before is None or keyword in _ALWAYS_ADDED:
        return "added"
    if isinstance(target, TypeIs | WrittenAsInteger):
        return "narrowed"
    if keyword == "enum":
        return "value-removed"
    if isinstance(target, Bound | Length | ItemCount | PropertyCount | Contains) and keyword != "contains":
        return "raised" if target.is_lower else "lowered"
    return "changed"
