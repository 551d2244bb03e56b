"""Positions of dropped records, kept beside the ledger. Pure values and arithmetic; no I/O.

A ledger has room for counts, not for positions. These stand in a topic, in records that form a chain: each names the digest of the
one before it, and the ledger names the digest of the newest. So a record of an attempt that was never published, or of a
stranger, is not in the chain.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pyroaring import BitMap64

from tidegate.contracts.stream.positions import Positions


class DroppedOffsets(BaseModel):
    """Offsets of one source partition whose records a contract dropped, as they stand in the topic."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    ledger: str = Field(description="Name of the ledger that counts them.")
    partition: int = Field(ge=0)
    after: str = Field(description="Digest of the record before it; empty for the first.")
    offsets: str = Field(description="A Roaring bitmap of 64 bits in its portable format, in base64.")

    @property
    def text(self) -> bytes:
        """The canonical JSON text whose digest names it."""
        return self.model_dump_json().encode()

    def bitmap(self) -> BitMap64:
        """Return the offsets. Only for one whose digest the ledger names: the bitmap library trusts its input."""
        return BitMap64.deserialize(b64decode(self.offsets))


def digest_of(text: bytes) -> str:
    """Return the SHA-256 of a record's text in hexadecimal."""
    return sha256(text).hexdigest()


def chained(ledger: str, after: str, dropped: Positions, most_bytes: int) -> Iterator[DroppedOffsets]:
    """Yield the records that add `dropped` to the chain which ends with the digest `after`.

    Each has `most_bytes` of offsets at most, or a single offset.
    """
    for partition, bitmap in sorted(dropped.bitmaps().items()):
        for part in _parts(bitmap, most_bytes):
            record = DroppedOffsets(
                ledger=ledger, partition=partition, after=after, offsets=b64encode(part).decode()
            )
            yield record
            after = digest_of(record.text)


def _parts(bitmap: BitMap64, most_bytes: int) -> Iterator[bytes]:
    written = bitmap.serialize()
    if len(bitmap) == 1 or len(written) * 4 // 3 <= most_bytes:
        yield written
        return
    half = len(bitmap) // 2
    yield from _parts(bitmap[:half], most_bytes)
    yield from _parts(bitmap[half:], most_bytes)


def dropped_by(ledger: str, head: str, texts: Iterable[bytes]) -> Positions:
    """Return the positions in the chain that ends with the digest `head`, as far back as its records are among `texts`.

    Other texts are left out: a topic holds those of other ledgers, and whatever else somebody has put there.
    """
    found: dict[str, DroppedOffsets] = {}
    for text in texts:
        try:
            record = DroppedOffsets.model_validate_json(text)
        except ValidationError:
            continue
        if record.ledger == ledger:
            found[digest_of(text)] = record
    positions = Positions()
    while head in found:
        record = found.pop(head)
        positions.add_all(Positions.of({record.partition: record.bitmap()}))
        head = record.after
    return positions
