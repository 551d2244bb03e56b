"""Look-up of JSON Pointers in the bytes of a record."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.gateway.streams.json_walk import Event, JsonEvent, Walk, closing, is_json

_LONGEST_NAME = 200
_EVERY = "\0every"
"""The `*` step of a pattern, which leads everywhere; it differs from the `*` step of a pointer."""


class ValueSpan(NamedTuple):
    """A value at bytes `start` to `end` (half open); `key_start` is where its property name begins, or `start`."""

    start: int
    end: int
    key_start: int


@dataclass(frozen=True, slots=True)
class FoundPlaces:
    """The places that pointers name in one text.

    `values` has all places of every requested pointer in order, () if the value is absent. A repeated property or a
    `*` has several. `nearest` has, for an absent value, the places of the closest object or array on its path that
    exists. `covered` has, for every pattern, all places that it leads to, and those where it stops because of another
    type of value. `undeclared` are the properties with undeclared names, outermost only. `broken` is the first part
    that is not JSON, None without one. `readable_until` is the offset up to which every value was located.
    """

    values: dict[str, tuple[ValueSpan, ...]]
    nearest: dict[str, tuple[ValueSpan, ...]]
    covered: dict[str, tuple[ValueSpan, ...]]
    undeclared: tuple[ValueSpan, ...]
    broken: Event | None
    readable_until: int


@dataclass(slots=True)
class _Node:
    """A step of the pointers searched for; `places` fills as the walk passes."""

    children: dict[str, _Node] = field(default_factory=dict)
    places: list[ValueSpan] = field(default_factory=list)


@dataclass(slots=True)
class _Open:
    """A value that the walk is inside of; `nodes` are the steps that lead to it, `index` its last element so far."""

    nodes: list[_Node]
    start: int
    key_start: int
    index: int = -1
    is_undeclared: bool = False


def find(
    data: bytes,
    pointers: Iterable[str],
    *,
    declared: frozenset[str] | None = None,
    patterns: Iterable[str] = (),
) -> FoundPlaces:
    """Find where `pointers` (RFC 6901) lead in `data`, which may be any bytes.

    `declared` are the property names that the contract declares, None if unknown. A `*` step leads to every array
    element and to every property that is not declared; in one of `patterns` it leads to every property.
    """
    root = _Node()
    wanted = {pointer: _plant(root, pointer) for pointer in pointers}
    covering = {pattern: _plant(root, pattern, every=_EVERY) for pattern in patterns}
    search = _Search(data, root, declared)
    walk = Walk(data)
    may_skip = is_json(data)
    for event in walk:
        search.take(event)
        if may_skip and event.part is JsonEvent.OPEN and search.is_done_with_container:
            walk.skip_to(closing(data, event.end))
    search.close_all()
    return FoundPlaces(
        values={pointer: _places(way[-1]) for pointer, way in wanted.items()},
        nearest={
            pointer: next((_places(node) for node in reversed(way) if node.places), ())
            for pointer, way in wanted.items()
            if not way[-1].places
        },
        covered={pattern: _covered(data, pattern, way) for pattern, way in covering.items()},
        undeclared=tuple(search.undeclared),
        broken=_first(search.broken, _undecodable(data)),
        readable_until=search.readable_until,
    )


def name_at(data: bytes, start: int) -> str:
    """Decode the property name that begins at `start`."""
    for event in Walk(data[start : start + _LONGEST_NAME]):
        return _name(data[start + event.start : start + event.end])
    return ""


def _places(node: _Node) -> tuple[ValueSpan, ...]:
    return tuple(sorted(node.places))


def _covered(data: bytes, pattern: str, way: list[_Node]) -> tuple[ValueSpan, ...]:
    """Return the places that a pattern leads to, and those where it stops because of another type of value."""
    found = {*way[-1].places}
    for node, step in zip(way[:-1], pattern.split("/")[1:], strict=True):
        leads_into_arrays = step == "*" or step.isdigit()
        through = b"{[" if leads_into_arrays else b"{"
        found.update(place for place in node.places if data[place.start] not in through)
    return tuple(sorted(found))


def _undecodable(data: bytes) -> Event | None:
    """Return the first bytes that are not UTF-8; None without any. In strings they do not stop the walk."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return Event(JsonEvent.FLAW, error.start, error.end, "these bytes are not UTF-8")
    return None


def _first(one: Event | None, other: Event | None) -> Event | None:
    found = [event for event in (one, other) if event is not None]
    return min(found, key=lambda event: event.start, default=None)


def _plant(root: _Node, pointer: str, *, every: str = "*") -> list[_Node]:
    """Add a pointer to the tree, its `*` as `every`; return the nodes on its path, the root first."""
    way = [root]
    for step in pointer.split("/")[1:]:
        name = every if step == "*" else step.replace("~1", "/").replace("~0", "~")
        way.append(way[-1].children.setdefault(name, _Node()))
    return way


class _Search:
    """A follower of a walk that records the places of the planted nodes."""

    def __init__(self, data: bytes, root: _Node, declared: frozenset[str] | None) -> None:
        self.broken: Event | None = None
        self.readable_until = len(data)
        self.undeclared: list[ValueSpan] = []
        self._data = data
        self._root = root
        self._declared = declared
        self._inside: list[_Open] = []
        self._key: Event | None = None

    @property
    def is_done_with_container(self) -> bool:
        """Return whether the content of the value just opened is irrelevant."""
        value = self._inside[-1]
        leads_on = any(node.children for node in value.nodes)
        return not leads_on and (self._declared is None or value.is_undeclared)

    def take(self, event: Event) -> None:
        """Follow one event of the walk."""
        if event.part is JsonEvent.KEY:
            self._key = event
        elif event.part is JsonEvent.SCALAR:
            self._inside.append(self._enter(event))
            self._leave(event.end)
        elif event.part is JsonEvent.OPEN:
            self._inside.append(self._enter(event))
        elif event.part is JsonEvent.CLOSE:
            self._leave(event.end)
        else:
            self.broken = self.broken or event
            if event.part is JsonEvent.STOP:
                self.readable_until = event.start

    def close_all(self) -> None:
        """Close the open parts of a broken text at the end of the data."""
        while self._inside:
            self._leave(len(self._data))

    def _leave(self, end: int) -> None:
        value = self._inside.pop()
        place = ValueSpan(value.start, end, value.key_start)
        for node in value.nodes:
            node.places.append(place)
        if value.is_undeclared and not any(outer.is_undeclared for outer in self._inside):
            self.undeclared.append(place)

    def _enter(self, event: Event) -> _Open:
        """Return the value that begins at `event`, with its nodes and the start of its name."""
        key, self._key = self._key, None
        if not self._inside:
            return _Open([self._root], event.start, event.start)
        outer = self._inside[-1]
        outer.index += 1
        if not outer.nodes and (key is None or self._declared is None):
            return _Open([], event.start, event.start if key is None else key.start)
        if key is None:
            nodes = _step(outer.nodes, str(outer.index), "*", _EVERY)
            return _Open(nodes, event.start, event.start)
        name = _name(self._data[key.start : key.end])
        nodes = _step(outer.nodes, *{name, _EVERY})
        is_undeclared = self._declared is not None and name not in self._declared
        if name != "*" and (is_undeclared or self._declared is None):
            nodes += _step(outer.nodes, "*")
        return _Open(nodes, event.start, key.start, is_undeclared=is_undeclared)


def _step(nodes: list[_Node], *names: str) -> list[_Node]:
    return [node.children[name] for node in nodes for name in names if name in node.children]


def _name(key: bytes) -> str:
    """Decode a property name; return one that is not valid JSON as it is written."""
    text = key.decode("utf-8", "replace")
    if b"\\" not in key:
        return text[1:-1]
    try:
        return str(json.loads(text, strict=False))
    except ValueError:
        return text[1:-1]
