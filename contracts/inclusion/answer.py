"""The result of an inclusion check: whether the schema `new` accepts every document that the schema `old` accepts.

Backward compatibility means that `old` is included in `new` (a new reader reads old data). Forward compatibility is
the same check with both swapped. The result is sound: `PROVEN` holds for every document. `REFUTED` comes with a
document that the judge accepts under `old` and refuses under `new`. Everything else is `UNDETERMINED`, and blocks a
change like a refutation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The result of an inclusion check."""

    PROVEN = "proven"
    REFUTED = "refuted"
    UNDETERMINED = "undetermined"
    ASSUMED = "assumed"
    """Used by findings only: there is a counterexample, but the contract assumes that such records do not occur."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A document that `old` accepts and `new` refuses, checked against both.

    `text` is the document as JSON text (for Avro: the datum in Avro's JSON encoding), the smallest that was found.
    `encoded` is the Avro binary of that datum, None for JSON Schema.
    """

    text: str
    encoded: bytes | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where `new` does not accept what `old` accepts, or where acceptance could not be proven.

    `code` is stable and names the change, such as `schema.maximum-lowered`. `keyword` is the schema keyword (Avro:
    attribute) behind it. `old_pointer` and `new_pointer` are JSON Pointers (RFC 6901) into the two schema documents.
    Where a schema lacks the keyword, the pointer leads to the nearest enclosing place. `field` is the JSON Pointer of
    the place in a record: `*` stands for any element or undeclared name, "" for the whole record. `sentence` is a
    description for users, with the declared values before and after. `counterexample` is set exactly when `outcome`
    is REFUTED.
    """

    outcome: Outcome
    code: str
    keyword: str
    old_pointer: str
    new_pointer: str
    field: str
    sentence: str
    counterexample: Counterexample | None = None


@dataclass(frozen=True, slots=True)
class Inclusion:
    """The result of an inclusion check. `differences` is empty when PROVEN, and has a REFUTED one when REFUTED."""

    outcome: Outcome
    differences: tuple[Difference, ...] = ()
