"""Places in a record: the values of a path, for every element of the arrays on it.

A `*` in a path means every element of the array at that place. Several paths are read from the same element:
`/lines/*/net` and `/lines/*/gross` line by line, and `/currency` has the same value for all lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

Path = tuple[str, ...]

EACH: Final = "*"
"""The token of a path that means every element of an array."""
_MAX_INDEX_DIGITS: Final = 9

Place = tuple[Path, tuple[Any, ...]]
"""The elements that were gone through, one token for each `*`, and the values that the paths have there."""


def read(record: Any, path: Path) -> Any:
    """Read the value at a path of a record; None without one. Source: RFC 6901 section 4."""
    for token in path:
        record = record.get(token) if type(record) is dict else item_at(record, token)
        if record is None:
            return None
    return record


def item_at(value: Any, token: str) -> Any:
    """Read an item of an array by its index in a JSON Pointer; None without one."""
    is_index = token.isascii() and token.isdigit() and len(token) <= _MAX_INDEX_DIGITS
    if type(value) is list and is_index and int(token) < len(value):
        return value[int(token)]
    return None


def is_starred(path: Path) -> bool:
    """Return whether a path goes through every element of an array."""
    return EACH in path


def array_of(path: Path) -> Path:
    """Return the path of the innermost array on a path, including its `*`; empty without one."""
    for length in range(len(path), 0, -1):
        if path[length - 1] == EACH:
            return path[:length]
    return ()


def go_together(paths: Sequence[Path]) -> bool:
    """Return whether all paths go through the same arrays, or through some of them."""
    arrays = sorted((array_of(path) for path in paths), key=len)
    return all(outer == inner[: len(outer)] for outer, inner in pairwise(arrays))


def places(record: Any, paths: Sequence[Path]) -> Iterator[Place]:
    """Return the values of paths that go together, for every element that they go through.

    Without the array there is one place, with None for its members; an empty array has no places.
    """
    return _places([(record, path) for path in paths], ())


def located(path: Path, elements: Path) -> Path:
    """Write the elements of a place where the path has a `*`."""
    left = iter(elements)
    return tuple(next(left, EACH) if token == EACH else token for token in path)


def _places(readers: list[tuple[Any, Path]], elements: Path) -> Iterator[Place]:
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
