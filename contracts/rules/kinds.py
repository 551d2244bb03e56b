"""The rule kinds about fields: each turns its document into a total check, or says why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

import re2

from contracts.errors import Problem
from contracts.fields import FieldType, SchemaFields, suggestion, tokens
from contracts.model import Condition, Forbidden, Matches, OneOf, Ordered, Range, RequiredWhen, Rule, Scalar
from contracts.rules.compiled import Check, getter
from contracts.rules.values import Key, date_string_key, exact, instant_string_key, number_key, time_key

Nulls = Literal["pass", "violate"]


@dataclass(frozen=True, slots=True)
class Built:
    """A check, and what its violations say."""

    pointer: str
    message: str
    violates: Check


@dataclass(slots=True)
class Scope:
    """Where a rule is compiled: its place in the contract, the fields of the schema, the problems found so far."""

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
            near = suggestion(pointer, self.fields)
            self.refuse(place, f"the schema declares no field `{pointer}`{near}")
        return found


def build(rule: Rule, scope: Scope) -> Built | None:
    """Compile a rule about fields; None when problems were noted."""
    match rule:
        case Forbidden():
            built = _forbidden(rule, scope)
        case Range():
            built = _range(rule, scope)
        case Ordered():
            built = _ordered(rule, scope)
        case Matches():
            built = _matches(rule, scope)
        case OneOf():
            built = _one_of(rule, scope)
        case RequiredWhen():
            built = _required_when(rule, scope)
        case _:
            raise AssertionError(rule.kind)
    return None if scope.problems else built


def _name(pointer: str) -> str:
    return pointer.removeprefix("/")


def _on_absent(nulls: Nulls) -> bool:
    return nulls == "violate"


def _forbidden(rule: Forbidden, scope: Scope) -> Built | None:
    member = _membership(rule.field, rule.values, scope, "/field")
    if member is None:
        return None
    get, absent = getter(tokens(rule.field)), _on_absent(rule.nulls)

    def violates(record: Any) -> bool:
        value = get(record)
        return absent if value is None else member(value) is True

    return Built(rule.field, f"{_name(rule.field)} holds a value that the contract forbids", violates)


def _one_of(rule: OneOf, scope: Scope) -> Built | None:
    member = _membership(rule.field, rule.values, scope, "/field")
    if member is None:
        return None
    get, absent = getter(tokens(rule.field)), _on_absent(rule.nulls)

    def violates(record: Any) -> bool:
        value = get(record)
        return absent if value is None else member(value) is False

    return Built(rule.field, f"{_name(rule.field)} is none of the values that the contract allows", violates)


def _membership(
    pointer: str, values: Iterable[Scalar], scope: Scope, place: str, values_place: str = "/values"
) -> Callable[[Any], bool | None] | None:
    """Make the test whether a value is one of `values`; it gives None for a value of a type none of them has."""
    found = scope.field_type(pointer, place)
    if found is None:
        return None
    strings: set[Any] = set()
    numbers: set[Any] = set()
    booleans: set[bool] = set()
    key = time_key(found)
    for index, value in enumerate(values):
        where = values_place if values_place.endswith("s") is False else f"{values_place}/{index}"
        if value is None:
            scope.refuse(where, "null is not a value here; say `nulls: violate` or `nulls: pass`")
        elif isinstance(value, bool):
            booleans.add(value)
            _expect(found, {"boolean"}, "a boolean", where, pointer, scope)
        elif isinstance(value, str):
            strings.add(_string_value(value, key, where, pointer, scope))
            _expect(found, {"string"}, "a string", where, pointer, scope)
        else:
            numbers.add(exact(value))
            names = {"number", "integer"} if exact(value) == int(value) else {"number"}
            _expect(found, names, "this number", where, pointer, scope)
    return _member_of(frozenset(strings), frozenset(numbers), frozenset(booleans), key)


def _string_value(value: str, key: Key | None, where: str, pointer: str, scope: Scope) -> Any:
    if key is None:
        return value
    read = key(value)
    if read is None:
        kind = (
            "date, such as 1900-01-01"
            if key is date_string_key
            else "date-time, such as 1900-01-01T00:00:00Z"
        )
        scope.refuse(where, f"`{pointer}` holds a {kind}; this value is none")
    return read


def _expect(found: FieldType, names: set[str], what: str, where: str, pointer: str, scope: Scope) -> None:
    if not found.types & names:
        held = " or ".join(sorted(found.types)) or "nothing"
        scope.refuse(where, f"`{pointer}` never holds {what}: the schema says {held}")


def _member_of(
    strings: frozenset[Any], numbers: frozenset[Any], booleans: frozenset[bool], key: Key | None
) -> Callable[[Any], bool | None]:
    def member(value: Any) -> bool | None:
        kind = type(value)
        if kind is str:
            read = value if key is None else key(value)
            return read in strings if strings and read is not None else None
        if kind is int:
            return value in numbers if numbers else None
        if kind is bool:
            return value in booleans if booleans else None
        if kind is float or kind is Decimal:
            return exact(value) in numbers if numbers else None
        return None

    return member


def _range(rule: Range, scope: Scope) -> Built | None:
    found = scope.field_type(rule.field, "/field")
    numeric = {
        name: getattr(rule, name)
        for name in ("minimum", "exclusive_minimum", "maximum", "exclusive_maximum")
        if getattr(rule, name) is not None
    }
    times = {
        name: getattr(rule, name)
        for name in ("not_before", "after", "not_after", "before")
        if getattr(rule, name) is not None
    }
    if not numeric and not times:
        scope.refuse("", "a range needs a limit, such as minimum, maximum, after or before")
    if numeric and times:
        scope.refuse(f"/{next(iter(times))}", "a range is of numbers or of times, not of both")
    if found is None or scope.problems:
        return None
    if numeric:
        return _number_range(rule, numeric, found, scope)
    return _time_range(rule, times, found, scope)


def _number_range(rule: Range, limits: dict[str, Any], found: FieldType, scope: Scope) -> Built | None:
    if not found.types & {"number", "integer"}:
        held = " or ".join(sorted(found.types)) or "nothing"
        hint = "; use after, before, not_before or not_after for times" if found.times else ""
        scope.refuse("/field", f"`{rule.field}` never holds a number: the schema says {held}{hint}")
        return None
    exact_limits = {name: exact(limit) for name, limit in limits.items()}
    return _limited(rule, number_key, exact_limits, scope)


def _time_range(rule: Range, limits: dict[str, str], found: FieldType, scope: Scope) -> Built | None:
    key = time_key(found)
    if key is None:
        scope.refuse(
            "/field",
            f"`{rule.field}` holds no dates or times: give it the format date or date-time in the schema",
        )
        return None
    read: dict[str, Any] = {}
    for name, limit in limits.items():
        value = _time_limit(limit, key)
        if value is None:
            wanted = (
                "a date, such as 1900-01-01"
                if key is date_string_key
                else "a date-time with an offset, such as 1900-01-01T00:00:00Z"
            )
            scope.refuse(f"/{name}", f"must be {wanted}, as `{rule.field}` holds")
        read[name] = value
    if scope.problems:
        return None
    return _limited(rule, key, read, scope)


def _time_limit(text: str, key: Key) -> Any:
    return key(text)


_LOWER = {"minimum": True, "not_before": True, "exclusive_minimum": False, "after": False}
_UPPER = {"maximum": True, "not_after": True, "exclusive_maximum": False, "before": False}


def _limited(rule: Range, key: Key, limits: dict[str, Any], scope: Scope) -> Built | None:
    """Build the check for limits that compare with what `key` gives."""
    lowest = [(limits[name], is_inclusive) for name, is_inclusive in _LOWER.items() if name in limits]
    highest = [(limits[name], is_inclusive) for name, is_inclusive in _UPPER.items() if name in limits]
    for low, low_inclusive in lowest:
        for high, high_inclusive in highest:
            if low > high or (low == high and not (low_inclusive and high_inclusive)):
                scope.refuse("", "no value lies in this range: its lower limit is above its upper limit")
                return None
    get, absent = getter(tokens(rule.field)), _on_absent(rule.nulls)

    def violates(record: Any) -> bool:
        value = get(record)
        if value is None:
            return absent
        read = key(value)
        if read is None:
            return False
        if type(read) is float:
            read = exact(read)
        for limit, is_inclusive in lowest:
            if read < limit or (read == limit and not is_inclusive):
                return True
        for limit, is_inclusive in highest:
            if read > limit or (read == limit and not is_inclusive):
                return True
        return False

    limits_text = " and ".join(
        f"{name.replace('_', ' ')} {getattr(rule, name)}" for name in (*_LOWER, *_UPPER) if name in limits
    )
    return Built(rule.field, f"{_name(rule.field)} is outside its range ({limits_text})", violates)


def _ordered(rule: Ordered, scope: Scope) -> Built | None:
    found = [scope.field_type(pointer, f"/fields/{index}") for index, pointer in enumerate(rule.fields)]
    if any(each is None for each in found):
        return None
    key = _common_key([each for each in found if each is not None], rule, scope)
    if key is None:
        return None
    getters = [getter(tokens(pointer)) for pointer in rule.fields]
    absent, strict = _on_absent(rule.nulls), rule.strict

    def violates(record: Any) -> bool:
        previous: Any = None
        for get in getters:
            value = get(record)
            if value is None:
                if absent:
                    return True
                continue
            read = key(value)
            if read is None:
                continue
            if type(read) is float:
                read = exact(read)
            if previous is not None and (read < previous or (strict and read == previous)):
                return True
            previous = read
        return False

    names = [_name(pointer) for pointer in rule.fields]
    if len(names) == 2:
        message = f"{names[1]} is {'not after' if strict else 'before'} {names[0]}"
    else:
        message = f"{', '.join(names)} are not in {'strictly ' if strict else ''}increasing order"
    return Built(rule.fields[-1], message, violates)


def _common_key(found: list[FieldType], rule: Ordered, scope: Scope) -> Key | None:
    keys = [time_key(each) or (number_key if each.types & {"number", "integer"} else None) for each in found]
    for index, (key, each) in enumerate(zip(keys, found, strict=True)):
        place, pointer = f"/fields/{index}", rule.fields[index]
        if key is None:
            held = " or ".join(sorted(each.types)) or "nothing"
            scope.refuse(
                place,
                f"`{pointer}` has no order: it must hold numbers, dates or date-times; the schema says {held}",
            )
        elif keys[0] is not None and key is not keys[0]:
            scope.refuse(
                place,
                f"`{pointer}` holds {_KEY_NAMES[key]} and `{rule.fields[0]}` {_KEY_NAMES[keys[0]]}: they do not compare",
            )
    return None if scope.problems else keys[0]


_KEY_NAMES: dict[Key, str] = {
    number_key: "numbers",
    date_string_key: "dates",
    instant_string_key: "date-times",
}


def _matches(rule: Matches, scope: Scope) -> Built | None:
    found = scope.field_type(rule.field, "/field")
    options = re2.Options()
    options.log_errors = False
    try:
        search = re2.compile(rule.pattern, options).search
    except re2.error as error:
        scope.refuse("/pattern", f"not a pattern in RE2 syntax: {_re2_message(error)}")
        return None
    if found is None:
        return None
    _expect(found, {"string"}, "a string", "/field", rule.field, scope)
    get, absent = getter(tokens(rule.field)), _on_absent(rule.nulls)

    def violates(record: Any) -> bool:
        value = get(record)
        if value is None:
            return absent
        return type(value) is str and search(value) is None

    return Built(rule.field, f"{_name(rule.field)} does not match the pattern of the contract", violates)


def _re2_message(error: Exception) -> str:
    message = error.args[0] if error.args else ""
    return message.decode() if isinstance(message, bytes) else str(message)


def _required_when(rule: RequiredWhen, scope: Scope) -> Built | None:
    scope.field_type(rule.field, "/field")
    holds = _condition(rule.when, scope)
    if holds is None:
        return None
    get = getter(tokens(rule.field))

    def violates(record: Any) -> bool:
        return get(record) is None and holds(record)

    when = _name(rule.when.field)
    return Built(rule.field, f"{_name(rule.field)} is missing although {when} calls for it", violates)


def _condition(when: Condition, scope: Scope) -> Check | None:
    given = sorted(when.model_fields_set & {"equals", "one_of", "present"})
    if len(given) != 1:
        scope.refuse("/when", "give exactly one of equals, one_of and present")
        return None
    get = getter(tokens(when.field))
    if when.present:
        if scope.field_type(when.field, "/when/field") is None:
            return None
        return lambda record: get(record) is not None
    values = when.one_of if when.one_of is not None else (when.equals,)
    place = "/when/one_of" if when.one_of is not None else "/when/equals"
    member = _membership(when.field, values, scope, "/when/field", place)
    if member is None:
        return None
    return lambda record: member(get(record)) is True
