"""Types of the counts in reports, and the number of records by violated rule."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Final

from pydantic import BaseModel, Field

from tidegate.contracts.stream.versions import MESSAGE
from tidegate.contracts.verdict import Severity, Stage

Count = Annotated[int, Field(ge=0, lt=2**63)]
"""A count or offset: up to 2^63 - 1, the largest number that every database and Kafka can hold."""

LONGEST_CODE: Final = 500
CodeText = Annotated[str, Field(max_length=LONGEST_CODE)]
"""Rule id, expectation id, schema keyword or column name."""

RuleKey = tuple[Stage, str, Severity]
"""The key of a count: the stage, the rule id, keyword or column, and its severity."""


class RuleCount(BaseModel):
    """The number of records of a batch that violated one rule or schema keyword (a record may count under several)."""

    model_config = MESSAGE

    stage: Stage
    code: CodeText
    severity: Severity
    records: Annotated[int, Field(ge=1, lt=2**63)]


def rule_counts(counts: Counter[RuleKey]) -> tuple[RuleCount, ...]:
    """Return the counts as reported, most frequent first. Codes are cut at 500 characters and then merged."""
    sums: Counter[RuleKey] = Counter()
    for (stage, code, severity), records in counts.items():
        sums[stage, code[:LONGEST_CODE], severity] += records
    return tuple(
        RuleCount(stage=stage, code=code, severity=severity, records=records)
        for (stage, code, severity), records in sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    )
