"""What a difference is in words: what the earlier schema said and what the later one says, whichever side it breaks.

Documents of the new schema that the old one is asked to accept are told from the earlier schema to the later one too: a
maximum that was raised was raised, and it is the readers of the earlier schema who meet larger numbers.
"""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.inclusion.json_schema.gaps import Situation
from tidegate.contracts.inclusion.json_schema.nodes import All, Node, OneValue, Required, Side
from tidegate.contracts.inclusion.json_schema.values import text_of

_MAX_SHOWN: Final = 80
_MAX_LISTED: Final = 5


class Words:
    """Sentences about one place in a record."""

    def __init__(self, at: Situation) -> None:
        self._is_back = at.old is Side.OTHER
        """Whether the schema that is asked to accept the documents is the earlier one."""
        self._where = f"`{join(at.field)}`" if at.field else "the record"
        self.condition = "under a condition, " if at.is_conditional else ""

    @property
    def shown(self) -> str:
        """Say that there is a counterexample."""
        return shown_apart(is_back=self._is_back)

    def open(self, *, is_out_of_steps: bool) -> str:
        """Say that nothing was decided."""
        one, other = ("new", "fits the old one") if self._is_back else ("old", "keeps it")
        end = "was not decided within the given steps" if is_out_of_steps else "cannot be decided"
        return f"whether every record that the {one} schema accepts {other} {end}"

    def no_item(self) -> str:
        """Say that there may be no item, or none before."""
        if self._is_back:
            return f"no item was allowed at {self._where}, and now there is one"
        return f"no item is allowed at {self._where} any more"

    def nothing(self) -> str:
        """Say that nothing is accepted, or was."""
        if self._is_back:
            return f"nothing was accepted at {self._where}, and now something is"
        return f"nothing is accepted at {self._where} any more"

    def no_property(self) -> str:
        """Say that a declared property may not be there, or might not."""
        if self._is_back:
            return f"the property {self._where} was not allowed and is now"
        return f"the property {self._where} is not allowed any more"

    def no_properties(self, pattern: str | None) -> str:
        """Say that properties which match a pattern, or are not declared, may not be there, or might not."""
        which = "are not declared" if pattern is None else f"match {shown_value(pattern)}"
        end = "were not allowed and are now" if self._is_back else "are not allowed any more"
        return f"properties that {which}, at {self._where}, {end}"

    def constrained(self, schema: Any) -> str:
        """Say that a property or item that was free is not, or is now."""
        shown = shown_value(schema)
        if self._is_back:
            return f"{self._where} had to fit {shown} and is free now"
        return f"{self._where} was free and must fit {shown}"

    def changed(self, target: Node, before: Node | None) -> str:
        """Return how a keyword changed. `before` is what the schema of the documents says of the kind, `target` the other's."""
        if isinstance(target, Required):
            end = "need not be there any more" if self._is_back else "is required now"
            return f"the property `{target.name}` of {self._where} {end}"
        if isinstance(target, All) or not target.place.keyword:
            end = "had to fit {} before" if self._is_back else "must fit {} now"
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
        if self._is_back:
            return f"`{place.keyword}` {shown_value(place.value)} of {self._where}{of} is gone"
        return f"`{place.keyword}` of {self._where} is new{of}: {shown_value(place.value)}"

    def _listed(self, target: OneValue, before: OneValue) -> str:
        gone = [value for key, value in before.by_key.items() if key not in target.by_key]
        shown = ", ".join(shown_value(value) for value in gone[:_MAX_LISTED])
        more = f" and {len(gone) - _MAX_LISTED} more" if len(gone) > _MAX_LISTED else ""
        if self._is_back:
            return f"`{before.place.keyword}` of {self._where} takes {shown}{more} now, and did not before"
        return f"`enum` of {self._where} does not take {shown}{more} any more"

    def _replaced(self, target: Node, before: Node) -> str:
        was, now = (target.place, before.place) if self._is_back else (before.place, target.place)
        if was.keyword != now.keyword:
            one, other = shown_value(was.value), shown_value(now.value)
            return f"`{was.keyword}` {one} of {self._where} became `{now.keyword}` {other}"
        if was.value == now.value:
            return f"`{now.keyword}` {shown_value(now.value)} of {self._where} means something else now"
        return f"`{now.keyword}` of {self._where} went from {' to '.join(_two_shown(was.value, now.value))}"


def shown_apart(*, is_back: bool) -> str:
    """Say that a document tells two schemas apart, and of which it is."""
    if is_back:
        return "a record that the new schema accepts breaks the old one"
    return "a record that the old schema accepts breaks it"


def shown_value(value: Any) -> str:
    """Write a declared value, shortened where it is long."""
    text = _text(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."


def _two_shown(one: Any, other: Any) -> tuple[str, str]:
    """Write two values so that they can be told apart: long lists by their lengths, other long ones from where they differ."""
    texts = _text(one), _text(other)
    if max(map(len, texts)) <= _MAX_SHOWN:
        return texts
    if isinstance(one, list) and isinstance(other, list) and len(one) != len(other):
        return f"{len(one)} alternatives", f"{len(other)}"
    same = next(
        (at for at, pair in enumerate(zip(*texts, strict=False)) if len({*pair}) > 1), min(map(len, texts))
    )
    start = max(0, same - _MAX_SHOWN // 4)
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
