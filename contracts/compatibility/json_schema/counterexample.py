"""The smallest document that two schemas are told apart by at one place: made, judged by both, shrunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import chain, islice
from typing import Any, Final

from contracts.compatibility.inclusion import Counterexample
from contracts.compatibility.json_schema.candidates import Maker
from contracts.compatibility.json_schema.gaps import LEADING, Gap, Step
from contracts.compatibility.json_schema.gathered import arrays, objects
from contracts.compatibility.json_schema.nodes import Node
from contracts.compatibility.json_schema.values import exact, exceeds, text_of, written
from contracts.compatibility.json_schema.work import Work
from contracts.formats.json_schema import JsonSchemaFormat
from contracts.record import MAX_DEPTH, decode_exactly
from contracts.verdict import Violation

_MAX_TRIES: Final = 120
MAX_CHECKS: Final = 400
_MAX_JUDGED: Final = 12_000
_MAX_PARTS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Judged:
    """One of the two schemas: compiled for the judge, as a formula, and which documents are judged in bounded time."""

    judge: JsonSchemaFormat
    node: Node
    work: Work


class Refuter:
    """Looks for documents that the old schema accepts and the new one refuses."""

    def __init__(self, old: Judged, new: Judged, maker: Maker) -> None:
        self._old = old
        self._new = new
        self._maker = maker
        self._left = _MAX_JUDGED
        self._general: list[Any] | None = None

    def refute(self, gap: Gap, checks: int = MAX_CHECKS) -> Counterexample | None:
        """Give a counterexample for a gap; None when none was found, which says nothing about the schemas.

        At most `checks` smaller documents are judged.
        """
        pointer = gap.target.place.pointer
        for document in chain(islice(self._documents(gap), _MAX_TRIES), self._any_documents()):
            if self._separates(document, pointer):
                return self._counterexample(document, pointer, checks)
        return None

    def refute_anywhere(self) -> Counterexample | None:
        """Give any document that tells the two schemas apart."""
        found = next(
            (document for document in self._any_documents() if self._separates(document, None)), None
        )
        return None if found is None else self._counterexample(found, None, MAX_CHECKS)

    def _counterexample(self, document: Any, pointer: str | None, checks: int) -> Counterexample | None:
        """Shrink a document, and judge its very text once more."""
        for candidate in (self._shrunk(document, pointer, checks), document):
            text = text_of(candidate)
            if self._tells_apart(decode_exactly(text.encode(errors="replace"))):
                return Counterexample(text)
        return None

    def _any_documents(self) -> Iterator[Any]:
        if self._general is None:
            self._general = self._maker.values((self._old.node,), (self._new.node,), 0, 40)
        yield from self._general

    # Making.

    def _documents(self, gap: Gap) -> Iterator[Any]:
        at = gap.situation
        # A place that was free is in the gap as the leaf that leads there.
        broken = gap.target.schema if gap.target is at.via and isinstance(gap.target, LEADING) else gap.target
        inner = self._maker.values(at.holding, (*at.broken, broken), 0, 12)
        yield from self._wrapped(inner, at.steps)

    def _wrapped(self, values: list[Any], steps: tuple[Step, ...]) -> Iterator[Any]:
        """Put values where they belong, the rest of each container made to fit the old schema."""
        if not steps:
            yield from values
            return
        *outer, step = steps
        for value in values:
            containers = list(islice(self._containers(step, value), 4))
            yield from self._wrapped(containers, tuple(outer))

    def _containers(self, step: Step, value: Any) -> Iterator[Any]:
        for branch in self._maker.branches(step.holding, step.broken, 0):
            if isinstance(step.key, int):
                yield from islice(arrays(self._maker, branch, 0, {step.key: value}), 3)
                continue
            names = (
                [step.key] if step.key is not None else self._maker.names(step.place) if step.place else []
            )
            for name in names[:3]:
                yield from islice(objects(self._maker, branch, 0, {name: value}), 3)

    # Judging.

    def _separates(self, document: Any, pointer: str | None) -> bool:
        """Whether the old schema accepts a document and the new one refuses it, at `pointer` if there is one."""
        self._left -= 1
        if self._left < 0 or exceeds(document, MAX_DEPTH, _MAX_PARTS):
            return False
        if not self._tells_apart(document):
            return False
        return pointer is None or any(_is_near(pointer, each) for each in self._new.judge.refusing(document))

    def _tells_apart(self, record: Any) -> bool:
        if isinstance(record, Violation):
            return False
        if not self._old.work.is_bounded(record) or not self._new.work.is_bounded(record):
            return False
        return self._old.judge.is_valid(record) and not self._new.judge.is_valid(record)

    # Shrinking.

    def _shrunk(self, document: Any, pointer: str | None, checks: int) -> Any:
        changed = True
        while changed:
            changed = False
            for smaller in _smaller(document):
                checks -= 1
                if checks < 0:
                    return document
                if self._separates(smaller, pointer):
                    document, changed = smaller, True
                    break
        return document


def _is_near(pointer: str, refused: str) -> bool:
    """Whether a keyword that refuses is the one at `pointer`, around it or inside it."""
    return refused == pointer or refused.startswith(f"{pointer}/") or pointer.startswith(f"{refused}/")


def _weight(value: Any) -> tuple[int, int, str]:
    text = text_of(value)
    return len(text), sum(character not in _PLAIN for character in text), text


_MANY: Final = 4
_PLAIN: Final = frozenset('0123456789aefnlrstu{}[],:".')


def _smaller(value: Any) -> Iterator[Any]:
    """Give lighter values: parts left out, then parts made lighter, then the simplest values there are."""
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, dict):
        yield from _smaller_objects(value)
    elif isinstance(value, list):
        yield from ([] for _ in value[:1])
        for index in range(len(value)):
            yield value[:index] + value[index + 1 :]
        for index, item in enumerate(value):
            yield from ([*value[:index], lighter, *value[index + 1 :]] for lighter in _smaller(item))
    weight = _weight(value)
    yield from (each for each in _simpler(value) if _weight(each) < weight)


def _simpler(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        yield from ("", value[: len(value) // 2], value[:-1], value[1:], "a" * len(value))
    elif isinstance(value, int | float | Decimal):
        yield from (0, 1, 2, -1)
        yield from _rounder(value)
    yield from (0, "", {}, [], None)


def _smaller_objects(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    names = list(value)
    if names:
        yield {}
    if len(names) > _MANY:
        for part in (names[::2], names[1::2], names[: len(names) // 2], names[len(names) // 2 :]):
            yield {name: value[name] for name in part}
    for name in names:
        yield {each: member for each, member in value.items() if each != name}
    for name in names:
        for shorter in ("", "a", name[: len(name) // 2], name[1:]):
            if len(shorter) < len(name) and shorter not in value:
                yield {shorter if each == name else each: member for each, member in value.items()}
    for name, member in value.items():
        yield from ({**value, name: lighter} for lighter in _smaller(member))


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
