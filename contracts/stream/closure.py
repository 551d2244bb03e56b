"""How refused records are closed: what became of a refusal, and how a ledger counts those that it has closed."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Closure(StrEnum):
    """What became of a refused record. It stays in the quarantine topic, and is not replayed again."""

    REPLAYED = "replayed"
    """A replay has written it."""
    DISCARDED = "discarded"
    """A person has accepted its loss."""
    RESENT = "resent"
    """It was sent to the source topic again, where it is another record."""
    REJUDGED = "rejudged"
    """The stream was rewound, and the record was judged again."""


class ClosedRefusals(BaseModel):
    """Refused records that a ledger has closed in one way. They stay refused, and are counted as quarantined."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    records: int = Field(ge=0)
    digest: str = Field(
        description="Digest of the newest record of their positions; it names the one before it."
    )


def chain_of(ledger: str, closure: Closure | None) -> str:
    """Return the name of the chain with the positions that a ledger has closed; None names the replayed ones.

    No ledger has the name of another chain: the name of a ledger has no `#`.
    """
    return ledger if closure is None else f"{ledger}#{closure}"
