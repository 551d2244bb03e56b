"""Shrink a document that distinguishes two schemas to a small one that still does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from enum import Enum, auto
from fractions import Fraction
from typing import Any, Final, TypeVar

from tidegate.contracts.inclusion.json_schema.values import exact, text_of, written

_PLAIN: Final = frozenset('0123456789aefnlrstu{}[],:".')
_FEW: Final = 4
"""Objects with this many members are not worth the trials that shorter names take."""
_SIMPLEST: Final[tuple[Any, ...]] = (0, "", {}, [], None)
_UNKNOWN: Final = object()
_Part = TypeVar("_Part", str, int)

Path = tuple[str | int, ...]
_Known = tuple[set[tuple[Path, str]], dict[Path, Any], set[tuple[Path, type]]]
Put = Callable[[Any], Any]
"""Puts a value at its place in the document and returns the whole document."""


class Trial(Enum):
    """The result of a trial with a smaller document."""

    APART = auto()
    """It still distinguishes the schemas."""
    REFUSED = auto()
    """The old schema does not accept it."""
    OTHERWISE = auto()
    """It does not distinguish the schemas, or was not judged."""


class Shrinker:
    """Shrinks documents of one pair of schemas, and remembers what the old schema was found to require."""

    def __init__(self, required: Iterable[str], small: Mapping[str, Any]) -> None:
        """Initialise from the members that every document must have, and the smallest known values of members."""
        self._needed: set[tuple[Path, str]] = {((), name) for name in required}
        """Members, by path and name, without which the old schema refused a document."""
        self._tight: dict[Path, Any] = {(name,): value for name, value in small.items()}
        """Values, by path, for which the old schema refused every smaller value that was tried."""
        self._refused: set[tuple[Path, type]] = set()
        """Paths and types: the old schema refused a value of that type at that path."""

    def shrunk(
        self, document: Any, focus: tuple[str, ...], trial: Callable[[Any], Trial], checks: int
    ) -> Any:
        """Return a smaller document that still distinguishes the schemas, after at most `checks` trials.

        `focus` is a path of names to shrink first.
        """
        run = _Run((self._needed, self._tight, self._refused), trial, checks)
        while True:
            lighter = run.lighter(document, (), focus, _itself)
            if run.is_over or lighter == document:
                return lighter
            document = lighter


def _itself(whole: Any) -> Any:
    return whole


class _Run:
    """The shrinking of one document, with a limited number of trials."""

    def __init__(
        self,
        known: _Known,
        trial: Callable[[Any], Trial],
        checks: int,
    ) -> None:
        self._needed, self._tight, self._refused = known
        self._trial = trial
        self._left = checks
        self._only_refused = True
        """Whether the old schema refused every document that was tried since this was last set to True."""

    @property
    def is_over(self) -> bool:
        """Return whether all trials are used up."""
        return self._left <= 0

    def _try(self, document: Any) -> Trial:
        self._left -= 1
        found = Trial.OTHERWISE if self._left < 0 else self._trial(document)
        self._only_refused = self._only_refused and found is Trial.REFUSED
        return found

    def lighter(self, value: Any, path: Path, focus: tuple[str, ...], put: Put) -> Any:
        """Return the smallest value that was found for a place in the document; `put` puts a value there."""
        if value is None or isinstance(value, bool) or self.is_over:
            return value
        outer, self._only_refused = self._only_refused, True
        if isinstance(value, dict):
            found: Any = self._object(value, path, focus, put)
        else:
            found = self._array(value, path, focus, put) if isinstance(value, list) else value
        found = self._simplest(found, path, put)
        if self._only_refused and not self.is_over:
            self._tight[path] = found
        self._only_refused = self._only_refused and outer
        return found

    def _is_tight(self, value: Any, path: Path) -> bool:
        known = self._tight.get(path, _UNKNOWN)
        return known is value or (type(known) is type(value) and known == value)

    def _simplest(self, value: Any, path: Path, put: Put) -> Any:
        while True:
            found = next(
                ([each] for each in self._simpler(value, path) if self._replaces(each, path, put)), None
            )
            if found is None:
                return value
            (value,) = found

    def _simpler(self, value: Any, path: Path) -> Iterator[Any]:
        is_large = isinstance(value, dict | list) and len(value) > _FEW
        weight = None if is_large else _weight(value)
        yield from (each for each in _simpler(value) if weight is None or _weight(each) < weight)
        for each in _SIMPLEST:
            is_refused = (path, type(each)) in self._refused and not isinstance(each, type(value))
            if not is_refused and (weight is None or _weight(each) < weight):
                yield each

    def _replaces(self, simpler: Any, path: Path, put: Put) -> bool:
        found = self._try(put(simpler))
        if found is Trial.REFUSED:
            self._refused.add((path, type(simpler)))
        return found is Trial.APART

    def _object(self, value: dict[str, Any], path: Path, focus: tuple[str, ...], put: Put) -> dict[str, Any]:
        # A trial below may find that a member is needed, so the members to try are fixed here.
        spare = dict.fromkeys(name for name in value if (path, name) not in self._needed)

        def without(gone: set[str], part: list[str]) -> Trial:
            found = self._try(put({name: each for name, each in value.items() if name not in gone}))
            if found is Trial.REFUSED and len(part) == 1:
                self._needed.add((path, part[0]))
            return found

        kept = _kept([*spare], without)
        value = {name: each for name, each in value.items() if name in kept or name not in spare}
        first = focus[0] if focus else None
        for name in sorted(kept) if len(kept) < _FEW else ():
            if name != first:
                value = self._renamed(value, name, put)
        for name in sorted(value, key=lambda name: name != first):
            if self._is_tight(value[name], (*path, name)):
                continue
            below = focus[1:] if name == first else ()
            lighter = self.lighter(value[name], (*path, name), below, _put_member(put, value, name))
            if lighter is not value[name]:
                value = {**value, name: lighter}
        return value

    def _renamed(self, value: dict[str, Any], name: str, put: Put) -> dict[str, Any]:
        for shorter in ("", "a", name[: len(name) // 2], name[1:]):
            if len(shorter) < len(name) and shorter not in value:
                renamed = {shorter if each == name else each: member for each, member in value.items()}
                if self._try(put(renamed)) is Trial.APART:
                    return renamed
        return value

    def _array(self, value: list[Any], path: Path, focus: tuple[str, ...], put: Put) -> list[Any]:
        def without(gone: set[int], _: list[int]) -> Trial:
            return self._try(put([item for index, item in enumerate(value) if index not in gone]))

        # From the end, so that earlier items keep their indexes.
        kept = _kept([*reversed(range(len(value)))], without)
        value = [item for index, item in enumerate(value) if index in kept]
        for index in range(len(value)):
            if self._is_tight(value[index], (*path, index)):
                continue
            put_item = _put_item(put, value, index)
            lighter = self.lighter(value[index], (*path, index), focus[1:], put_item)
            value = [*value[:index], lighter, *value[index + 1 :]]
        return value


def _put_member(put: Put, holder: dict[str, Any], name: str) -> Put:
    return lambda member: put({**holder, name: member})


def _put_item(put: Put, holder: list[Any], index: int) -> Put:
    return lambda item: put([*holder[:index], item, *holder[index + 1 :]])


def _kept(parts: list[_Part], without: Callable[[set[_Part], list[_Part]], Trial]) -> set[_Part]:
    """Try to remove all parts, then halves, quarters and so on down to single parts; return those that must stay.

    `without` tries a document without a set of parts. Its second argument are the parts of that set that are new.
    """
    gone: set[_Part] = set()
    rest, size = parts, len(parts)
    while size:
        kept: list[_Part] = []
        for start in range(0, len(rest), size):
            part: list[_Part] = rest[start : start + size]
            if without(gone | set(part), part) is Trial.APART:
                gone.update(part)
            else:
                kept += part
        rest, size = kept, min(size // 2, len(kept))
    return set(rest)


def _weight(value: Any) -> tuple[int, int, str]:
    text = text_of(value)
    return len(text), sum(character not in _PLAIN for character in text), text


def _simpler(value: Any) -> Iterator[Any]:
    """Yield simpler values of the same type, for strings and numbers."""
    if isinstance(value, str):
        yield from ("", value[: len(value) // 2], value[:-1], value[1:], "a" * len(value))
    elif isinstance(value, int | float | Decimal):
        yield from (0, 1, 2, -1)
        yield from _rounder(value)


def _rounder(value: float | Decimal) -> Iterator[Any]:
    number = exact(value)
    if number is None:
        return
    yield int(number / 2)
    yield int(number)
    places = 0
    while (number * 10**places).denominator != 1:
        places += 1
    if places > 1:
        yield written(Fraction(round(number * 10 ** (places - 1)), 10 ** (places - 1)))
