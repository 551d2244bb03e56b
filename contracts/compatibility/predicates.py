"""Comparable sets of the values that rules refuse, built from the plain form of each kind of rule.

A rule about one field refuses some numbers, moments, strings or booleans, and perhaps null, but no value of any other
type. Rules about the order of fields, conditions and expressions have forms of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, Final, assert_never

import re2  # type: ignore[import-untyped] # it publishes no types

from tidegate.contracts.document.fields import FieldType, SchemaFields, tokens
from tidegate.contracts.document.rule_model import AMOUNT_BOUNDS, BaseRule, Now
from tidegate.contracts.document.terms import Scalar
from tidegate.contracts.inclusion.intervals import Cut, Intervals
from tidegate.contracts.inclusion.json_schema.regular import Question, Searched, searched
from tidegate.contracts.rules.clock import offset_of_now
from tidegate.contracts.rules.kinds.registry import refused_set
from tidegate.contracts.rules.places import Path, array_of
from tidegate.contracts.rules.rule_kind import (
    AbsentWhen,
    BrokenExpression,
    Listed,
    Others,
    OutOfOrder,
    Outside,
    Unmatched,
)
from tidegate.contracts.rules.rule_kind import OfField as FieldForm
from tidegate.contracts.rules.values import (
    DATES,
    DATES_OR_INSTANTS,
    Order,
    exact,
    number_of,
    order_of,
    order_of_durations,
    order_of_moments,
    order_of_times,
)

MAX_SEARCHES: Final = 200
"""Maximum searches through pattern automata in one comparison."""
MAX_MOVES_TOGETHER: Final = 200_000
"""Maximum transitions of all these searches; those of large patterns take 10,000 each, at 10 µs a transition."""

_LIMITS: Final = (MAX_SEARCHES, MAX_MOVES_TOGETHER)
_left: Final[ContextVar[list[int]]] = ContextVar("left", default=[*_LIMITS])  # noqa: B039 - replaced for each comparison
_UNSURE: Final = re.compile(r"\\[^dwDW.\\/\-+*?()\[\]{}|^$]|\(\?|\[\[:|\[\^?\]|\{,")
_PARTS: Final = re.compile(r"(\\.|\[(?:\\.|[^\\\]])*\])|\.", re.DOTALL)
"""Escapes and classes, which stay as they are, and `.` outside of them."""


def ecma_pattern(pattern: str) -> str | None:
    """Return an RE2 pattern in ECMA-262 syntax; None if its meaning may differ there.

    Rules are judged with RE2, but patterns are compared by the automata of the JSON Schema prover, which read ECMA-262.
    There, `.` also excludes carriage returns and the separators of lines and paragraphs.
    """
    return None if _UNSURE.search(pattern) else _PARTS.sub(lambda part: part[1] or "[^\\n]", pattern)


@contextmanager
def bounded_searches() -> Iterator[None]:
    """Limit the searches through automata of patterns, and their transitions together; further ones find nothing."""
    token = _left.set([*_LIMITS])
    try:
        yield
    finally:
        _left.reset(token)


def first_text(inside: tuple[str, ...], outside: tuple[str, ...] = ()) -> str | None:
    """Return a shortest string that matches all `inside` and no `outside` patterns; None if none was found."""
    return _search(inside, outside)[0]


def includes_pattern(wide: str, narrow: str) -> bool:
    """Return whether every string that matches `narrow` is proven to match `wide`."""
    return wide == narrow or _search((narrow,), (wide,)) == (None, True)


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern matches anywhere in a string, by RE2 as in the judging of rules."""
    return _compiled(pattern).search(text) is not None


def _search(inside: tuple[str, ...], outside: tuple[str, ...]) -> tuple[str | None, bool]:
    """Return a matching string or None, and whether the answer is certain; without a search beyond the limits.

    Cached searches count too, so that the result of a comparison does not depend on the cache.
    """
    left = _left.get()
    left[0] -= 1
    if left[0] < 0 or left[1] <= 0:
        return None, False
    found = _answer(inside, outside)
    left[1] -= found.moves
    return found.text, found.is_certain


@lru_cache(maxsize=1024)
def _answer(inside: tuple[str, ...], outside: tuple[str, ...]) -> Searched:
    written = [ecma_pattern(each) for each in (*inside, *outside)]
    known = tuple(each for each in written if each is not None)
    if len(known) < len(written):
        return Searched(None, False, 0)
    return searched(Question(known[: len(inside)], known[len(inside) :]))


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    return re2.compile(pattern)


_LOWER: Final = {"minimum": 0, "exclusive_minimum": 1, "not_before": 0, "after": 1}
_UPPER: Final = {"maximum": 1, "exclusive_maximum": 0, "not_after": 1, "before": 0}
_SPACE = re.compile(r"\s+")
_QUOTE = re.compile(r"""["']|//""")


@dataclass(frozen=True, slots=True)
class Strings:
    """A set of strings: those listed, or with `is_complement` all others, and those that miss a pattern."""

    listed: frozenset[str] = frozenset()
    is_complement: bool = False
    unmatched: frozenset[str] = frozenset()
    """Patterns: every string that does not match one of them belongs to the set."""

    def union(self, other: Strings) -> Strings:
        """Return the union of both sets."""
        unmatched = self.unmatched | other.unmatched
        match self.is_complement, other.is_complement:
            case True, True:
                return Strings(self.listed & other.listed, True, unmatched)
            case True, False:
                return Strings(self.listed - other.listed, True, unmatched)
            case False, True:
                return Strings(other.listed - self.listed, True, unmatched)
            case _:
                return Strings(self.listed | other.listed, False, unmatched)

    def has(self, text: str) -> bool:
        """Return whether a string is in the set."""
        return (text in self.listed) != self.is_complement or any(
            not matches(pattern, text) for pattern in self.unmatched
        )

    def is_within(self, other: Strings) -> bool:
        """Return whether this set is proven to be a subset of the other; False if unknown."""
        left_out = [text for text in other.listed if not other.has(text)] if other.is_complement else None
        if self.is_complement and (left_out is None or not self.listed.issuperset(left_out)):
            return False
        if not self.is_complement and not all(other.has(text) for text in self.listed):
            return False
        return all(
            (left_out is not None and all(matches(pattern, text) for text in left_out))
            or any(includes_pattern(pattern, each) for each in other.unmatched)
            for pattern in self.unmatched
        )


@dataclass(frozen=True, slots=True)
class RefusedValues:
    """The refused values of one field. Moments are keys of the order of the field; dates are ordinal days."""

    numbers: Intervals = field(default_factory=Intervals)
    moments: Intervals = field(default_factory=Intervals)
    strings: Strings = field(default_factory=Strings)
    booleans: frozenset[bool] = frozenset()
    null: bool = False

    def union(self, other: RefusedValues) -> RefusedValues:
        """Return the union of both refused sets."""
        return RefusedValues(
            self.numbers.union(other.numbers),
            self.moments.union(other.moments),
            self.strings.union(other.strings),
            self.booleans | other.booleans,
            self.null or other.null,
        )

    def is_within(self, other: RefusedValues, domain: Domain) -> bool:
        """Return whether this set is proven to be a subset of the other, within the values that the domain allows."""
        return (
            (other.null or not self.null)
            and self.booleans <= other.booleans
            and self.strings.is_within(other.strings)
            and self.numbers.minus(other.numbers).is_empty(whole=domain.numbers_are_whole)
            and self.moments.minus(other.moments).is_empty(whole=domain.moments_are_days)
        )


@dataclass(frozen=True, slots=True)
class Domain:
    """What the schema declares of a field: the order of its times (None: no times), and whether numbers are whole."""

    times: Order | None
    numbers_are_whole: bool

    @property
    def moments_are_days(self) -> bool:
        """Return whether the moments are dates without a time."""
        return self.times is not None and self.times.name == DATES.name

    @property
    def sort(self) -> tuple[str, str]:
        """Return a key that is equal for domains whose times can be compared."""
        return (self.times.name if self.times else "", self.times.example if self.times else "")


@dataclass(frozen=True, slots=True)
class OfField:
    """A rule that refuses a set of values of one field."""

    field: str
    refused: RefusedValues
    domain: Domain


@dataclass(frozen=True, slots=True)
class NearNow:
    """A rule that requires moments between two bounds relative to now, in nanoseconds; None if unbounded."""

    field: str
    now: Now
    between: tuple[Cut | None, Cut | None]
    null: bool
    sort: tuple[str, str]


@dataclass(frozen=True, slots=True)
class WhenNeeded:
    """A rule that requires `field` if `other` has a value in `condition`; None stands for any value but null."""

    field: str
    other: str
    condition: RefusedValues | None
    domain: Domain


@dataclass(frozen=True, slots=True)
class Expression:
    """A rule in CEL; here, only expressions of equal text (apart from spaces) are comparable."""

    text: str
    null: bool
    about: tuple[str | None, bool] = (None, False)
    """The field that the rule is about (None: the whole record), and whether it is strict."""


@dataclass(frozen=True, slots=True)
class InOrder:
    """A rule that requires the values of some fields to be in order; `sorts` maps each field to its order's key."""

    form: OutOfOrder
    sorts: Mapping[str, tuple[str, str] | None]


Predicate = OfField | NearNow | InOrder | WhenNeeded | Expression


def predicate_of(rule: BaseRule, fields: SchemaFields, *, fits: bool) -> Predicate | None:
    """Return what a rule refuses; None if it has no comparable form, or the schema does not declare its field.

    `fits` says whether the compared records fit their schema.
    """
    form = refused_set(rule)
    match form:
        case None:
            return None
        case OutOfOrder():
            found_types = {name: fields.find(name) for name in form.fields}
            is_unordered = any(map(_may_be_either, found_types.values()))
            return (
                None
                if is_unordered
                else InOrder(form, {name: _sort(each) for name, each in found_types.items()})
            )
        case BrokenExpression(cel):
            return Expression(_plain(cel.expr), cel.nulls == "violate", (cel.field, cel.strict))
        case AbsentWhen(field, other, values):
            found = fields.find(other)
            if found is None:
                return None
            domain = domain_of(found, fits=fits)
            return WhenNeeded(field, other, None if values is None else _listed(values, domain), domain)
        case Listed() | Others() | Outside() | Unmatched():
            found = fields.find(form.field)
            is_unordered = isinstance(form, Outside) and _may_be_either(found)
            return (
                None if found is None or is_unordered else _of_field(form, found, domain_of(found, fits=fits))
            )
        case _:
            assert_never(form)


def _may_be_either(found: FieldType | None) -> bool:
    """Return whether a field mixes dates and date-times, whose order is not transitive and so implies nothing."""
    return found is not None and order_of_moments(found) is DATES_OR_INSTANTS


def _sort(found: FieldType | None) -> tuple[str, str] | None:
    """Return a key that is equal for fields whose values can be compared; None if the values have no order."""
    order = None if found is None else order_of(found)
    return None if order is None else (order.name, order.example)


def _of_field(form: FieldForm, found: FieldType, domain: Domain) -> OfField | NearNow | None:
    if isinstance(form, Outside) and (between := _from_now(form)) is not None:
        return NearNow(form.field, form.now, between, form.null, domain.sort)
    refused = None if order_of_durations(found) is not None else _refused(form, domain)
    return None if refused is None else OfField(form.field, replace(refused, null=form.null), domain)


def domain_of(found: FieldType, *, fits: bool) -> Domain:
    """Return the domain of a field; without `fits`, of records that may not fit the schema."""
    return Domain(order_of_times(found), fits and "number" not in found.possible)


def implied(predicate: Predicate, others: Iterable[Predicate]) -> bool:
    """Return whether other rules are proven to refuse everything that a rule refuses; False if unknown."""
    others = list(others)
    if isinstance(predicate, OfField):
        alike = [
            each.refused
            for each in others
            if isinstance(each, OfField)
            and each.field == predicate.field
            and each.domain.sort == predicate.domain.sort
        ]
        return predicate.refused.is_within(
            reduce(RefusedValues.union, alike, RefusedValues()), predicate.domain
        )
    return any(_implies(each, predicate) for each in others)


def _implies(one: Predicate, other: Predicate) -> bool:
    """Return whether one rule alone is proven to refuse everything that another refuses."""
    match one, other:
        case NearNow(), NearNow():
            return _bounds_imply(one, other)
        case InOrder(), InOrder():
            is_alike = other.sorts.items() <= one.sorts.items()
            return is_alike and _orders_imply(one.form, other.form)
        case WhenNeeded(), WhenNeeded():
            return _needs_imply(one, other)
        case OfField(), WhenNeeded():
            return one.field == other.field and one.refused.null
        case Expression(), Expression():
            is_same = (one.text, one.about) == (other.text, other.about)
            return is_same and (one.null or not other.null)
    return False


def _bounds_imply(one: NearNow, other: NearNow) -> bool:
    """Return whether bounds relative to now imply other such bounds."""
    if (one.field, one.now, one.sort) != (other.field, other.now, other.sort) or (
        other.null and not one.null
    ):
        return False
    if one.sort[0] == DATES.name and any(
        mine is not None and yours is not None and yours[1] == exclusive != mine[1]
        for mine, yours, exclusive in zip(one.between, other.between, (1, 0), strict=True)
    ):
        return False  # two different moments may be on the same day
    return Intervals.between(*one.between).minus(Intervals.between(*other.between)).is_empty(whole=False)


def _orders_imply(one: OutOfOrder, other: OutOfOrder) -> bool:
    """Return whether an order implies another one, which has a subsequence of its fields and is not stricter."""
    if _arrays(one) != _arrays(other) or one.compare_as != other.compare_as:
        return False  # an array without elements satisfies any order, so orders in other arrays imply nothing
    left = iter(one.fields)
    is_part = all(name in left for name in other.fields)  # in the same sequence: `in` consumes the iterator
    return is_part and (one.strict or not other.strict) and (one.null or not other.null)


def _arrays(predicate: OutOfOrder) -> Path:
    return max((array_of(tokens(name)) for name in predicate.fields), key=len)


def _needs_imply(one: WhenNeeded, other: WhenNeeded) -> bool:
    if (one.field, one.other, one.domain.sort) != (other.field, other.other, other.domain.sort):
        return False
    if one.condition is None:
        return True
    return other.condition is not None and other.condition.is_within(one.condition, other.domain)


def _from_now(form: Outside) -> tuple[Cut | None, Cut | None] | None:
    """Return the lower and the upper bound of limits that are all relative to now; None for any other limits."""
    offsets = {name: offset_of_now(str(limit)) for name, limit in form.limits.items()}
    if not offsets or None in offsets.values():
        return None
    low = [(offset, _LOWER[name]) for name, offset in offsets.items() if name in _LOWER]
    high = [(offset, _UPPER[name]) for name, offset in offsets.items() if name in _UPPER]
    return (low[0] if low else None, high[0] if high else None)


def _refused(form: FieldForm, domain: Domain) -> RefusedValues | None:
    match form:
        case Listed():
            return _listed(form.values, domain)
        case Others():
            return _others(_listed(form.values, domain))
        case Unmatched():
            return RefusedValues(strings=Strings(unmatched=frozenset({form.pattern})))
        case Outside():
            return _outside(form.limits, domain)
        case _:
            assert_never(form)


def _listed(values: Iterable[Scalar], domain: Domain) -> RefusedValues:
    numbers, moments, strings, booleans = [], [], set(), set()
    for value in values:
        match value:
            case bool():
                booleans.add(value)
            case str():
                moment = None if domain.times is None else moment_of(value, domain)
                if moment is None:
                    strings.add(value)
                else:
                    moments.append(moment)
            case int() | float():
                numbers.append(Fraction(exact(value)))
            case None:
                pass  # a rule with null in its list does not compile
    return RefusedValues(
        Intervals.points(numbers),
        Intervals.points(moments),
        Strings(frozenset(strings)),
        frozenset(booleans),
    )


def _others(listed: RefusedValues) -> RefusedValues:
    """Return the refused values that are of a listed type, but are not listed."""
    has_strings = bool(listed.strings.listed)
    return RefusedValues(
        listed.numbers.complement() if listed.numbers.parts else Intervals(),
        listed.moments.complement() if listed.moments.parts else Intervals(),
        Strings(listed.strings.listed, True) if has_strings else Strings(),
        frozenset({True, False}) - listed.booleans if listed.booleans else frozenset(),
    )


def _outside(limits: Mapping[str, Any], domain: Domain) -> RefusedValues | None:
    low: Cut | None = None
    high: Cut | None = None
    is_of_times = False
    for name, limit in limits.items():
        is_of_times = name not in AMOUNT_BOUNDS
        value = moment_of(limit, domain) if is_of_times else _amount(limit)
        if value is None:
            return None
        if name in _LOWER:
            low = (value, _LOWER[name])
        else:
            high = (value, _UPPER[name])
    outside = Intervals.between(low, high).complement()
    return RefusedValues(moments=outside) if is_of_times else RefusedValues(numbers=outside)


def _amount(limit: float | str) -> Fraction | None:
    number = number_of(limit)
    return None if number is None else Fraction(exact(number))


def moment_of(text: str, domain: Domain) -> Any:
    """Parse a date or timestamp of the contract to a comparable value; None for any other text."""
    key = None if domain.times is None else domain.times.parse(text)
    if not isinstance(key, str):
        return key
    try:
        return date.fromisoformat(key).toordinal()
    except ValueError:  # Python has no year 0
        return int(key[5:7]) * 31 + int(key[8:10]) - 1_000


def _plain(expression: str) -> str:
    """Normalise the spaces of an expression; one with strings or comments is only stripped."""
    if _QUOTE.search(expression):
        return expression.strip()
    return _SPACE.sub(" ", expression).strip()
