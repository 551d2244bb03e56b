"""Search for a small document that distinguishes two schemas at one place: build, judge with both, shrink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final

from tidegate.contracts.document.fields import value_at
from tidegate.contracts.formats.json_records import MAX_DEPTH, decode_exactly
from tidegate.contracts.inclusion.answer import Counterexample
from tidegate.contracts.inclusion.json_schema.candidates import WitnessBuilder
from tidegate.contracts.inclusion.json_schema.formula import Formula
from tidegate.contracts.inclusion.json_schema.gaps import LEADING, Gap, ValueStep, branch_of
from tidegate.contracts.inclusion.json_schema.gathered import arrays, objects
from tidegate.contracts.inclusion.json_schema.prover import BudgetSpentError
from tidegate.contracts.inclusion.json_schema.shrinking import Shrinker, Trial
from tidegate.contracts.inclusion.json_schema.values import exceeds, text_of
from tidegate.contracts.verdict import Violation

_MAX_TRIES: Final = 120
_FEW_VALUES: Final = 6
_MORE_VALUES: Final = 12
MAX_CHECKS: Final = 400
"""Maximum smaller documents that are judged for one counterexample."""
_MAX_JUDGED: Final = 12_000
_LEAST_JUDGED: Final = 200
_MAX_PART_CHECKS: Final = 30_000_000
"""Maximum product of judged documents and parts of both schemas."""
MAX_EFFORT: Final = 3_000_000
"""Maximum steps of the judge for schemas whose work is counted; counting a step takes as long as ten steps."""
_MAX_TRIES_OF_ALL: Final = 6_000
_LEAST_TRIES: Final = 12
_MAX_PARTS: Final = 2_000
_NOWHERE: Final = object()


class Refuter:
    """Searches for documents that the old schema accepts and the new one refuses."""

    def __init__(self, old: Formula, new: Formula, builder: WitnessBuilder) -> None:
        self._old = old
        self._new = new
        self._builder = builder
        parts = 1 + old.work.parts + new.work.parts
        self._left = min(_MAX_JUDGED, max(_LEAST_JUDGED, _MAX_PART_CHECKS // parts))
        self._effort = MAX_EFFORT
        self.checked = 0
        """The number of smaller documents that were judged."""
        self._general: list[Any] | None = None
        self._shrinker: Shrinker | None = None
        self._smallest: dict[tuple[frozenset[int], frozenset[int], int], Any] = {}
        """The smallest refuting value that was found for each question (see `_question`)."""

    @property
    def _is_over(self) -> bool:
        return self._left <= 0 or self._effort <= 0

    def refute(self, gap: Gap, checks: int = MAX_CHECKS, gaps: int = 1) -> Counterexample | None:
        """Return a counterexample for one of `gaps` gaps; None if none was found, which proves nothing.

        At most `checks` smaller documents are judged.
        """
        pointer = gap.target.place.pointer
        known = self._reused(gap, pointer)
        if known is not None:
            return known
        tries = min(_MAX_TRIES, max(_LEAST_TRIES, _MAX_TRIES_OF_ALL // gaps))
        for document in chain(islice(self._documents(gap), tries), self._any_documents()):
            if self._is_over:
                break
            if self.separates(document, pointer):
                return self._counterexample(document, pointer, gap, checks)
        return None

    def _reused(self, gap: Gap, pointer: str) -> Counterexample | None:
        """Return a counterexample with the value that was found for the same question at another place, or None."""
        if _question(gap) not in self._smallest or self._is_over:
            return None
        value = self._smallest[_question(gap)]
        for document in islice(self._wrapped([value], gap.situation.steps), 2):
            text = text_of(document)
            read = decode_exactly(text.encode(errors="replace"))
            if not isinstance(read, Violation) and self.separates(read, pointer):
                return Counterexample(text)
        return None

    def refute_anywhere(self) -> Counterexample | None:
        """Return a counterexample at any place; None if none was found."""
        found = next((document for document in self._any_documents() if self.separates(document, None)), None)
        return None if found is None else self._counterexample(found, None, None, MAX_CHECKS)

    def _counterexample(
        self, document: Any, pointer: str | None, gap: Gap | None, checks: int
    ) -> Counterexample | None:
        """Shrink a document, and judge the decoded text of the result again; None if neither text is confirmed."""

        def trial(lighter: Any) -> Trial:
            self.checked += 1
            return self._trial(lighter, pointer)

        if self._shrinker is None:
            self._shrinker = self._new_shrinker()
        field = () if gap is None else gap.situation.field
        smallest = self._shrinker.shrunk(document, field, trial, checks)
        if gap is not None and (found := _at(smallest, field)):
            (self._smallest[_question(gap)],) = found
        for candidate in (smallest, document):
            text = text_of(candidate)
            if self._distinguishes(decode_exactly(text.encode(errors="replace"))):
                return Counterexample(text)
        return None

    def _new_shrinker(self) -> Shrinker:
        """Return a shrinker that knows the required properties of the old schema, with small values for them."""
        try:
            branch = branch_of(self._builder.prover, (self._old.node,), ())
        except BudgetSpentError:
            branch = None
        if branch is None:
            return Shrinker((), {})
        root = branch.facts.objects
        return Shrinker(root.required, {name: made[0] for name, made in root.fillers.items()})

    def _any_documents(self) -> Iterator[Any]:
        if self._general is None:
            self._general = self._builder.values((self._old.node,), (self._new.node,), 0, 40)
        yield from self._general

    # Building.

    def _documents(self, gap: Gap) -> Iterator[Any]:
        at = gap.situation
        # If the old schema does not constrain a place, the target of the gap is the leaf that leads there.
        broken = gap.target.schema if gap.target is at.via and isinstance(gap.target, LEADING) else gap.target
        # Usually one of the first values distinguishes the schemas, and building more is slow for a large schema.
        for most in (_FEW_VALUES, _MORE_VALUES):
            inner = self._builder.values(at.holding, (*at.broken, broken), 0, most)
            yield from self._wrapped(inner, at.steps)

    def _wrapped(self, values: Iterable[Any], steps: tuple[ValueStep, ...]) -> Iterator[Any]:
        """Yield documents with the values at the end of `steps`; the rest of each container fits the old schema."""
        if not steps:
            yield from values
            return
        *outer, step = steps
        for value in values:
            yield from self._wrapped(islice(self._containers(step, value), 4), tuple(outer))

    def _containers(self, step: ValueStep, value: Any) -> Iterator[Any]:
        for branch in self._builder.branches(step.holding, step.broken, 0):
            if isinstance(step.key, int):
                yield from islice(arrays(self._builder, branch, 0, {step.key: value}), 3)
                continue
            names = (
                [step.key] if step.key is not None else self._builder.names(step.place) if step.place else []
            )
            for name in names[:3]:
                yield from islice(objects(self._builder, branch, 0, {name: value}), 3)

    # Judging.

    def separates(self, document: Any, pointer: str | None) -> bool:
        """Return whether the old schema accepts a document and the new one refuses it, at `pointer` unless None.

        False for a document that is too large or takes too much work.
        """
        if exceeds(document, MAX_DEPTH, _MAX_PARTS):
            self._left -= 1
            return False
        return self._trial(document, pointer) is Trial.APART

    def _trial(self, document: Any, pointer: str | None) -> Trial:
        """Judge a document with both schemas, if it can be judged in bounded time."""
        self._left -= 1
        if self._left < 0 or not self._is_bounded(document):
            return Trial.OTHERWISE
        if not self._old.judge.is_valid(document):
            return Trial.REFUSED
        if pointer is None:
            is_there = not self._new.judge.is_valid(document)
        else:
            is_there = any(_is_near(pointer, each) for each in self._new.judge.refusing(document))
        return Trial.APART if is_there else Trial.OTHERWISE

    def _is_bounded(self, document: Any) -> bool:
        for side in (self._old, self._new):
            effort = side.work.effort(document)
            self._effort -= effort.steps + 10 * effort.counted if effort.is_bounded else 10 * effort.counted
            if not effort.is_bounded or self._effort < 0:
                return False
        return True

    def _distinguishes(self, record: Any) -> bool:
        if isinstance(record, Violation) or not self._is_bounded(record):
            return False
        return self._old.judge.is_valid(record) and not self._new.judge.is_valid(record)


def _question(gap: Gap) -> tuple[frozenset[int], frozenset[int], int]:
    """Return the ids of the nodes that a value must fit, of those that it must break, and of the target."""
    at = gap.situation
    return frozenset(each.id for each in at.holding), frozenset(each.id for each in at.broken), gap.target.id


def _at(document: Any, field: tuple[str, ...]) -> list[Any]:
    """Return the value at a place in a document, in a list; an empty list if there is no such place."""
    found = value_at(document, field, _NOWHERE)
    return [] if found is _NOWHERE else [found]


def _is_near(pointer: str, refused: str) -> bool:
    """Return whether the pointer of a refusing keyword is `pointer`, encloses it or is inside it."""
    return refused == pointer or refused.startswith(f"{pointer}/") or pointer.startswith(f"{refused}/")
