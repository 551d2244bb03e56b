"""The ledger: one value per stream that says where it stands. Pure values and arithmetic; no I/O.

It is kept where the data is kept and changed only by compare-and-set, in the same commit as the data.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

Vector = dict[int, int]
"""Partition to offset: the first offset that is not yet accounted for."""


class Ledger(BaseModel):
    """Where a stream stands.

    `epoch` counts claims, `n` counts published batches. `end` maps each source partition to the first offset not
    yet accounted for. `scan_from` maps each output topic to the offsets from which a recovery must look for records
    of a batch that was not published. `slots` is the number of transactional producers that wrote last.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stream: str
    topic: str
    topic_id: str
    epoch: int = Field(ge=0)
    n: int = Field(ge=0)
    end: Vector
    scan_from: dict[str, Vector]
    slots: int = Field(ge=1)
    dropped: int = Field(default=0, ge=0, description="Records dropped so far by the contract's own wish.")
    quarantined: int = Field(default=0, ge=0)
    written: int = Field(default=0, ge=0)
    contract: str | None = Field(default=None, description="id@version of the last published batch.")
