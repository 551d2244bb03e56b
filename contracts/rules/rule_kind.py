"""Kinds of rules: the scope of compilation, the refused records, and the interface of a kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

from tidegate.contracts.document.fields import FieldType, SchemaFields, join, suggestion, tokens
from tidegate.contracts.document.rule_model import Cel, Now
from tidegate.contracts.document.terms import Scalar
from tidegate.contracts.errors import Problem
from tidegate.contracts.rules.clock import Clock
from tidegate.contracts.rules.compiled import FieldCheck, when_missing
from tidegate.contracts.rules.places import ANYWHERE, EACH, Path, go_together, is_deep
from tidegate.contracts.suggestions import similar
from tidegate.contracts.words import name_of


@dataclass(slots=True)
class Scope:
    """The context in which a rule is compiled: its place, the fields of the schema, and the problems found so far."""

    pointer: str
    fields: SchemaFields
    clock: Clock = field(default_factory=Clock)
    problems: list[Problem] = field(default_factory=list)
    uses_now: bool = False

    def now(self, which: Now) -> Callable[[], int]:
        """Return a function that returns the rule's `now`, in nanoseconds since 1970."""
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
        """Record a problem at the first pointer that goes through other arrays than one before it.

        `placed` maps places to pointers.
        """
        seen: list[str] = []
        for place, pointer in placed.items():
            other = next((each for each in seen if not go_together([tokens(each), tokens(pointer)])), None)
            if other is not None:
                reason = "a rule reads fields of one element, and of what holds it"
                self.refuse(place, f"`{pointer}` and `{other}` go through different arrays; {reason}")
                return
            seen.append(pointer)

    def expect(self, found: FieldType, types: frozenset[str], what: str, place: str) -> None:
        """Record a problem if a field can hold none of `types`; `what` describes them."""
        if not found.types & types:
            held = " or ".join(sorted(found.types)) or "nothing"
            self.refuse(place, f"the field never holds {what}: its type in the schema is {held}")


_WHERE: Final = "it stands once, at the start, and the name of a property follows it, as in `/**/period` or `/**/period/start`"


def undeclared(pointer: str, fields: SchemaFields) -> str:
    """Return the message about a pointer that the schema does not declare, with a similar one that it does."""
    path = tokens(pointer)
    near = _nearby(pointer, fields)
    through_array = any(token == EACH or token.isdigit() for token in path)
    # A field that is missing at the top may be elsewhere. The schema does not list members below arrays and maps.
    if not is_deep(path) and not through_array and (not near or fields.find(join(path[:1])) is None):
        near = suggestion(pointer, fields) or near
    return f"the schema declares no field `{pointer}`{near}"


def _nearby(pointer: str, fields: SchemaFields) -> str:
    """Return the end of a message about a pointer: the pointer with its first wrong name corrected, or ""."""
    path = tokens(pointer)
    for index, token in enumerate(path):
        if token == ANYWHERE or fields.find(join(path[: index + 1])) is not None:
            continue
        if token == EACH:
            return f"; `{join(path[:index])}` is no array" if index else ""
        for name in similar(token, fields.names(), most=3):
            right = join((*path[:index], name, *path[index + 1 :]))
            if fields.find(right) is not None:
                return f"; did you mean `{right}`?"
        break
    return ""


# The sets of records that rules refuse, as plain data, so that rules of all kinds can be compared with each other and with
# schemas. Each class describes exactly the records that break a rule, because proofs rely on it. `null` means that an
# absent or null field breaks the rule too. Values of a type that the class does not describe break no rule.


@dataclass(frozen=True, slots=True)
class Listed:
    """Records in which a field holds one of `values`."""

    field: str
    values: tuple[Scalar, ...]
    null: bool


@dataclass(frozen=True, slots=True)
class Others:
    """Records in which a field holds none of `values`, but a value of one of their types."""

    field: str
    values: tuple[Scalar, ...]
    null: bool


@dataclass(frozen=True, slots=True)
class Outside:
    """Records in which a field is outside of bounds.

    `limits` maps the names of bounds in `Range` to numbers, durations or moments. Moments may be relative to `now`, as
    in `now + 5 minutes`.
    """

    field: str
    limits: Mapping[str, Any]
    null: bool
    now: Now = "record"


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Records in which the text of a field contains no match of a pattern in RE2 syntax."""

    field: str
    pattern: str
    null: bool


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """Records in which a field is smaller than the one before it; with `strict`, smaller or equal."""

    fields: tuple[str, ...]
    strict: bool
    null: bool
    compare_as: str | None = None


@dataclass(frozen=True, slots=True)
class AbsentWhen:
    """Records in which a field is absent or null, while `other` holds one of `values` (None: any non-null value)."""

    field: str
    other: str
    values: tuple[Scalar, ...] | None


@dataclass(frozen=True, slots=True)
class BrokenExpression:
    """Records that break the expression of a rule of kind `cel`."""

    rule: Cel


OfField = Listed | Others | Outside | Unmatched
"""The refused sets that depend on the value of one field."""
RefusedSet = OfField | OutOfOrder | AbsentWhen | BrokenExpression
"""All refused sets; mypy checks that code which matches on them handles each."""


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Values:
    """The values of the fields that a sentence quotes, at the place where the rule was broken; None for no value."""

    by_pointer: dict[str, Any]
    fields: SchemaFields
    places: dict[str, Path]
    """The path to the value of each pointer, with positions for its `*`."""

    def __getitem__(self, pointer: str) -> Any:
        return self.by_pointer.get(pointer)

    def name(self, pointer: str) -> str:
        """Return the name of a field, or of the array element at which it was read."""
        return name_of(join(self.places[pointer]) if pointer in self.places else pointer)


class RuleKind(ABC, Generic[R]):
    """The base class of rule kinds: how rules of a kind are checked, compared and explained.

    Abstract methods have no sensible default; a kind that lacks one cannot be instantiated.
    """

    @abstractmethod
    def compile(self, rule: R, scope: Scope) -> FieldCheck | None:
        """Return the check of a rule; None, with problems in the scope, if the schema does not allow it."""

    @abstractmethod
    def fields(self, rule: R) -> tuple[str, ...]:
        """Return the pointers of the fields that a rule reads."""

    @abstractmethod
    def refused(self, rule: R) -> RefusedSet | None:
        """Return exactly what a rule refuses; None if no class can describe it, so proofs must ignore the rule."""

    @abstractmethod
    def sentence(self, rule: R, values: Values) -> str | None:
        """Return a sentence with values on how a record breaks a rule; None if the violation's message is enough."""

    @abstractmethod
    def remedy(self, rule: R, fields: SchemaFields) -> str | None:
        """Return the valid values of a rule, from the contract alone, to follow the words `passes with`."""

    def place(self, rule: R) -> str:
        """Return the pointer that violations of a rule name, without positions; "" for the whole record."""
        return self.fields(rule)[0]

    def cited(self, rule: R) -> tuple[str, ...]:
        """Return the pointers of the fields whose values `sentence` may contain."""
        return self.fields(rule)

    def places(self, rule: R) -> tuple[str, ...]:
        """Return the pointers of the places that a rule is about: its fields, or "" for the whole record."""
        return self.fields(rule) or ("",)

    def locate(self, rule: R, pointer: str, found: str) -> Path:
        """Return the path of a field of a rule, with `*` and `**` replaced as in `found`, a violation's pointer."""
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
        """Return a sentence on how a value that is not null breaks the rule; None if the message is enough."""


def check_of_field(rule: _AboutField, breaks: Callable[[Any], bool], what: str) -> FieldCheck:
    """Return the check of the values of one field; `what` is the end of the sentence about the field."""
    message = f"{rule.field.removeprefix('/')} {what}"
    return FieldCheck(
        (tokens(rule.field),), breaks, rule.field, message, when_missing((rule.field,), rule.nulls)
    )
