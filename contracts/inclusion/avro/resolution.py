"""Check that data written with one Avro schema can be read with another and keeps its meaning.

The types of both schemas are walked pairwise, each pair once. A pair that occurs again is assumed to hold, which
decides recursive types. Every refuted difference has a datum as evidence: it is encoded with the writer's schema, and
fastavro reads it with both. Source: Apache Avro 1.12 specification, "Schema Resolution".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from tidegate.contracts.formats.avro_matching import field_pairs, matches
from tidegate.contracts.formats.avro_types import (
    Array,
    AvroTooDeepError,
    AvroType,
    Enum,
    Map,
    Record,
    Union,
    parse,
)
from tidegate.contracts.inclusion.answer import Counterexample, Difference, Inclusion, Outcome
from tidegate.contracts.inclusion.avro.claims import (
    CODES,
    Claim,
    branch_ambiguous,
    branch_missing,
    enum_claims,
    leaf_claims,
    logical_of,
    meaning,
    mismatch,
    record_claims,
)
from tidegate.contracts.inclusion.avro.data import Datum, Readings, Sizes, encode, json_text
from tidegate.contracts.inclusion.avro.places import AvroPlace, Filling, choices

MAX_STEPS: Final = 500_000
"""Maximum pairs of types that one check compares; about one second."""
MAX_DIFFERENCES: Final = 100
"""Maximum differences, and maximum remarks, in one result."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The result of an inclusion check, and `remarks`: the harmless changes, each a Difference that is PROVEN."""

    inclusion: Inclusion
    remarks: tuple[Difference, ...] = ()


def includes(writer: Any, reader: Any) -> Inclusion:
    """Check whether all data of the `writer` schema can be read with the `reader` schema and keeps its meaning.

    Takes two schema documents (decoded JSON). Raises ContractError if one of them is not an Avro schema.
    """
    return resolve(writer, reader).inclusion


def resolve(writer: Any, reader: Any) -> Resolution:
    """Return the result of `includes` together with the harmless changes. Raises ContractError."""
    try:
        types = parse(writer), parse(reader)
        if writer == reader:
            return Resolution(Inclusion(Outcome.PROVEN))
        return _Walk(*types).answer()
    except AvroTooDeepError:
        return Resolution(Inclusion(Outcome.UNDETERMINED, (_too_large(),)))


class _Walk:
    """The pairwise walk over two schemas, which collects differences and remarks."""

    def __init__(self, writer: AvroType, reader: AvroType) -> None:
        self._root = AvroPlace(writer, reader)
        self._sizes = Sizes(writer)
        self._filling = Filling(self._sizes)
        self._readings = Readings()
        self._steps = 0
        self._differences: dict[Difference, None] = {}
        self._remarks: dict[Difference, None] = {}

    def answer(self) -> Resolution:
        stack, seen = [self._root], set()
        while stack:
            place = stack.pop()
            key = (id(place.writer), id(place.reader), place.is_certain)
            if key in seen:
                continue
            seen.add(key)
            self._steps += _cost(place)
            if self._steps > MAX_STEPS:
                self._differences[_too_large()] = None
                break
            for claim in self._claims(place):
                self._judge(place, claim)
            if len(self._differences) >= MAX_DIFFERENCES:
                break
            stack.extend(reversed(list(self._inner(place))))
        outcomes = {each.outcome for each in self._differences}
        outcome = next(
            (each for each in (Outcome.REFUTED, Outcome.UNDETERMINED) if each in outcomes), Outcome.PROVEN
        )
        return Resolution(
            Inclusion(outcome, tuple(self._differences)), tuple(self._remarks)[:MAX_DIFFERENCES]
        )

    def _claims(self, place: AvroPlace) -> Iterator[Claim]:
        """Yield claims about the two types of a place, without their parts."""
        writer, reader = place.writer, place.reader
        match writer, reader:
            case Union(), _:
                for index, branch in enumerate(writer.branches):
                    chosen = choices(branch, reader)
                    if not chosen:
                        yield branch_missing(writer, index, reader, self._sizes)
                    yield from branch_ambiguous(branch, chosen, f"/{index}")
            case _, Union():
                chosen = choices(writer, reader)
                if not chosen:
                    yield mismatch(place, self._sizes)
                yield from branch_ambiguous(writer, chosen)
            case (Array(), Array()) | (Map(), Map()):
                pass
            case _ if not matches(writer, reader):
                yield mismatch(place, self._sizes)
            case Record(), Record():
                has_data = self._sizes.exists(writer)
                data = (self._filling.fill(writer, reader),) if has_data else ()
                yield from record_claims(place, writer, reader, data)
            case Enum(), Enum():
                yield from enum_claims(writer, reader)
            case _:
                yield from leaf_claims(place)

    def _inner(self, place: AvroPlace) -> Iterator[AvroPlace]:  # noqa: C901 - one for each type
        """Yield the pairs of types that must also be resolvable for this pair to be."""
        writer, reader = place.writer, place.reader
        match writer, reader:
            case Union(), _:
                for index, branch in enumerate(writer.branches):
                    for rank, choice in enumerate(choices(branch, reader)):
                        yield place.below(branch, choice, index, is_certain=rank == 0)
            case _, Union():
                for rank, choice in enumerate(choices(writer, reader)):
                    is_certain = place.is_certain and rank == 0
                    yield AvroPlace(writer, choice, place.field, place.parent, place.step, is_certain)
            case Array(), Array():
                yield place.below(writer.items, reader.items)
            case Map(), Map():
                yield place.below(writer.values, reader.values)
            case Record(), Record() if matches(writer, reader):
                pairs = field_pairs(writer, reader)
                for each in reader.fields:
                    if each.name in pairs:
                        written = pairs[each.name]
                        yield place.below(written.type, each.type, written.name)

    def _judge(self, place: AvroPlace, claim: Claim) -> None:
        """Record a claim as a remark or as a difference, with the outcome that its evidence supports."""
        if claim.is_harmless:
            self._remarks[_difference(place, claim, Outcome.PROVEN)] = None
            return
        for datum in claim.data if place.is_certain else ():
            evidence = self._evidence(place, claim, datum)
            if evidence is not None:
                more, shown = evidence
                full_claim = replace(claim, sentence=claim.sentence + more)
                self._differences[_difference(place, full_claim, Outcome.REFUTED, shown)] = None
                return
        self._differences[_difference(place, claim, Outcome.UNDETERMINED)] = None

    def _evidence(self, place: AvroPlace, claim: Claim, datum: Datum) -> tuple[str, Counterexample] | None:
        """Return the end of the sentence and a counterexample; None if the datum does not confirm the claim.

        The datum is read with both types of the place, then the whole record around it with both schemas.
        """
        if not all(self._sizes.exists(each.writer) for each in place.path()):
            return None
        local = encode(place.writer, datum)
        value, failure = self._readings.read(local, place.writer, place.reader)
        more = ""
        if claim.changes_meaning and failure is None:
            written, _ = self._readings.read(local, place.writer, place.writer)
            before = meaning(written, logical_of(place.writer))
            after = meaning(value, logical_of(place.reader))
            if before is None or before == after:
                return None
            more = f": {before} becomes {after}" if after is not None else f": `{before}` is not such a value"
        elif failure is None:
            return None
        record = self._filling.around(place, datum)
        encoded = encode(self._root.writer, record)
        if not claim.changes_meaning and self._reads(encoded):
            return None
        return more, Counterexample(json_text(self._root.writer, record), encoded)

    def _reads(self, encoded: bytes) -> bool:
        _, failure = self._readings.read(encoded, self._root.writer, self._root.reader)
        return failure is None


def _cost(place: AvroPlace) -> int:
    """Return the number of pairs of types that are compared at a place: every branch with every branch."""
    sides = (len(each.branches) if isinstance(each, Union) else 1 for each in (place.writer, place.reader))
    return math.prod(sides)


def _difference(
    place: AvroPlace, claim: Claim, outcome: Outcome, shown: Counterexample | None = None
) -> Difference:
    field = claim.field or place.field
    subject = f"`{field}`: " if field else ""
    doubt = "" if outcome is not Outcome.UNDETERMINED else " (not shown by a datum)"
    return Difference(
        outcome,
        claim.code,
        claim.keyword,
        place.writer.pointer + claim.old,
        place.reader.pointer + claim.new,
        field,
        f"{subject}{claim.sentence}{doubt}",
        shown,
    )


def _too_large() -> Difference:
    code = "avro.too-large"
    return Difference(Outcome.UNDETERMINED, code, "", "", "", "", CODES[code])
