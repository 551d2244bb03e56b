"""Where a rule is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from tidegate.contracts.document.fields import FieldType, SchemaFields, join, suggestion, tokens
from tidegate.contracts.document.rule_model import Now
from tidegate.contracts.errors import Problem
from tidegate.contracts.rules.clock import Clock
from tidegate.contracts.rules.places import EACH, go_together


@dataclass(slots=True)
class Scope:
    """The place of a rule in the contract, the fields of the schema, and the problems of the rule found so far."""

    pointer: str
    fields: SchemaFields
    clock: Clock = field(default_factory=Clock)
    problems: list[Problem] = field(default_factory=list)
    asks_now: bool = False

    def now(self, which: Now) -> Callable[[], int]:
        """Make what gives the moment that a rule takes for now, in nanoseconds since 1970."""
        self.asks_now = True
        clock = self.clock
        return (lambda: clock.record) if which == "record" else (lambda: clock.batch)

    def refuse(self, place: str, message: str) -> None:
        """Note a problem at `place`, a pointer below the rule."""
        self.problems.append(Problem(self.pointer + place, message))

    def field_type(self, pointer: str, place: str) -> FieldType | None:
        """Look a field up; note a problem when the schema does not declare it."""
        found = self.fields.find(pointer)
        if found is None:
            self.refuse(place, undeclared(pointer, self.fields))
        return found

    def together(self, placed: Mapping[str, str]) -> None:
        """Note a problem at the first of several pointers, given by their place, that goes through other arrays."""
        seen: list[str] = []
        for place, pointer in placed.items():
            other = next((each for each in seen if not go_together([tokens(each), tokens(pointer)])), None)
            if other is not None:
                reason = "a rule reads fields of one element, and of what holds it"
                self.refuse(place, f"`{pointer}` and `{other}` go through different arrays; {reason}")
                return
            seen.append(pointer)

    def expect(self, found: FieldType, types: frozenset[str], what: str, place: str) -> None:
        """Note a problem when a field never holds one of `types`."""
        if not found.types & types:
            held = " or ".join(sorted(found.types)) or "nothing"
            self.refuse(place, f"the field never holds {what}: its type in the schema is {held}")


def undeclared(pointer: str, fields: SchemaFields) -> str:
    """Write the message about a pointer that the schema does not declare, with the nearest one that it does."""
    path = tokens(pointer)
    near = _nearby(pointer, fields)
    through_array = any(token == EACH or token.isdigit() for token in path)
    # A field that is missed at the top may stand elsewhere. Below arrays and maps no schema lists the members.
    if not through_array and (not near or fields.find(join(path[:1])) is None):
        near = suggestion(pointer, fields) or near
    return f"the schema declares no field `{pointer}`{near}"


def _nearby(pointer: str, fields: SchemaFields) -> str:
    """Return the end of a message about a pointer: the same one with its first wrong name put right."""
    path = tokens(pointer)
    for index, token in enumerate(path):
        if fields.find(join(path[: index + 1])) is not None:
            continue
        if token == EACH:
            return f"; `{join(path[:index])}` is no array" if index else ""
        for name in get_close_matches(token, sorted(fields.names()), n=3):
            right = join((*path[:index], name, *path[index + 1 :]))
            if fields.find(right) is not None:
                return f"; did you mean `{right}`?"
        break
    return ""
