"""Kinds of rules: the scope of compilation, the refused records, and the interface of a kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Generic, Protocol, TypeVar

from tidegate.contracts.document.fields import FieldType, SchemaFields, join, suggestion, tokens
from tidegate.contracts.document.rule_model import Cel, Now
from tidegate.contracts.document.terms import Scalar
from tidegate.contracts.errors import Problem
from tidegate.contracts.rules.clock import Clock
from tidegate.contracts.rules.compiled import FieldCheck, when_missing
from tidegate.contracts.rules.places import ANYWHERE, EACH, Path, go_together, is_deep
from tidegate.contracts.words import name_of


@dataclass(slots=True)
class Scope:
    """The place of a rule in the contract, the fields of the schema, and the problems of the rule found so far."""

    pointer: str
    fields: SchemaFields
    clock: Clock = field(default_factory=Clock)
    problems: list[Problem] = field(default_factory=list)
    uses_now: bool = False

    def now(self, which: Now) -> Callable[[], int]:
        """Return a function that returns the rule's current time, in nanoseconds since 1970."""
        self.uses_now = True
        clock = self.clock
        return (lambda: clock.record) if which == "record" else (lambda: clock.batch)

    def refuse(self, place: str, message: str) -> None:
        """Record a problem at `place`, a pointer below the rule."""
        self.problems.append(Problem(self.pointer + place, message))

    def field_type(self, pointer: str, place: str) -> FieldType | None:
        """Return the type of a field; record a problem if the schema does not declare it."""
        path = tokens(pointer)
        if ANYWHERE in path[1:] or (is_deep(path) and (len(path) == 1 or path[1] == EACH)):
            self.refuse(place, f"in `{pointer}` `**` is out of place: {_WHERE}")
            return None
        found = self.fields.find(pointer)
        if found is None:
            self.refuse(place, undeclared(pointer, self.fields))
        return found

    def together(self, placed: Mapping[str, str]) -> None:
        """Record a problem at the first of several pointers, given by their place, that goes through other arrays."""
        seen: list[str] = []
        for place, pointer in placed.items():
            other = next((each for each in seen if not go_together([tokens(each), tokens(pointer)])), None)
            if other is not None:
                reason = "a rule reads fields of one element, and of what holds it"
                self.refuse(place, f"`{pointer}` and `{other}` go through different arrays; {reason}")
                return
            seen.append(pointer)

    def expect(self, found: FieldType, types: frozenset[str], what: str, place: str) -> None:
        """Record a problem when a field never holds one of `types`."""
        if not found.types & types:
            held = " or ".join(sorted(found.types)) or "nothing"
            self.refuse(place, f"the field never holds {what}: its type in the schema is {held}")


_WHERE: Final = "it stands once, at the start, and the name of a property follows it, as in `/**/period` or `/**/period/start`"


def undeclared(pointer: str, fields: SchemaFields) -> str:
    """Write the message about a pointer that the schema does not declare, with the nearest one that it does."""
    path = tokens(pointer)
    near = _nearby(pointer, fields)
    through_array = any(token == EACH or token.isdigit() for token in path)
    # A field that is missed at the top may stand elsewhere. Below arrays and maps no schema lists the members.
    if not is_deep(path) and not through_array and (not near or fields.find(join(path[:1])) is None):
        near = suggestion(pointer, fields) or near
    return f"the schema declares no field `{pointer}`{near}"


def _nearby(pointer: str, fields: SchemaFields) -> str:
    """Return the end of a message about a pointer: the same one with its first wrong name put right."""
    path = tokens(pointer)
    for index, token in enumerate(path):
        if token == ANYWHERE or fields.find(join(path[: index + 1])) is not None:
            continue
        if token == EACH:
            return f"; `{join(path[:index])}` is no array" if index else ""
        for name in get_close_matches(token, sorted(fields.names()), n=3):
            right = join((*path[:index], name, *path[index + 1 :]))
            if fields.find(right) is not None:
                return f"; did you mean `{right}`?"
        break
    return ""


# What rules refuse, as plain data, so that rules of any kind compare with each other and with schemas. Each form says
# exactly which records break a rule, no more and no fewer: comparisons prove with it. `null` says that an absent or null
# field breaks the rule, too. Values of another type than a form speaks of break no rule.


@dataclass(frozen=True, slots=True)
class Listed:
    """A field that holds one of some values."""

    field: str
    values: tuple[Scalar, ...]
    null: bool


@dataclass(frozen=True, slots=True)
class Others:
    """A field that holds a value of the types of some values, and none of these."""

    field: str
    values: tuple[Scalar, ...]
    null: bool


@dataclass(frozen=True, slots=True)
class Outside:
    """A field outside of bounds: numbers, durations or moments by the names that `Range` gives them.

    Bounds of moments may count from `now`, as in `now + 5 minutes`.
    """

    field: str
    limits: Mapping[str, Any]
    null: bool
    now: Now = "record"


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A field whose text has no match of a pattern in RE2 syntax."""

    field: str
    pattern: str
    null: bool


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """Fields with a value smaller than the one before it; with `strict`, or equal to it."""

    fields: tuple[str, ...]
    strict: bool
    null: bool
    compare_as: str | None = None


@dataclass(frozen=True, slots=True)
class AbsentWhen:
    """A field that is absent or null where another one holds one of `values`; None for any value but null."""

    field: str
    other: str
    values: tuple[Scalar, ...] | None


@dataclass(frozen=True, slots=True)
class BrokenExpression:
    """Records that break the expression of a rule of kind `cel`."""

    rule: Cel


OfField = Listed | Others | Outside | Unmatched
"""The forms that speak of the values of one field."""
RefusedSet = OfField | OutOfOrder | AbsentWhen | BrokenExpression
"""Every form; who reads them handles each, and mypy says where one is forgotten."""


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Values:
    """The values of the fields that a sentence cites, at the place where the rule was broken; None for no value."""

    by_pointer: dict[str, Any]
    fields: SchemaFields
    places: dict[str, Path]
    """By pointer the path to the value, its `*` as positions."""

    def __getitem__(self, pointer: str) -> Any:
        return self.by_pointer.get(pointer)

    def name(self, pointer: str) -> str:
        """Name a field, or the element that it is of."""
        return name_of(join(self.places[pointer]) if pointer in self.places else pointer)


class RuleKind(ABC, Generic[R]):
    """One kind of rule: how its rules are checked, compared and explained.

    Abstract methods have no sensible default; a kind without them cannot be registered.
    """

    @abstractmethod
    def compile(self, rule: R, scope: Scope) -> FieldCheck | None:
        """Compile the check of a rule; None, and problems of the scope, where the schema does not allow it."""

    @abstractmethod
    def fields(self, rule: R) -> tuple[str, ...]:
        """Return the pointers of the fields that a rule reads."""

    @abstractmethod
    def refused(self, rule: R) -> RefusedSet | None:
        """Return exactly what a rule refuses; None if no form says it, so that comparisons prove nothing of it."""

    @abstractmethod
    def sentence(self, rule: R, values: Values) -> str | None:
        """Write with its values how a record breaks a rule; None if the violation's message says all there is."""

    @abstractmethod
    def remedy(self, rule: R, fields: SchemaFields) -> str | None:
        """Write the valid values of a rule, from the contract alone: the end of a sentence with `passes with`."""

    def place(self, rule: R) -> str:
        """Return the pointer that a violation of a rule names, without the positions of elements; "" for the record."""
        return self.fields(rule)[0]

    def cited(self, rule: R) -> tuple[str, ...]:
        """Return the pointers of the fields whose values the sentence holds."""
        return self.fields(rule)

    def places(self, rule: R) -> tuple[str, ...]:
        """Return the places in a record that a rule is about: its fields, and "" for the whole record."""
        return self.fields(rule) or ("",)

    def locate(self, rule: R, pointer: str, found: str) -> Path:
        """Return the path of a field of a rule, its `*` and `**` as the pointer of a violation names them."""
        place, named, path = tokens(self.place(rule)), tokens(found), tokens(pointer)
        if is_deep(place):
            start = len(named) - len(place) + 1
            before, named, place = named[:start], named[start:], place[1:]
            path = before + path[1:] if is_deep(path) else path
        pairs = zip(place, named, strict=False)
        elements = iter([place for step, place in pairs if step == EACH])
        return tuple(next(elements, EACH) if step == EACH else step for step in path)


class _AboutField(Protocol):
    """A rule about one field."""

    @property
    def field(self) -> str: ...

    @property
    def nulls(self) -> str: ...


F = TypeVar("F", bound=_AboutField)


class FieldRuleKind(RuleKind[F]):
    """A kind of rule about the values of one field."""

    def fields(self, rule: F) -> tuple[str, ...]:
        """Return the pointer of the field."""
        return (rule.field,)

    def sentence(self, rule: F, values: Values) -> str | None:
        """Describe the value; None for a missing one, which the violation's message describes."""
        return None if values[rule.field] is None else self.sentence_of_value(rule, values)

    @abstractmethod
    def sentence_of_value(self, rule: F, values: Values) -> str | None:
        """Write how a value that is not null breaks the rule."""


def check_of_field(rule: _AboutField, breaks: Callable[[Any], bool], what: str) -> FieldCheck:
    """Return the check of the values of one field; `what` is the end of the sentence about the field."""
    message = f"{rule.field.removeprefix('/')} {what}"
    return FieldCheck(
        (tokens(rule.field),), breaks, rule.field, message, when_missing((rule.field,), rule.nulls)
    )
