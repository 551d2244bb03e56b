"""What every part of the system asks about rules of one kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tidegate.contracts.document.fields import SchemaFields, join, tokens
from tidegate.contracts.rules.compiled import Built, when_missing
from tidegate.contracts.rules.places import EACH, Path
from tidegate.contracts.rules.refused_sets import RefusedSet
from tidegate.contracts.rules.scope import Scope
from tidegate.contracts.words import name_of

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

    What is abstract has no sensible default, so that a kind without it cannot be registered.
    """

    @abstractmethod
    def compile(self, rule: R, scope: Scope) -> Built | None:
        """Compile the check of a rule; None, and problems of the scope, where the schema does not allow it."""

    @abstractmethod
    def fields(self, rule: R) -> tuple[str, ...]:
        """Return the pointers of the fields that a rule reads."""

    @abstractmethod
    def refused(self, rule: R) -> RefusedSet | None:
        """Return exactly what a rule refuses; None where no form says it, so that comparisons prove nothing of it."""

    @abstractmethod
    def sentence(self, rule: R, values: Values) -> str | None:
        """Write with its values how a record breaks a rule; None where the violation's message says all there is."""

    @abstractmethod
    def remedy(self, rule: R, fields: SchemaFields) -> str | None:
        """Write what would have kept a rule, from the contract alone: the end of a sentence with `passes with`."""

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
        """Return the path of a field of a rule, its `*` as the elements that the pointer of a violation names."""
        pairs = zip(tokens(self.place(rule)), tokens(found), strict=False)
        elements = iter([place for step, place in pairs if step == EACH])
        return tuple(next(elements, EACH) if step == EACH else step for step in tokens(pointer))


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
        """Write what the value is; None for a missing one, of which the violation's message speaks."""
        return None if values[rule.field] is None else self.sentence_of_value(rule, values)

    @abstractmethod
    def sentence_of_value(self, rule: F, values: Values) -> str | None:
        """Write how a value that is not null breaks the rule."""


def check_of_field(rule: _AboutField, breaks: Callable[[Any], bool], what: str) -> Built:
    """Return the check of the values of one field; `what` ends the sentence that begins with the field."""
    message = f"{rule.field.removeprefix('/')} {what}"
    return Built((tokens(rule.field),), breaks, rule.field, message, when_missing((rule.field,), rule.nulls))
