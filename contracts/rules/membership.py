"""Whether a value is one of those that a contract lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from tidegate.contracts.document.fields import FieldType
from tidegate.contracts.document.terms import Scalar
from tidegate.contracts.rules.scope import Scope
from tidegate.contracts.rules.values import Order, exact, native, order_of_durations, order_of_times

Member = Callable[[Any], bool | None]
"""Whether a value is listed; None for a value of a type of which the list has none."""


def member_of(values: Mapping[str, Scalar], found: FieldType, scope: Scope) -> Member:
    """Compile a list of values that `found` should be able to hold; notes a problem for each that it cannot.

    `values` has them by their place, a pointer below the rule.
    """
    times = order_of_times(found) or order_of_durations(found)
    listed: dict[type, set[Any]] = {}
    moments: set[Any] = set()
    for place, value in values.items():
        if times is not None and isinstance(value, str):
            moments.add(_moment(value, place, times, scope))
            continue
        for kind, comparable in _entries(value, found, place, scope):
            listed.setdefault(kind, set()).add(comparable)
    member = _among({kind: frozenset(entries) for kind, entries in listed.items()})
    return member if times is None or not moments else _among_moments(frozenset(moments), times, member)


def placed(place: str, values: tuple[Scalar, ...]) -> dict[str, Scalar]:
    """Return the values of a list by their place."""
    return {f"{place}/{index}": value for index, value in enumerate(values)}


def _moment(value: str, place: str, times: Order, scope: Scope) -> Any:
    moment = times.parse(value)
    if moment is None:
        scope.refuse(place, f"the field holds {times.name}; write {times.example}")
    return moment


def _entries(value: Scalar, found: FieldType, place: str, scope: Scope) -> list[tuple[type, Any]]:
    match value:
        case None:
            scope.refuse(place, "null is no value; say `nulls: violate` or `nulls: pass` instead")
            return []
        case bool():
            scope.expect(found, frozenset({"boolean"}), "a boolean", place)
            return [(bool, value)]
        case str():
            scope.expect(found, frozenset({"string"}), "a string", place)
            return [(str, value)]
        case _:
            number = native(value)
            types = {"number", "integer"} if isinstance(number, int) else {"number"}
            scope.expect(found, frozenset(types), "this number", place)
            return [(int, number), (float, number), (Decimal, exact(number))]


def _among(listed: dict[type, frozenset[Any]]) -> Member:
    entries_of = listed.get

    def member(value: Any) -> bool | None:
        entries = entries_of(type(value))
        return None if entries is None else value in entries

    return member


def _among_moments(moments: frozenset[Any], times: Order, other: Member) -> Member:
    key = times.key

    def member(value: Any) -> bool | None:
        moment = key(value)
        return other(value) if moment is None else moment in moments

    return member
