"""The values that a judgement produces. Frozen and slotted: they are made for refused records by the million."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Stage(StrEnum):
    """The stage of the judge that found a violation, in the order in which a record passes them.

    The last one finds it in the batch, and every accepted record of the batch has it.
    """

    FRAME = "frame"
    DECODE = "decode"
    SCHEMA = "schema"
    RULE = "rule"
    COLUMN = "column"
    EXPECTATION = "expectation"


class Severity(StrEnum):
    """`error` takes the rule's or the contract's `on_violation`; `warning` is written and counted."""

    ERROR = "error"
    WARNING = "warning"


class Disposition(IntEnum):
    """The treatment of a record: the highest that one of its violations asks for."""

    ACCEPTED = 0
    WARNED = 1
    ALERTED = 2
    DROPPED = 3
    QUARANTINED = 4
    FAILED = 5

    @property
    def is_written(self) -> bool:
        """Return whether a record of this disposition reaches the sink."""
        return self <= Disposition.ALERTED


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which one record breaks its contract.

    `code` depends on the stage: the id of the rule or expectation, the schema keyword, or the column name. Stages
    frame and decode have fixed codes such as `json.invalid`. `pointer` is the JSON Pointer (RFC 6901) of the
    offending place in the record, "" for the whole record or batch. Names that the contract does not declare are
    written as `*`. `message` is a sentence that contains no value of the payload.
    """

    stage: Stage
    code: str
    pointer: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one record with all its evidence; `violations` is empty exactly when it is ACCEPTED."""

    disposition: Disposition
    violations: tuple[Violation, ...] = ()

    @property
    def is_accepted(self) -> bool:
        """Return whether the record is written."""
        return self.disposition.is_written
