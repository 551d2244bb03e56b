"""Models of the rules of a contract document; `contracts/rules/kinds/` has the behaviour of each kind.

The models are in this package, below `rules`, because all other packages build on the contract document.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from tidegate.contracts.document.terms import (
    BOUND_PATTERN,
    Identifier,
    OnViolation,
    Part,
    Pointer,
    RuleId,
    Scalar,
)
from tidegate.contracts.document.times import date_key, instant_key
from tidegate.contracts.verdict import Severity

Contradiction = tuple[str, str]
"""A place below a rule, and what is wrong there."""


class BaseRule(Part):
    """The fields of every rule."""

    id: RuleId
    description: str | None = Field(default=None, description="Why the rule exists; shown with a refusal.")
    severity: Severity = Field(
        default=Severity.ERROR,
        description="error: on_violation decides about the record; warning: it is written and counted.",
    )
    on_violation: OnViolation | None = Field(
        default=None, description="Overrides the contract's on_violation for this rule."
    )
    nulls: Literal["pass", "violate"] = Field(
        default="pass",
        description="Whether an absent or null field passes (it is unknown) or violates the rule.",
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield the contradictions of the rule in itself, independent of the schema."""
        if self.severity is Severity.WARNING and self.on_violation is not None:
            remedy = "remove `on_violation`, or make the severity `error`"
            yield "/on_violation", f"a warning is always written and counted; {remedy}"


_VALUES_OR_SET = ConfigDict(json_schema_extra={"oneOf": [{"required": ["values"]}, {"required": ["set"]}]})


class Forbidden(BaseRule):
    """The field must not hold one of these values: sentinels such as 999 or 1900-01-01."""

    kind: Literal["forbidden"] = Field(description="Sentinels: values that mean unknown.")
    field: Pointer
    values: tuple[Scalar, ...] = Field(
        default=(),
        min_length=1,
        description="Values that the field must not hold.",
        examples=[[999], ["1900-01-01"]],
    )
    set: Identifier | None = Field(
        default=None, description="A reference set of the contract, instead of values."
    )

    model_config = _VALUES_OR_SET


Now = Literal["record", "batch"]


Bound = int | float | Annotated[str, Field(pattern=BOUND_PATTERN)]
"""A number; as text, a duration or a decimal that a double cannot represent."""


AMOUNT_BOUNDS = ("minimum", "exclusive_minimum", "maximum", "exclusive_maximum")
"""The bounds of numbers and durations: two from below, two from above."""
TIME_BOUNDS = ("not_before", "after", "not_after", "before")
"""The bounds of dates and timestamps, in the same order."""
_BOUNDS = (*AMOUNT_BOUNDS, *TIME_BOUNDS)
_EXCLUSIVE = {"exclusive_minimum", "exclusive_maximum", "after", "before"}

_NOW = "What `now` is: the record's own timestamp (in Kafka), or the time at which its batch is judged."


class Range(BaseRule):
    """The field must lie in a range: of numbers, of durations, or of dates and timestamps (RFC 3339).

    A date or timestamp may be relative to `now`: `now`, `now + 5 minutes`, `now - P1D`.
    """

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": [name]} for name in _BOUNDS]})

    kind: Literal["range"] = Field(description="Bounds of a number, a duration, a date or a timestamp.")
    field: Pointer
    minimum: Bound | None = Field(
        default=None,
        description="Smallest number or duration allowed; as text, a duration or a decimal that a double cannot represent.",
        examples=[0, "0.30000000000000001", "PT15M"],
    )
    maximum: Bound | None = Field(default=None, description="Largest number or duration allowed.")
    exclusive_minimum: Bound | None = Field(
        default=None, description="Numbers or durations must be above this."
    )
    exclusive_maximum: Bound | None = Field(
        default=None, description="Numbers or durations must be below this."
    )
    not_before: str | None = Field(default=None, description="Earliest date or timestamp allowed.")
    not_after: str | None = Field(
        default=None,
        description="Latest date or timestamp allowed.",
        examples=["2099-12-31", "now + 5 minutes"],
    )
    after: str | None = Field(default=None, description="Dates or timestamps must be later than this.")
    before: str | None = Field(default=None, description="Dates or timestamps must be earlier than this.")
    now: Now = Field(default="record", description=_NOW)

    @property
    def limits(self) -> dict[str, Any]:
        """Return the bounds that are set, by name."""
        return {name: limit for name in _BOUNDS if (limit := getattr(self, name)) is not None}

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield bounds that exclude each other or leave no value."""
        yield from super().contradictions()
        limits = self.limits
        numbers, times = (
            [name for name in names if name in limits] for names in (AMOUNT_BOUNDS, TIME_BOUNDS)
        )
        if not limits:
            yield "", f"a range needs a bound: {', '.join(f'`{name}`' for name in _BOUNDS)}"
        if numbers and times:
            message = f"`{times[0]}` bounds dates and `{numbers[0]}` numbers; a range has one or the other"
            yield f"/{times[0]}", message
            return
        names = AMOUNT_BOUNDS if numbers else TIME_BOUNDS
        for low, high in (names[:2], names[2:]):
            if low in limits and high in limits:
                yield f"/{high}", f"`{low}` and `{high}` bound the same side; keep one of them"
        for low, high in product(names[:2], names[2:]):
            if low in limits and high in limits and _is_empty(limits, low, high):
                yield f"/{high}", f"no value lies between `{low}` and `{high}`"


def _is_empty(limits: dict[str, Any], low: str, high: str) -> bool:
    (low_sort, low_key), (high_sort, high_key) = _sort_key(limits[low]), _sort_key(limits[high])
    if low_sort != high_sort or None in {low_key, high_key}:
        return False
    is_open = low in _EXCLUSIVE or high in _EXCLUSIVE
    return bool(low_key > high_key or (is_open and low_key == high_key))


def _sort_key(bound: str | float) -> tuple[str, Any]:
    """Return the sort of a bound and its key in that sort; the compiler reports text that is not a time."""
    if not isinstance(bound, str):
        return "number", bound
    if (day := date_key(bound)) is not None:
        return "date", day
    return "instant", instant_key(bound)


class Freshness(BaseRule):
    """The timestamp in the field must be recent: at most `max_age` old, and at most `max_ahead` in the future."""

    kind: Literal["freshness"] = Field(description="How old a date or timestamp may be.")
    field: Pointer
    max_age: str = Field(
        description="Longest time from the field's timestamp to now: a number of units, or an ISO 8601 duration.",
        examples=["15 minutes", "P1D"],
    )
    max_ahead: str | None = Field(
        default=None, description="Longest time from now to a timestamp in the future."
    )
    now: Now = Field(default="record", description=_NOW)


class Ordered(BaseRule):
    """The fields must not decrease from first to last (with `strict`: must increase)."""

    kind: Literal["ordered"] = Field(description="Fields whose values follow each other.")
    fields: tuple[Pointer, ...] = Field(
        min_length=2, description="Fields of one type, in the required order of their values."
    )
    strict: bool = Field(default=False, description="Whether equal neighbours violate the rule too.")
    compare_as: Literal["date", "timestamp"] | None = Field(
        default=None,
        description="How to compare a date with a timestamp, in UTC: by day, or the date as its first instant.",
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield fields that are named twice."""
        yield from super().contradictions()
        seen: set[str] = set()
        for index, name in enumerate(self.fields):
            if name in seen:
                yield f"/fields/{index}", f"field `{name}` is used twice"
            seen.add(name)


class Matches(BaseRule):
    """The string must contain a match of the pattern (RE2 syntax, linear time; anchor it with ^ and $)."""

    kind: Literal["matches"] = Field(description="A pattern for text.")
    field: Pointer
    pattern: str = Field(
        description="Regular expression in RE2 syntax, found anywhere in the text unless anchored."
    )


class OneOf(BaseRule):
    """The field must hold one of these values."""

    kind: Literal["one_of"] = Field(description="A list of the values allowed.")
    field: Pointer
    values: tuple[Scalar, ...] = Field(
        default=(), min_length=1, description="Values that the field may hold."
    )
    set: Identifier | None = Field(
        default=None, description="A reference set of the contract, instead of values."
    )

    model_config = _VALUES_OR_SET


_TESTS = ("equals", "one_of", "not_equals", "present")
_COMPARED = {"equals", "not_equals"}
"""The tests that compare with one value, which may be null."""


class Condition(Part):
    """The condition of a `required_when` rule: the field equals a value, is one of several, has another value, or any.

    Exactly one of `equals`, `one_of`, `not_equals` and `present` is given. An absent or null field has no value. `equals: null` requires a field that is null.
    `model_fields_set`, not the value, shows whether `equals` or `not_equals` was given.
    """

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [name]} for name in _TESTS]})

    field: Pointer
    equals: Scalar = Field(default=None, description="The rule applies when the field has this value.")
    one_of: tuple[Scalar, ...] | None = Field(
        default=None, min_length=1, description="The rule applies when the field has one of these values."
    )
    not_equals: Scalar = Field(
        default=None, description="The rule applies when the field has a value, and not this one."
    )
    present: Literal[True] | None = Field(
        default=None, description="The rule applies when the field is present and not null."
    )

    @property
    def is_negated(self) -> bool:
        """Return whether the rule applies to all values except those listed."""
        return "not_equals" in self.model_fields_set

    @property
    def values(self) -> tuple[Scalar, ...] | None:
        """Return the listed values of the field; None for any value except null."""
        if self.present:
            return None
        if self.is_negated:
            return (self.not_equals,)
        return (self.equals,) if self.one_of is None else self.one_of

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield a condition without a test, or with several; only `equals` and `not_equals` compare with null."""
        given = self.model_fields_set - {"field"}
        if len(given) != 1 or any(getattr(self, name) is None for name in given - _COMPARED):
            yield "", "give exactly one of `equals`, `one_of`, `not_equals` and `present`"

    @model_serializer(mode="wrap")
    def _keep_null(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Keep `equals: null` and `not_equals: null` when default values are omitted."""
        document: dict[str, Any] = serialize(self)
        return document | {name: getattr(self, name) for name in _COMPARED & self.model_fields_set}


class RequiredWhen(BaseRule):
    """The field must be present and not null when the condition holds."""

    kind: Literal["required_when"] = Field(description="A field that is required depending on another field.")
    field: Pointer
    when: Condition = Field(description="The condition under which the field is required.")

    def contradictions(self) -> Iterator[Contradiction]:
        """Also yield the contradictions of the condition."""
        yield from super().contradictions()
        yield from ((f"/when{place}", message) for place, message in self.when.contradictions())


class Cel(BaseRule):
    """A Common Expression Language expression over `this`, the record; it must not be false.

    With `field` it also has `value`, the value of that field, and `parent`, the object that contains it.
    """

    kind: Literal["cel"] = Field(description="An expression over the whole record, or over a field.")
    expr: str = Field(
        description="Expression in CEL that is true for a valid record.",
        examples=['this.ward != "icu" || has(this.consultant)'],
    )
    field: Pointer | None = Field(
        default=None,
        description="The field that `value` means in the expression; without it, `value` is undefined.",
    )
    strict: bool = Field(
        default=False,
        description="Whether a missing value that the expression needs violates the rule, as other errors do.",
    )


Rule = Annotated[
    Forbidden | Range | Freshness | Ordered | Matches | OneOf | RequiredWhen | Cel,
    Field(discriminator="kind"),
]
