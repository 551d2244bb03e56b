"""Whether a value is one of those that a contract lists."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from contracts.fields import FieldType
from contracts.model import Scalar
from contracts.rules.scope import Scope
from contracts.rules.values import INSTANTS, Order, exact, native, order_of_times

Member = Callable[[Any], bool | None]
"""Whether a value is listed; None for a value of a type of which the list has none."""


def member_of(values: tuple[Scalar, ...], found: FieldType, place: str, scope: Scope) -> Member:
    """Compile a list of values that `found` should be able to hold; notes a problem for each that it cannot.

    `place` is the pointer of the list below the rule.
    """
    times = order_of_times(found)
    listed: dict[type, set[Any]] = {}
    for index, value in enumerate(values):
        for kind, comparable in _entries(value, found, f"{place}/{index}", times, scope):
            listed.setdefault(kind, set()).add(comparable)
    if times is INSTANTS and str in listed:
        return _among_instants({kind: frozenset(entries) for kind, entries in listed.items()}, times)
    return _among({kind: frozenset(entries) for kind, entries in listed.items()})


def _entries(
    value: Scalar, found: FieldType, place: str, times: Order | None, scope: Scope
) -> list[tuple[type, Any]]:
    match value:
        case None:
            scope.refuse(place, "null is no value; say `nulls: violate` or `nulls: pass` instead")
            return []
        case bool():
            scope.expect(found, frozenset({"boolean"}), "a boolean", place)
            return [(bool, value)]
        case str():
            scope.expect(found, frozenset({"string"}), "a string", place)
            comparable = value if times is None else times.parse(value)
            if times is not None and comparable is None:
                scope.refuse(place, f"the field holds {times.name}; write {times.example}")
            return [(str, comparable)]
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


def _among_instants(listed: dict[type, frozenset[Any]], times: Order) -> Member:
    plain, instants = _among(listed), listed[str]

    def member(value: Any) -> bool | None:
        if type(value) is not str:
            return plain(value)
        instant = times.key(value)
        return None if instant is None else instant in instants

    return member
