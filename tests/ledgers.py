"""Ledgers that tests start from and change with `model_copy`."""

from __future__ import annotations

from tidegate.contracts.stream.ledger import Ledger

LEDGER = Ledger(
    name="s@iceberg:1",
    stream="s",
    topic="t",
    topic_id="id",
    epoch=3,
    n=7,
    begin={0: 0, 1: 5},
    end={0: 10, 1: 5},
    scan_from={},
    slots=1,
)
NEW = LEDGER.model_copy(update={"epoch": 1, "n": 0, "begin": {}, "end": {}})
"""The ledger of a stream that has published nothing yet."""
