"""Where a rule is compiled."""

from __future__ import annotations

from dataclasses import dataclass, field

from contracts.errors import Problem
from contracts.fields import FieldType, SchemaFields, suggestion


@dataclass(slots=True)
class Scope:
    """The place of a rule in the contract, the fields of the schema, and the problems of the rule found so far."""

    pointer: str
    fields: SchemaFields
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, place: str, message: str) -> None:
        """Note a problem at `place`, a pointer below the rule."""
        self.problems.append(Problem(self.pointer + place, message))

    def field_type(self, pointer: str, place: str) -> FieldType | None:
        """Look a field up; note a problem when the schema does not declare it."""
        found = self.fields.find(pointer)
        if found is None:
            self.refuse(place, f"the schema declares no field `{pointer}`{suggestion(pointer, self.fields)}")
        return found

    def expect(self, found: FieldType, types: frozenset[str], what: str, place: str) -> None:
        """Note a problem when a field never holds one of `types`."""
        if not found.types & types:
            held = " or ".join(sorted(found.types)) or "nothing"
            self.refuse(place, f"the field never holds {what}: its type in the schema is {held}")
