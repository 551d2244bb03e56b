"""Closures of refused records: the outcome of a refusal, and the counts of closed ones in a ledger."""

from __future__ import annotations

from enum import StrEnum
from operator import not_

from pydantic import BaseModel, ConfigDict, Field


class Closure(StrEnum):
    """The way in which a refused record was closed. It stays in the quarantine topic, and is not replayed again."""

    REPLAYED = "replayed"
    """A replay has written it."""
    DISCARDED = "discarded"
    """A person has accepted its loss."""
    RESENT = "resent"
    """It was sent to the source topic again, where it is another record."""
    REJUDGED = "rejudged"
    """The stream was rewound, and the record was judged again."""


class ClosedRefusals(BaseModel):
    """Refused records that a ledger has closed in one way. They stay refused, and count as quarantined.

    Records that were sent to the source topic stay closed after a rewind: a batch that reads them again omits them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    records: int = Field(ge=0)
    digest: str = Field(
        description="Digest of the newest record of their positions; it names the one before it."
    )
    until: dict[int, int] = Field(
        default={},
        exclude_if=not_,  # as before any rewind: ledgers are compared by their text
        description="Where the ledger ended before it was rewound, by partition: below, batches leave some of them out.",
    )


def chain_of(ledger: str, closure: Closure | None) -> str:
    """Return the name of the chain with the positions that a ledger has closed in this way; None for replayed ones.

    The names cannot collide with those of other ledgers, which contain no `#`.
    """
    return ledger if closure is None else f"{ledger}#{closure}"
