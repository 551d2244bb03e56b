"""The answer to one question: whether every document of the schema `old` is also a document of the schema `new`.

Backward compatibility is `old` in `new` (a new reader reads old data), forward compatibility the same question
with both swapped. The answer is sound: `PROVEN` is said only of what holds for every document, `REFUTED` only with a
document that the judge really tells apart. Everything else is `UNDETERMINED` and blocks like a refutation.
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
    """Of a finding only: what refutes it is assumed not to occur."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A document that `old` accepts and `new` refuses, judged by both.

    `text` is the document as JSON text (for Avro: the datum in Avro's JSON encoding), as small as could be found.
    `encoded` is the Avro binary of that datum, None for JSON Schema.
    """

    text: str
    encoded: bytes | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where `new` does not, or cannot be shown to, accept what `old` accepts.

    `code` is stable and names the change in the field's words, such as `schema.maximum-lowered`. `keyword` is the
    schema keyword (Avro: attribute) behind it. `old_pointer` and `new_pointer` are JSON Pointers (RFC 6901) into the
    two schema documents; the nearest enclosing place where a schema has no such keyword. `field` is the JSON Pointer
    of the place in a record, `*` standing for any element or undeclared name, "" for the whole record. `sentence`
    says it for people, with the declared values before and after. `counterexample` is there exactly when `outcome`
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
    """The answer, with its differences: none when PROVEN; at least one REFUTED among them when REFUTED."""

    outcome: Outcome
    differences: tuple[Difference, ...] = ()
