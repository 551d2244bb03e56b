"""The parts of the protocol of the table sinks."""

from __future__ import annotations

from enum import StrEnum


class Part(StrEnum):
    """The parts that can be removed; each value says what happens instead."""

    CLAIM = "claim: the start reads the ledger and does not change it"
    CLAIM_COMPARES = "claim: the ledger is overwritten even if it has changed"
    CLAIM_IS_MARKED = "claim: a late instance mistakes an equal claim of another instance for its own"
    FENCE = "fence: the broker aborts nothing, and older producers continue to write"
    FENCE_OLD_SLOTS = "fence: only the slots of the new number"
    VERIFY = "verify: an instance that has fenced continues without reading its claim again"
    WATERMARK_AFTER_FENCE = "scan: up to the watermark read before the fence"
    SCAN = "scan: nothing is settled"
    SCAN_COMMITTED = "scan: aborted records are read too"
    START_AT_LEDGER = "judge: from the offsets of Spark's checkpoint"
    ONE_CONTRACT = "judge: the contract in force at the write decides which records are refused"
    LEAVE_SETTLED_OUT_OF_QUARANTINE = (
        "quarantine: settled records are written again if they are refused again"
    )
    LEAVE_SETTLED_OUT_OF_TABLE = "publish: settled records are published if they are accepted now"
    COUNT_SETTLED = "publish: settled records are not counted"
    TRANSACTIONS = "quarantine: refused records are written without transactions, and no producer is fenced"
    QUARANTINE_BEFORE_PUBLISH = "quarantine: after the publication"
    ALL_SLOTS = "quarantine: only the first slot is awaited"
    SCAN_FROM_SETTLED = "mark: the end of the output, even if records are settled ahead of the batch"
    STAGE = "stage: rows are visible as soon as they are written"
    PUBLISH_COMPARES_EPOCH = "publish: only n is compared"
    PUBLISH_COMPARES_N = "publish: only the epoch is compared"
    ONE_COMMIT_DATA_FIRST = "publish: the ledger moves in a second commit"
    ONE_COMMIT_LEDGER_FIRST = "publish: the data moves in a second commit"
