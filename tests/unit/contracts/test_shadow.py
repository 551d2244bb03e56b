"""What shadow versions find, added up over batches."""

from __future__ import annotations

from tidegate.contracts.stream.counts import RuleCount
from tidegate.contracts.stream.shadow import MOST_SAMPLES, ShadowResult, ShadowSample, VerdictChange
from tidegate.contracts.verdict import Severity, Stage


def rule(code: str, records: int) -> RuleCount:
    return RuleCount(stage=Stage.RULE, code=code, severity=Severity.ERROR, records=records)


def sample(offset: int) -> ShadowSample:
    return ShadowSample(partition=0, offset=offset, change=VerdictChange.REFUSE)


def test_counts_are_added_and_the_newest_places_are_kept() -> None:
    first = ShadowResult(
        version="2.0.0",
        compared=10,
        would_refuse=3,
        refused_by=(rule("a", 2), rule("b", 1)),
        samples=tuple(sample(n) for n in range(MOST_SAMPLES)),
        failure="once",
    )
    later = ShadowResult(
        version="2.0.0",
        compared=5,
        would_refuse=2,
        would_accept=1,
        would_stop=1,
        refused_by=(rule("b", 2),),
        accepted_by=(rule("c", 1),),
        samples=(sample(100),),
    )
    both = first.merged(later)
    assert (both.compared, both.would_refuse, both.would_accept, both.would_stop) == (15, 5, 1, 1)
    assert both.refused_by == (rule("b", 3), rule("a", 2))
    assert both.accepted_by == (rule("c", 1),)
    assert [each.offset for each in both.samples] == [100, *range(MOST_SAMPLES - 1)]
    assert both.failure == "once"
