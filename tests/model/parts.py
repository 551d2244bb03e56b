"""The parts of the protocol of the table sinks."""

from __future__ import annotations

from enum import StrEnum


class Part(StrEnum):
    """The parts that can be removed; each value says what happens instead."""

    CLAIM = "claim: the start reads the ledger and leaves it as it is"
    CLAIM_COMPARES = "claim: the ledger is overwritten, whatever it is by now"
    CLAIM_IS_MARKED = "claim: whoever comes too late takes a claim of the same text for his own"
    FENCE = "fence: the broker aborts nothing and lets everybody write on"
    FENCE_OLD_SLOTS = "fence: only the slots of the new number"
    VERIFY = "verify: whoever has fenced goes on"
    WATERMARK_AFTER_FENCE = "scan: to the watermark of before the fence"
    SCAN = "scan: nothing is settled"
    SCAN_COMMITTED = "scan: what was aborted is read too"
    START_AT_LEDGER = "judge: from where Spark's checkpoint says"
    ONE_CONTRACT = "judge: refused records are chosen by the contract of when they are written"
    LEAVE_SETTLED_OUT_OF_QUARANTINE = (
        "quarantine: settled records are written again if they are refused again"
    )
    LEAVE_SETTLED_OUT_OF_TABLE = "publish: settled records are published if they are accepted now"
    COUNT_SETTLED = "publish: settled records are not counted"
    TRANSACTIONS = "quarantine: refused records are appended as they come, and nobody is fenced"
    QUARANTINE_BEFORE_PUBLISH = "quarantine: after the publication"
    ALL_SLOTS = "quarantine: only the first slot is waited for"
    SCAN_FROM_SETTLED = "mark: the end of the output, whatever is settled ahead of the batch"
    STAGE = "stage: rows are seen as soon as they are written"
    PUBLISH_COMPARES_EPOCH = "publish: only n is compared"
    PUBLISH_COMPARES_N = "publish: only the epoch is compared"
    ONE_COMMIT_DATA_FIRST = "publish: the ledger moves in a second commit"
    ONE_COMMIT_LEDGER_FIRST = "publish: the data moves in a second commit"
