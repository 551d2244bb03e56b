"""Shadow verdicts: how another version of a contract would judge the same records. Counts, never a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, Field

from tidegate.contracts.stream.bounds import MOST_RULES, PointerText, VersionText
from tidegate.contracts.stream.counts import CodeText, Count, RuleCount, RuleKey, rule_counts
from tidegate.contracts.stream.versions import MESSAGE
from tidegate.contracts.verdict import Stage

MOST_SAMPLES = 20
"""Maximum number of sample records that are kept, the newest first."""


class VerdictChange(StrEnum):
    """The shadow's treatment of a record that the enforced version treats otherwise."""

    REFUSE = "refuse"
    ACCEPT = "accept"


class ShadowReason(BaseModel):
    """A reason why one of both versions refuses a record; `pointer` is that of a Violation, and names no undeclared field."""

    model_config = MESSAGE

    stage: Stage
    code: CodeText
    pointer: PointerText


class ShadowSample(BaseModel):
    """The position of a record that the shadow would treat otherwise, and the reason of the version that refuses it."""

    model_config = MESSAGE

    partition: Count
    offset: Count
    change: VerdictChange
    reasons: Annotated[tuple[ShadowReason, ...], Field(max_length=20)] = ()


class ShadowResult(BaseModel):
    """Verdicts of a shadow version on some records. They have no effect on the records.

    `would_refuse` counts records that are written and that the shadow refuses; `would_accept` counts the reverse.
    `would_stop` counts the records of `would_refuse` for which the shadow would stop the stream (on_violation
    `fail`). `refused_by` counts by rules of the shadow, `accepted_by` by rules of the enforced version, and a record
    may count under several. Rules stand by their id, and what the schema, the decoder or a column says under the name
    of its stage. Records that are settled already by an earlier attempt are not compared. `failure` says why records
    were left out; it holds no value.
    """

    model_config = MESSAGE

    version: VersionText = Field(
        description="Version of the contract that is judged beside the enforced one."
    )
    compared: Count = 0
    would_refuse: Count = 0
    would_accept: Count = 0
    would_stop: Count = 0
    refused_by: Annotated[tuple[RuleCount, ...], Field(max_length=MOST_RULES)] = ()
    accepted_by: Annotated[tuple[RuleCount, ...], Field(max_length=MOST_RULES)] = ()
    samples: Annotated[tuple[ShadowSample, ...], Field(max_length=MOST_SAMPLES)] = ()
    failure: Annotated[str, Field(max_length=500)] | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """Return all record counts of the result."""
        rules = (count.records for count in (*self.refused_by, *self.accepted_by))
        return (self.compared, self.would_refuse, self.would_accept, self.would_stop, *rules)

    def merged(self, later: ShadowResult) -> ShadowResult:
        """Return the sum with the result of the same version for later records."""
        return ShadowResult(
            version=self.version,
            compared=self.compared + later.compared,
            would_refuse=self.would_refuse + later.would_refuse,
            would_accept=self.would_accept + later.would_accept,
            would_stop=self.would_stop + later.would_stop,
            refused_by=added((self.refused_by, later.refused_by)),
            accepted_by=added((self.accepted_by, later.accepted_by)),
            samples=(*later.samples, *self.samples)[:MOST_SAMPLES],
            failure=later.failure or self.failure,
        )


class ShadowFindings(BaseModel):
    """Verdicts of a stream's shadow version on all batches since it was declared."""

    model_config = MESSAGE

    stream: str
    against: str = Field(description="id@version that was enforced in the last batch.")
    since: AwareDatetime = Field(description="When the first batch was committed that it was judged beside.")
    until: AwareDatetime = Field(description="When the last one was.")
    batches: Count
    result: ShadowResult


def added(counts: Iterable[Iterable[RuleCount]]) -> tuple[RuleCount, ...]:
    """Return the counts added up by rule, most frequent first, at most MOST_RULES of them."""
    sums: Counter[RuleKey] = Counter()
    for each in counts:
        sums.update({(count.stage, count.code, count.severity): count.records for count in each})
    return rule_counts(sums)[:MOST_RULES]
