"""Stable codes and sentences for differences between two JSON Schemas.

A gap is a node of the `new` schema that documents of the `old` one may violate. In a forward comparison, `new` is the
schema that is earlier in time; then `is_reversed` is set. A sentence always names the earlier schema first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

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
    Node,
    OneValue,
    PatternProperty,
    Property,
    PropertyCount,
    Required,
    Side,
    TypeIs,
    WrittenAsInteger,
    is_false,
    resolved,
)
from tidegate.contracts.inclusion.json_schema.values import text_of

CODES: Final = {
    "schema.type-narrowed": "a type that was accepted is not any more",
    "schema.type-added": "the type was free and is not any more",
    "schema.enum-value-removed": "a value that was listed is not any more",
    "schema.enum-added": "any value was accepted, and now only those listed",
    "schema.const-changed": "the one accepted value is another, or one of several is left",
    "schema.const-added": "any value was accepted, and now one only",
    "schema.minimum-raised": "the least accepted number is larger",
    "schema.minimum-added": "there was no least number",
    "schema.exclusive-minimum-raised": "the exclusive minimum is larger",
    "schema.exclusive-minimum-added": "there was no least number",
    "schema.maximum-lowered": "the largest accepted number is smaller",
    "schema.maximum-added": "there was no largest number",
    "schema.exclusive-maximum-lowered": "the exclusive maximum is smaller",
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
    "schema.one-of-narrowed": "an accepted value matches none of the new alternatives, or several",
    "schema.not-added": "something is excluded that was not",
    "schema.not-changed": "something else is excluded",
    "schema.condition-added": "under a condition, more is asked for",
    "schema.condition-changed": "under another condition, or under the same, other things are asked for",
    "schema.closed": "nothing is accepted any more",
    "schema.reference-undecided": "a reference cannot be followed, or leads back to itself",
    "schema.undecided": "the schemas are too large or too deeply nested to compare",
}
"""Every code, with its meaning. The codes are stable."""

_MAX_VISITED: Final = 2_000
_CODE_OF_KEYWORD: Final = {  # keywords whose code does not depend on what changed
    "anyOf": "schema.any-of-narrowed",
    "oneOf": "schema.one-of-narrowed",
    "unevaluatedItems": "schema.unevaluated-items-changed",
    "unevaluatedProperties": "schema.unevaluated-properties-changed",
    **dict.fromkeys(("dependencies", "dependentRequired", "dependentSchemas"), "schema.dependency-added"),
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef", "$schema"), "schema.reference-undecided"),
}
_NAME_OF_KEYWORD: Final = {"if": "condition"}  # otherwise the keyword in kebab-case
_ALWAYS_ADDED: Final = frozenset({"required", "uniqueItems"})
_SAME_KIND: Final = {
    "minimum": frozenset({"minimum", "exclusiveMinimum"}),
    "exclusiveMinimum": frozenset({"minimum", "exclusiveMinimum"}),
    "maximum": frozenset({"maximum", "exclusiveMaximum"}),
    "exclusiveMaximum": frozenset({"maximum", "exclusiveMaximum"}),
    "enum": frozenset({"enum", "const"}),
    "const": frozenset({"enum", "const"}),
    "contains": frozenset({"contains", "minContains"}),
}
"""By keyword of the new schema: the keywords of the old one that restrict the same thing (default: the same one)."""


@dataclass(frozen=True, slots=True)
class _Change:
    """The parts of a difference that do not depend on a counterexample; `before` is the old schema's node."""

    code: str
    keyword: str
    new_pointer: str
    before: Node | None
    sentence: str


def difference(gap: Gap, known: Sequence[Node], counterexample: Counterexample | None) -> Difference:
    """Return the difference for a gap: REFUTED with a counterexample, UNDETERMINED without one.

    `known` are the nodes of the old schema that apply at the place after forced choices, such as the last remaining
    alternative of an `anyOf`.
    """
    change = _change(gap, known)
    at = gap.situation
    before = change.before
    sentences = Sentences(at)
    if counterexample is not None:
        end = sentences.refuted
    else:
        end = sentences.undetermined(is_out_of_steps=gap.is_out_of_steps)
    if before is not None:
        old_pointer = before.place.pointer
    else:
        old_pointer = nearest_old(at.holding, at.old, at.old_pointer)
    return Difference(
        outcome=Outcome.UNDETERMINED if counterexample is None else Outcome.REFUTED,
        code=change.code,
        keyword=change.keyword,
        old_pointer=old_pointer,
        new_pointer=change.new_pointer,
        field=join(at.field),
        sentence=f"{sentences.condition}{change.sentence}; {end}",
        counterexample=counterexample,
    )


def _change(gap: Gap, known: Sequence[Node]) -> _Change:
    at, target = gap.situation, gap.target
    if is_false(target):
        return _closed(at, target)
    if isinstance(target, Property | PatternProperty | Additional | ItemAt | ItemsFrom):
        return _constrained(at, target)
    keyword = target.place.keyword
    before = _find_before(target, (*at.holding, *known), at.old)
    code = _code(target, keyword, before)
    return _Change(code, keyword, target.place.pointer, before, Sentences(at).changed(target, before))


def _closed(at: Situation, target: Node) -> _Change:
    """Describe a place at which the new schema accepts nothing: a property or an item that must be absent."""
    via, pointer, sentences = at.via, target.place.pointer, Sentences(at)
    if isinstance(via, ItemAt | ItemsFrom):
        return _Change(
            "schema.items-closed", via.place.keyword or "items", pointer, None, sentences.no_item()
        )
    if via is None:
        return _Change("schema.closed", target.place.keyword, pointer, None, sentences.nothing())
    keyword = via.place.keyword or ("properties" if isinstance(via, Property) else "patternProperties")
    if at.is_declared and at.field[-1] != "*":
        return _Change("schema.property-removed", keyword, pointer, None, sentences.no_property())
    pattern = via.pattern if isinstance(via, PatternProperty) else None
    return _Change("schema.property-closed", keyword, pointer, None, sentences.no_properties(pattern))


def _constrained(at: Situation, target: Node) -> _Change:
    """Describe a property or an item that only the new schema constrains."""
    place, sentences = target.place, Sentences(at)
    if isinstance(target, ItemAt | ItemsFrom):
        keyword, sentence = place.keyword or "items", sentences.constrained(place.value)
        return _Change("schema.items-constrained", keyword, place.pointer, None, sentence)
    keyword = place.keyword or ("properties" if isinstance(target, Property) else "patternProperties")
    inner = (
        target.schema.place.value
        if isinstance(target, Property | PatternProperty | Additional)
        else place.value
    )
    return _Change("schema.property-constrained", keyword, place.pointer, None, sentences.constrained(inner))


def _find_before(target: Node, holding: tuple[Node, ...], side: Side) -> Node | None:
    """Return the node of the old schema that restricts the same thing as `target`, or None.

    Looks at the nodes in `holding`, through references and conjunctions, at most _MAX_VISITED.
    """
    keyword = target.place.keyword
    if isinstance(target, Required):
        return None
    same_kind = _SAME_KIND.get(keyword, frozenset({keyword}))
    pending = [*reversed(holding)]
    seen: set[int] = set()
    while pending and len(seen) < _MAX_VISITED:
        node = resolved(pending.pop())
        if id(node) in seen:
            continue
        seen.add(id(node))
        is_same_kind = node.place.side is side and node.place.keyword in same_kind
        if is_same_kind and not _only_annotates(node, target):
            return node
        if isinstance(node, All):
            pending.extend(reversed(node.parts))
    return None


def _only_annotates(node: Node, target: Node) -> bool:
    """Return whether both nodes have the same `format`, but only `target` asserts it."""
    if not node.place.keyword == target.place.keyword == "format":
        return False
    # A format that is an annotation compiles to an empty conjunction.
    return node.place.value == target.place.value and isinstance(node, All) and not node.parts


def _code(target: Node, keyword: str, before: Node | None) -> str:
    if keyword in _CODE_OF_KEYWORD:
        return _CODE_OF_KEYWORD[keyword]
    if not keyword:
        return "schema.undecided"
    name = _NAME_OF_KEYWORD.get(keyword) or re.sub("([A-Z])", lambda match: f"-{match[1].lower()}", keyword)
    return f"schema.{name}-{_suffix(target, keyword, before)}"


def _suffix(target: Node, keyword: str, before: Node | None) -> str:
    if before is None or keyword in _ALWAYS_ADDED:
        return "added"
    if isinstance(target, TypeIs | WrittenAsInteger):
        return "narrowed"
    if keyword == "enum":
        return "value-removed"
    if isinstance(target, Bound | Length | ItemCount | PropertyCount | Contains) and keyword != "contains":
        return "raised" if target.is_lower else "lowered"
    return "changed"


_MAX_SHOWN: Final = 80
_MAX_LISTED: Final = 5


class Sentences:
    """The sentences about one place in a record."""

    def __init__(self, at: Situation) -> None:
        self._is_reversed = at.old is Side.OTHER
        """Whether `new`, which should accept the documents, is the earlier schema."""
        self._where = f"`{join(at.field)}`" if at.field else "the record"
        self.condition = "under a condition, " if at.is_conditional else ""

    @property
    def refuted(self) -> str:
        """Return the clause that states a counterexample."""
        return counterexample_sentence(is_reversed=self._is_reversed)

    def undetermined(self, *, is_out_of_steps: bool) -> str:
        """Return the clause that states that the question is undecided; `is_out_of_steps` if the budget ran out."""
        one, other = ("new", "fits the old one") if self._is_reversed else ("old", "keeps it")
        end = "was not decided within the given steps" if is_out_of_steps else "cannot be decided"
        return f"whether every record that the {one} schema accepts {other} {end}"

    def no_item(self) -> str:
        """Return the sentence that no item is allowed any more; in reverse, that one is allowed now."""
        if self._is_reversed:
            return f"no item was allowed at {self._where}, and now there is one"
        return f"no item is allowed at {self._where} any more"

    def nothing(self) -> str:
        """Return the sentence that nothing is accepted any more; in reverse, that something is now."""
        if self._is_reversed:
            return f"nothing was accepted at {self._where}, and now something is"
        return f"nothing is accepted at {self._where} any more"

    def no_property(self) -> str:
        """Return the sentence that a declared property is not allowed any more; in reverse, that it is now."""
        if self._is_reversed:
            return f"the property {self._where} was not allowed and is now"
        return f"the property {self._where} is not allowed any more"

    def no_properties(self, pattern: str | None) -> str:
        """Return the sentence that some properties are not allowed any more; in reverse, that they are now.

        They are the properties that match `pattern`, or the undeclared ones if it is None.
        """
        which = "are not declared" if pattern is None else f"match {shown_value(pattern)}"
        end = "were not allowed and are now" if self._is_reversed else "are not allowed any more"
        return f"properties that {which}, at {self._where}, {end}"

    def constrained(self, schema: Any) -> str:
        """Return the sentence that an unconstrained property or item must now fit a schema, or the reverse."""
        shown = shown_value(schema)
        if self._is_reversed:
            return f"{self._where} had to fit {shown} and is free now"
        return f"{self._where} was free and must fit {shown}"

    def changed(self, target: Node, before: Node | None) -> str:
        """Return the sentence that a keyword changed from `before` (old schema) to `target` (new schema).

        `before` is None if the old schema has no such keyword.
        """
        if isinstance(target, Required):
            end = "need not be there any more" if self._is_reversed else "is required now"
            return f"the property `{target.name}` of {self._where} {end}"
        if isinstance(target, All) or not target.place.keyword:
            end = "had to fit {} before" if self._is_reversed else "must fit {} now"
            return f"{self._where} {end.format(shown_value(target.place.value))}"
        if before is None:
            return self._added(target)
        if isinstance(target, OneValue) and isinstance(before, OneValue) and target.place.keyword == "enum":
            return self._listed(target, before)
        return self._replaced(target, before)

    def _added(self, target: Node) -> str:
        place = target.place
        name = place.pointer.rpartition("/")[2]
        of = f" for `{name}`" if name != place.keyword and place.keyword.startswith("depend") else ""
        if self._is_reversed:
            return f"`{place.keyword}` {shown_value(place.value)} of {self._where}{of} is gone"
        return f"`{place.keyword}` of {self._where} is new{of}: {shown_value(place.value)}"

    def _listed(self, target: OneValue, before: OneValue) -> str:
        gone = [value for key, value in before.by_key.items() if key not in target.by_key]
        shown = ", ".join(shown_value(value) for value in gone[:_MAX_LISTED])
        more = f" and {len(gone) - _MAX_LISTED} more" if len(gone) > _MAX_LISTED else ""
        if self._is_reversed:
            return f"`{before.place.keyword}` of {self._where} takes {shown}{more} now, and did not before"
        return f"`enum` of {self._where} does not take {shown}{more} any more"

    def _replaced(self, target: Node, before: Node) -> str:
        was, now = (target.place, before.place) if self._is_reversed else (before.place, target.place)
        if was.keyword != now.keyword:
            one, other = shown_value(was.value), shown_value(now.value)
            return f"`{was.keyword}` {one} of {self._where} became `{now.keyword}` {other}"
        if was.value == now.value:
            return f"`{now.keyword}` {shown_value(now.value)} of {self._where} means something else now"
        return f"`{now.keyword}` of {self._where} went from {' to '.join(_shown_differing(was.value, now.value))}"


def counterexample_sentence(*, is_reversed: bool) -> str:
    """Return the clause that a record which one schema accepts breaks the other."""
    if is_reversed:
        return "a record that the new schema accepts breaks the old one"
    return "a record that the old schema accepts breaks it"


def shown_value(value: Any) -> str:
    """Return a declared value as JSON text, truncated to 80 characters."""
    text = _text(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."


def _shown_differing(one: Any, other: Any) -> tuple[str, str]:
    """Return two values as short texts that differ.

    Long lists of different lengths are shown by their lengths, other long values from where they differ.
    """
    texts = _text(one), _text(other)
    if max(map(len, texts)) <= _MAX_SHOWN:
        return texts
    if isinstance(one, list) and isinstance(other, list) and len(one) != len(other):
        return f"{len(one)} alternatives", f"{len(other)}"
    differs_at = next(
        (at for at, pair in enumerate(zip(*texts, strict=False)) if len({*pair}) > 1), min(map(len, texts))
    )
    start = max(0, differs_at - _MAX_SHOWN // 4)  # with some of the common text as context
    first, second = (text[start : start + _MAX_SHOWN] for text in texts)
    return tuple(  # type: ignore[return-value] # two go in and two come out
        ("..." if start else "") + part + ("..." if start + len(part) < len(text) else "")
        for part, text in ((first, texts[0]), (second, texts[1]))
    )


def _text(value: Any) -> str:
    try:
        return text_of(value)
    except (TypeError, ValueError, RecursionError):
        return "a schema"
