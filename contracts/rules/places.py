"""Places in a record: the values of a path, for every element of the arrays on it.

A `*` in a path means every element of the array at that place. Several paths are read from the same element. So
`/lines/*/net` and `/lines/*/gross` are read line by line, and `/currency` has the same value for all lines.

A `**` at the start of a path means every object of the record, at any depth, with the property named after it. Several
such paths, as `/**/start` and `/**/end`, are read from the same object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tidegate.contracts.document.fields import is_index

Path = tuple[str, ...]

EACH: Final = "*"
"""The token of a path that means every element of an array."""
ANYWHERE: Final = "**"
"""The first token of a path that means every object of the record."""


class PathNode(NamedTuple):
    """A step on the path to a value: the parent step (None for the record), and the name or index in it."""

    parent: PathNode | None
    token: str | int

    def path(self, names: frozenset[str]) -> Path:
        """Return the tokens from the record to the value; a name that is not in `names` becomes `*`."""
        found: list[str] = []
        way: PathNode | None = self
        while way is not None:
            is_known = type(way.token) is int or way.token in names
            found.append(str(way.token) if is_known else EACH)
            way = way.parent
        return tuple(reversed(found))


Elements = tuple[str | PathNode | None, ...]
"""The elements of a place: the path to the object for a `**`, one token for each `*`."""
Place = tuple[Elements, tuple[Any, ...]]
"""The elements of a place, and the values of the paths there."""


def read(record: Any, path: Path) -> Any:
    """Return the value at a path of a record; None if there is none. Source: RFC 6901 section 4."""
    for token in path:
        record = record.get(token) if type(record) is dict else item_at(record, token)
        if record is None:
            return None
    return record


def item_at(value: Any, token: str) -> Any:
    """Return the item of an array at an index from a JSON Pointer; None if there is none."""
    if type(value) is list and is_index(token) and int(token) < len(value):
        return value[int(token)]
    return None


def is_starred(path: Path) -> bool:
    """Return whether a path has `*` or `**`, and so may select several values of a record."""
    return EACH in path or is_deep(path)


def is_deep(path: Path) -> bool:
    """Return whether a path goes through every object of the record."""
    return path[:1] == (ANYWHERE,)


def array_of(path: Path) -> Path:
    """Return the path of the innermost array on a path, including its `*`; empty without one."""
    for length in range(len(path), 0, -1):
        if path[length - 1] == EACH:
            return path[:length]
    return ()


def go_together(paths: Sequence[Path]) -> bool:
    """Return whether the arrays (or objects) on each path are a prefix of those on the longest path."""
    if len({is_deep(path) for path in paths}) > 1:
        return False
    arrays = sorted((array_of(path) for path in paths), key=len)
    return all(outer == inner[: len(outer)] for outer, inner in pairwise(arrays))


def places(record: Any, paths: Sequence[Path]) -> Iterator[Place]:
    """Yield the values of paths that go together, for every element of their arrays.

    If the array is missing, there is one place, with None for its members; an empty array has no places. For a path
    with `**`, each object with one of the named properties is a place.
    """
    if any(map(is_deep, paths)):
        return _places_anywhere(record, paths)
    return _places([(record, path) for path in paths], ())


def located(path: Path, elements: Elements, names: frozenset[str] = frozenset()) -> Path:
    """Return a path with its `*` replaced by the elements of a place, and its `**` by the path to the object.

    A property whose name is not in `names` is written as `*`, because its name is data.
    """
    if is_deep(path):
        way, *elements_of_rest = elements
        before = way.path(names) if isinstance(way, PathNode) else ()
        return before + located(path[1:], tuple(elements_of_rest))
    left = iter(elements)
    return tuple(str(next(left, EACH)) if token == EACH else token for token in path)


def _places_anywhere(record: Any, paths: Sequence[Path]) -> Iterator[Place]:
    names = {path[1] for path in paths if is_deep(path) and len(path) > 1}
    for way, parent in _objects(record):
        if any(name in parent for name in names):
            readers = [(parent, path[1:]) if is_deep(path) else (record, path) for path in paths]
            yield from _places(readers, (way,))


def _objects(record: Any) -> Iterator[tuple[PathNode | None, dict[str, Any]]]:
    """Yield the objects of a record at any depth, in document order, each with its path. Does not recurse."""
    waiting: list[tuple[PathNode | None, Any]] = [(None, record)]
    while waiting:
        way, value = waiting.pop()
        if type(value) is dict:
            yield way, value
            members: Iterator[tuple[str | int, Any]] = iter(value.items())
        elif type(value) is list:
            members = enumerate(value)
        else:
            continue
        inner = [(PathNode(way, token), each) for token, each in members if type(each) in {dict, list}]
        waiting.extend(reversed(inner))


def _places(readers: list[tuple[Any, Path]], elements: Elements) -> Iterator[Place]:
    starred = [index for index, (_, path) in enumerate(readers) if EACH in path]
    if not starred:
        yield elements, tuple(read(source, path) for source, path in readers)
        return
    source, path = readers[starred[0]]
    at = path.index(EACH)
    whole = read(source, path[:at])
    if type(whole) is list:
        items = [(str(index), item) for index, item in enumerate(whole)]
    else:  # a member may be named `*`
        items = [(EACH, whole.get(EACH) if type(whole) is dict else None)]
    for token, item in items:
        inner = list(readers)
        for index in starred:
            inner[index] = (item, readers[index][1][at + 1 :])
        yield from _places(inner, (*elements, token))
