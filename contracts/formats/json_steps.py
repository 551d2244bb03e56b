"""Counter of the steps that a validator takes on one record, applied before it runs.

jsonschema-rs caches results only for references into an enclosing schema. Forty definitions that each refer to the
next one twice for a member need 2^40 visits for a record of 40 levels. It caches nothing when it lists errors, so a
schema that refers to itself twice needs as many. It cannot be interrupted.

Most schemas take a few steps for each value of any record, which is computed once. Only for other schemas, steps are
counted for each record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from typing import Any, Final

import orjson

from tidegate.contracts.formats.json_work import ItemWork, MemberWork, NameWork, Part, Subschema

MAX_STEPS: Final = 20_000_000
"""Maximum steps to decide whether one record fits; about half a second."""
MAX_LISTED: Final = 50_000
"""Maximum steps to list the errors of one record; these are slower, because errors copy values."""
CALM: Final = 1_000
"""Maximum steps for any value up to which records are not counted: the total then depends only on their size."""
MAX_VISITS: Final = 500_000
"""Maximum pairs of value and subschema that are visited while counting, for one record or one schema."""
_DEPTH: Final = 255
_COMPARED: Final = 10
"""Steps for each value of an `enum` that contains arrays or objects: such values are compared one by one."""

Times = dict["Entry", int]
"""How often each entry is applied to a value."""


class Entry:
    """A subschema where the evaluation of a value starts, together with all subschemas of the same value.

    `own` is the number of steps for the value itself, and `names` the steps for each of its names. `parts` maps the
    parts of the value to the entries that are applied to them, and how often. `closing` are the entries that a
    validator evaluates only once for each value.
    """

    __slots__ = ("closing", "names", "own", "parts")

    def __init__(self) -> None:
        self.own = 0
        self.names = 0
        self.parts: dict[Part, Times] = {}
        self.closing: set[Entry] = set()

    def below(self, value: Any) -> Iterator[tuple[Any, Times]]:
        """Yield the members or items of a value, with the entries that are applied to them."""
        if isinstance(value, dict):
            for part, times in self.parts.items():
                if isinstance(part, MemberWork) and part.name is None:
                    but = part.but
                    yield from ((each, times) for name, each in value.items() if name not in but)
                elif isinstance(part, MemberWork) and part.name in value:
                    yield value[part.name], times
        elif isinstance(value, list):
            for part, times in self.parts.items():
                if isinstance(part, ItemWork) and part.index is None:
                    yield from ((each, times) for each in value[part.first :])
                elif isinstance(part, ItemWork) and part.index is not None and part.index < len(value):
                    yield value[part.index], times

    def most(self, steps: dict[Entry, int]) -> int:
        """Return the maximum steps for any one part of a value, given the steps of each entry."""
        most = self.names
        if not self.parts:
            return most
        for kind in (MemberWork, ItemWork):
            everywhere, named, spared = 0, dict[Any, int](), dict[Any, int]()
            for part, times in self.parts.items():
                if not isinstance(part, kind):
                    continue
                count = sum(number * steps[entry] for entry, number in times.items())
                name = part.name if isinstance(part, MemberWork) else part.index
                if name is not None:
                    named[name] = named.get(name, 0) + count
                    continue
                everywhere += count
                but = part.but if isinstance(part, MemberWork) else range(part.first)
                for each in but:
                    spared[each] = spared.get(each, 0) + count
            most = max(
                [most, everywhere, *(everywhere + named[each] - spared.get(each, 0) for each in named)]
            )
        return most


class StepCounter:
    """Counts the steps for records, for a validator that caches results (`is_once`) or one that does not."""

    def __init__(self, root: Subschema, *, is_once: bool, limit: int) -> None:
        self._is_once = is_once
        self._limit = limit
        self._entries: dict[Subschema, Entry] = {}
        self._visits_left = MAX_VISITS
        self._root = self._entry(root)
        self._once = set(chain.from_iterable(entry.closing for entry in self._entries.values()))
        self.is_calm = self._most_by_depth(CALM)[-1] <= CALM
        """Whether no value of any record takes more than CALM steps."""

    @cached_property
    def _most(self) -> list[int]:
        """Return the maximum steps for one value of a record, indexed by the depth of the record, up to the limit."""
        return self._most_by_depth(self._limit)

    def exceed(self, record: Any) -> bool:
        """Return whether judging a record takes more steps than the limit, or counting them more than MAX_VISITS."""
        try:
            text = orjson.dumps(record, default=str)
        except orjson.JSONEncodeError:  # integers beyond 64 bits
            return self._is_above(record)
        return not self._is_surely_few(text) and self._is_above(record)

    def _is_surely_few(self, text: bytes) -> bool:
        """Return whether no record with as many brackets and commas can take more steps than the limit."""
        brackets = text.count(b"[") + text.count(b"{")
        values = 1 + brackets + text.count(b",")
        begun = 1 + len(self._once) * brackets
        return begun * values * self._most[min(brackets, len(self._most) - 1)] <= self._limit

    def _is_above(self, record: Any) -> bool:
        steps = visits = 0
        stack: list[tuple[Any, Times]] = [(record, {self._root: 1})]
        while stack:
            value, times = stack.pop()
            times = _with_closing(times) if self._is_once and isinstance(value, dict | list) else times
            below: dict[int, tuple[Any, Times]] = {}
            for entry, number in times.items():
                steps += number * (entry.own + (entry.names * len(value) if isinstance(value, dict) else 0))
                for part, inner in entry.below(value):
                    visits += 1
                    found = below.setdefault(id(part), (part, {}))[1]
                    for each, count in inner.items():
                        found[each] = found.get(each, 0) + number * count
                if steps > self._limit or visits > MAX_VISITS:
                    return True
            stack.extend(below.values())
        return False

    def _entry(self, start: Subschema) -> Entry:
        """Build the entry of a subschema and all entries below it; after MAX_VISITS no further ones are expanded."""
        self._entries[start] = Entry()
        stack = [start]
        while stack:
            schema = stack.pop()
            entry = self._entries[schema]
            for each, times in _beside(schema, is_once=self._is_once).items():
                self._visits_left -= 1
                entry.own += times * (1 + _compared(each.node))
                if self._is_once:
                    entry.closing.update(self._entries_of(each.closing, stack))
                for part, inner in each.below:
                    (found,) = self._entries_of([inner], stack)
                    who = entry.parts.setdefault(part, {})
                    who[found] = who.get(found, 0) + times
        for entry in self._entries.values():
            names = entry.parts.pop(NameWork(), {})
            entry.names = sum(times * each.own for each, times in names.items())
        return self._entries[start]

    def _entries_of(self, schemas: Iterable[Subschema], stack: list[Subschema]) -> list[Entry]:
        for schema in schemas:
            if schema not in self._entries:
                self._entries[schema] = Entry()
                if self._visits_left > 0:
                    stack.append(schema)
        return [self._entries[schema] for schema in schemas]

    def _most_by_depth(self, limit: int) -> list[int]:
        """Return the maximum steps for one value of a record, indexed by the depth of the record, up to a limit."""
        beyond, left = limit + 1, self._visits_left
        steps = {entry: entry.own for entry in self._entries.values()}
        above: dict[Entry, set[Entry]] = {entry: set() for entry in steps}
        for entry in steps:
            for each in chain.from_iterable(entry.parts.values()):
                above[each].add(entry)
        begun = {self._root, *self._once}
        most = [max(steps[entry] for entry in begun)]
        dirty = set(steps)
        for _ in range(_DEPTH):
            left -= len(dirty)
            if left < 0:
                most.append(beyond)
            if most[-1] >= beyond:
                break
            found = {entry: min(beyond, max(entry.own, entry.most(steps))) for entry in dirty}
            grown = {entry: count for entry, count in found.items() if count > steps[entry]}
            steps.update(grown)
            most.append(max(steps[entry] for entry in begun))
            dirty = set(chain.from_iterable(above[entry] for entry in grown))
            if not dirty:
                break
        return most


def _with_closing(times: Times) -> Times:
    """Return the entries plus those that references lead back to, which are evaluated once for each value."""
    all_times = dict(times)
    stack = list(times)
    while stack:
        for entry in stack.pop().closing:
            if entry not in all_times:
                all_times[entry] = 1
                stack.append(entry)
    return all_times


def _beside(start: Subschema, *, is_once: bool) -> dict[Subschema, int]:
    """Return the subschemas that apply to the same value, `start` included, each with the number of paths to it."""
    if not start.here:
        return {start: 1}
    done: list[Subschema] = []
    known = {start}
    stack = [(start, iter(start.here))]
    while stack:
        schema, parts = stack[-1]
        part = next(parts, None)
        if part is None:
            done.append(schema)
            stack.pop()
        elif part not in known and not (is_once and part in schema.closing):
            known.add(part)
            stack.append((part, iter(part.here)))
    times = dict.fromkeys(reversed(done), 0)
    times[start] = 1
    order = {schema: index for index, schema in enumerate(times)}
    for schema in times:
        for part in schema.here:
            # A reference back to an earlier subschema is a loop on one value, which every validator stops.
            if part in order and order[part] > order[schema] and not (is_once and part in schema.closing):
                times[part] += times[schema] * schema.factor
    return times


def _compared(node: dict[str, Any]) -> int:
    """Return the steps that an `enum` with arrays or objects takes; 0 for any other schema."""
    values = node.get("enum")
    is_slow = isinstance(values, list) and any(isinstance(each, dict | list) for each in values)
    return _COMPARED * len(values) if is_slow and isinstance(values, list) else 0
