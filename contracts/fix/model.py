"""Models of a fix: steps that change fields of a record, applied in document order."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from tidegate.contracts.document.fields import tokens
from tidegate.contracts.document.rule_model import Condition
from tidegate.contracts.document.terms import ZONE_PATTERN, Part, Pointer, RuleId, Scalar

MOST_STEPS: Final = 100
MOST_VALUES: Final = 10_000
DATE_PARTS: Final = {"YYYY": 4, "MM": 2, "DD": 2, "HH": 2, "mm": 2, "ss": 2}
"""The parts of a date format, and the number of digits of each."""

FormatProblem = tuple[str, str]
"""A place below a step, and what is wrong there."""

Text = Annotated[str, Field(max_length=10_000)]
NewValue = Text | int | float | bool | None


class FixStep(Part):
    """The fields of every step. A step whose condition does not hold changes nothing."""

    field: Pointer
    when: Condition | None = Field(
        default=None, description="The step applies only when this holds; as in the rule `required_when`."
    )

    def contradictions(self) -> Iterator[FormatProblem]:
        """Yield the contradictions of the step in itself."""
        if self.when is not None:
            yield from ((f"/when{place}", message) for place, message in self.when.contradictions())


class Set(FixStep):
    """The field gets this value, whether it is there or not; the object that holds it must be there."""

    action: Literal["set"] = Field(description="One value for the field.")
    value: NewValue = Field(description="The new value.")


class Default(FixStep):
    """The field gets this value when it is absent or null."""

    action: Literal["default"] = Field(description="A value for a field that has none.")
    value: NewValue = Field(description="The value.")


class ValueChange(Part):
    """One value, and what it becomes."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True, validate_by_name=True)

    value_from: Scalar = Field(alias="from", description="The value in the record.")
    to: NewValue = Field(description="The value that it becomes.")


class Map(FixStep):
    """A field that has one of the listed values gets another value; all other values stay."""

    action: Literal["map"] = Field(description="Listed values become others.")
    values: tuple[ValueChange, ...] = Field(
        min_length=1, max_length=MOST_VALUES, description="Values and what they become."
    )

    def contradictions(self) -> Iterator[FormatProblem]:
        """Also yield a value that is listed twice; numbers are equal by their value."""
        yield from super().contradictions()
        seen = set()
        for index, each in enumerate(self.values):
            value = isinstance(each.value_from, bool), each.value_from  # Python's True equals 1
            if value in seen:
                yield f"/values/{index}/from", "the value is given twice; delete one"
            seen.add(value)


class Cast(FixStep):
    """The value gets another JSON type, if that loses nothing; otherwise it stays."""

    action: Literal["cast"] = Field(description="Another JSON type.")
    to: Literal["integer", "number", "string", "boolean"] = Field(description="The JSON type.")


class Rename(FixStep):
    """The field gets another name in the same object, unless the object has a field of that name."""

    action: Literal["rename"] = Field(description="Another name in the same object.")
    to: Annotated[str, Field(min_length=1, max_length=500)] = Field(description="The new name.")

    def contradictions(self) -> Iterator[FormatProblem]:
        """Also yield a field without a name: an element of an array."""
        yield from super().contradictions()
        yield from _named(self.field)


class Drop(FixStep):
    """The field is removed."""

    action: Literal["drop"] = Field(description="Remove the field.")

    def contradictions(self) -> Iterator[FormatProblem]:
        """Also yield a field without a name: an element of an array."""
        yield from super().contradictions()
        yield from _named(self.field)


class Trim(FixStep):
    """White space at both ends of a text is removed."""

    action: Literal["trim"] = Field(description="Remove white space at both ends.")


class Date(FixStep):
    """A text that has this form becomes a date or timestamp (RFC 3339); any other text stays."""

    action: Literal["date"] = Field(description="A date in another form.")
    form: str = Field(
        max_length=100,
        description="The form of the text in the record: YYYY, MM, DD, HH, mm and ss, and what is between them.",
        examples=["DD.MM.YYYY", "MM/DD/YYYY HH:mm"],
    )
    zone: Annotated[str, Field(pattern=ZONE_PATTERN)] = Field(
        default="Z", description="Time zone of a text that has a time of day."
    )

    def contradictions(self) -> Iterator[FormatProblem]:
        """Also yield a form without a complete date, or with a repeated part."""
        yield from super().contradictions()
        parts = date_parts(self.form)
        if sorted(set(parts)) != sorted(parts) or not {"YYYY", "MM", "DD"} <= set(parts):
            yield "/form", "a form has YYYY, MM and DD once each, and may have HH, mm and ss"
        elif ("mm" in parts) != ("HH" in parts) or ("ss" in parts and "mm" not in parts):
            yield "/form", "a time of day has HH and mm, and may have ss"


def date_parts(form: str) -> list[str]:
    """Return the date parts in a form, such as YYYY, in order."""
    return re.findall("|".join(DATE_PARTS), form)


def _named(pointer: str) -> Iterator[FormatProblem]:
    if tokens(pointer)[-1] == "*":
        yield "/field", "name a member of an object; an element of an array has no name"


AnyStep = Annotated[Set | Default | Map | Cast | Rename | Drop | Trim | Date, Field(discriminator="action")]


class Fix(Part):
    """A fix: a name, and the steps that are applied to each record."""

    fix: RuleId
    description: str | None = Field(
        default=None, max_length=2000, description="Why; shown to who approves it."
    )
    steps: tuple[AnyStep, ...] = Field(
        min_length=1, max_length=MOST_STEPS, description="The changes, applied in this order."
    )

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the fix in hexadecimal, equal for two documents that mean the same."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def text(self) -> str:
        """Return the fix as canonical JSON, which `parse_fix` reads back."""
        document: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        # A new value of null is the default, which `exclude_defaults` drops, but it is part of the step.
        for step, written in zip(self.steps, document["steps"], strict=True):
            if isinstance(step, Set | Default):
                written["value"] = step.value
        return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
