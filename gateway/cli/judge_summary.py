"""The summary of `tidegate judge`: counts, the first refused records, and the comparison with python-jsonschema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from rich.table import Table
from rich.text import Text

from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.explain.account import Explanation
from tidegate.contracts.formats.reference import ReferenceValidator
from tidegate.contracts.stream.counts import RuleKey
from tidegate.contracts.verdict import Disposition, Stage, Verdict
from tidegate.contracts.words import seen
from tidegate.gateway.cli.terminal import out
from tidegate.gateway.sources.record_files import RecordBlock
from tidegate.gateway.sources.source import Unreadable


@dataclass(slots=True)
class JudgeCounts:
    """The counts of a run, and the first `limit` refused and unreadable records with their places."""

    limit: int
    records: int = 0
    dispositions: Counter[Disposition] = field(default_factory=Counter)
    codes: Counter[RuleKey] = field(default_factory=Counter)
    first_refused: list[tuple[str, tuple[Explanation, ...]]] = field(default_factory=list)
    unreadable: int = 0
    first_unreadable: list[tuple[str, Unreadable]] = field(default_factory=list)

    @property
    def refused(self) -> int:
        """Return the number of records that do not reach the sink."""
        return sum(count for disposition, count in self.dispositions.items() if not disposition.is_written)

    def add(
        self,
        verdicts: Sequence[Verdict],
        place: Callable[[int], str],
        explained: Callable[[int], tuple[Explanation, ...]],
    ) -> None:
        """Count the verdicts on records. A record counts once for each code that it violates.

        For the record at an index, `place` returns its place and `explained` its explanations. They are called only for
        the records that are kept.
        """
        for index, verdict in enumerate(verdicts):
            self.records += 1
            self.dispositions[verdict.disposition] += 1
            self.codes.update({(each.stage, each.code, each.severity) for each in verdict.violations})
            if not verdict.disposition.is_written and len(self.first_refused) < self.limit:
                self.first_refused.append((place(index), explained(index)))

    def add_unreadable(self, unreadable: Sequence[Unreadable], place: Callable[[int], str]) -> None:
        """Count records without a verdict; `place` names a record by its position."""
        self.unreadable += len(unreadable)
        room = max(0, self.limit - len(self.first_unreadable))
        self.first_unreadable += [(place(each.position), each) for each in unreadable[:room]]

    def merge(self, later: JudgeCounts) -> None:
        """Add the counts of later records."""
        self.records += later.records
        self.dispositions += later.dispositions
        self.codes += later.codes
        self.first_refused += later.first_refused[: self.limit - len(self.first_refused)]
        self.unreadable += later.unreadable
        self.first_unreadable += later.first_unreadable[: self.limit - len(self.first_unreadable)]


@dataclass(slots=True)
class SecondOpinion:
    """A comparison of the judge's verdicts on the schema with those of python-jsonschema."""

    validator: ReferenceValidator
    limit: int
    compared: int = 0
    differences: int = 0
    first: list[tuple[int, bool]] = field(default_factory=list)
    """Positions of the first `limit` records that differ, and whether python-jsonschema accepts each."""

    @classmethod
    def on(cls, contract: DataContract, limit: int) -> Self:
        """Return a comparison for records of a contract. Raises SettingsError for framed records and for Avro."""
        if not isinstance(contract.schema_, JsonSchema) or contract.framing != "none":
            raise SettingsError("--reference compares JSON records without frames only")
        return cls(ReferenceValidator(contract.schema_), limit)

    def compare(self, block: RecordBlock, verdicts: list[Verdict]) -> list[bool | None]:
        """Return for each record whether python-jsonschema accepts it; None if the record does not reach the schema."""
        opinions: list[bool | None] = []
        for number, value, verdict in zip(block.positions, block.values, verdicts, strict=True):
            stages = {violation.stage for violation in verdict.violations}
            is_read = value is not None and not stages & {Stage.FRAME, Stage.DECODE}
            opinion = self.validator.accepts(value) if is_read and value is not None else None
            opinions.append(opinion)
            if opinion is None:
                continue
            self.compared += 1
            if opinion is (Stage.SCHEMA in stages):
                self.differences += 1
                if len(self.first) < self.limit:
                    self.first.append((number, opinion))
        return opinions

    def print(self, place: Callable[[int], str]) -> None:
        """Print how often python-jsonschema agrees, and the first records where it does not."""
        agreed = self.compared - self.differences
        out.print(
            f"\n  python-jsonschema agrees on {agreed:,} of {self.compared:,} records that reach the schema"
        )
        for number, accepts in self.first:
            ours, theirs = ("refuses", "accepts") if accepts else ("accepts", "refuses")
            out.print(f"  {seen(place(number))}  the judge {ours} by the schema, python-jsonschema {theirs}")


def print_summary(
    contract: DataContract,
    tally: JudgeCounts,
    more: str = "--show N shows more of them, --format json every verdict",
) -> None:
    """Print the counts and the first refused and unreadable records; `more` says how to show more refused ones."""
    noun = "record" if tally.records == 1 else "records"
    judged = f" {contract.version} · {tally.records:,} {noun} judged\n"
    out.print(Text.assemble((contract.id, "bold"), judged))
    counts = Table.grid(padding=(0, 2, 0, 0))
    counts.add_column()
    counts.add_column(justify="right")
    counts.add_column(justify="right", style="dim")
    for disposition in Disposition:
        if (count := tally.dispositions[disposition]) or disposition is Disposition.ACCEPTED:
            name = Text(f"  {disposition.name.lower()}", style="green" if disposition.is_written else "red")
            counts.add_row(name, f"{count:,}", f"{count / max(tally.records, 1):.2%}")
    if tally.unreadable:
        counts.add_row(Text("  unreadable", style="red"), f"{tally.unreadable:,}", "not judged")
    out.print(counts)
    if tally.codes:
        _print_reasons(tally)
    broken = sum(count for (_, code, _), count in tally.codes.items() if code == "json.invalid")
    if broken > 1 and tally.refused == tally.records and broken >= tally.records / 2:
        out.print("\n  nearly no line is JSON: join records of several lines with `jq -c .`")
    if tally.first_refused:
        _print_refused(tally, more)
    if tally.first_unreadable:
        _print_unreadable(tally)


def _print_reasons(tally: JudgeCounts) -> None:
    reasons = Table.grid(padding=(0, 2, 0, 0))
    reasons.add_column(style="dim")
    reasons.add_column(style="bold")
    reasons.add_column(justify="right")
    for (stage, code, _), count in sorted(tally.codes.items(), key=lambda item: (-item[1], item[0])):
        reasons.add_row(f"  {stage}", code, f"{count:,}")
    out.print()
    out.print(reasons)


def _print_refused(tally: JudgeCounts, more: str) -> None:
    shown = [
        (seen(where), seen(explanation.violation.pointer), explanation)
        for where, violations in tally.first_refused
        for explanation in violations
    ]
    width = max(len(where) for where, _, _ in shown)
    pointer_width = max(len(pointer) for _, pointer, _ in shown)
    indent = " " * (6 + width + pointer_width)
    out.print()
    for where, pointer, explanation in shown:
        place = (f"{pointer:<{pointer_width}}", "cyan")
        code = (explanation.violation.code, "bold")
        out.print(Text.assemble(f"  {where:<{width}}  ", place, "  ", code, ": ", seen(explanation.sentence)))
        for words in (explanation.description, explanation.passes and f"passes with {explanation.passes}"):
            if words:
                out.print(Text(f"{indent}{seen(words)}", style="dim"))
    if (left_out := tally.refused - len(tally.first_refused)) > 0:
        out.print(Text(f"  and {left_out:,} more refused; {more}", "dim"))


def _print_unreadable(tally: JudgeCounts) -> None:
    out.print()
    for place, each in tally.first_unreadable:
        where = (seen(place), (each.pointer and f"  {seen(each.pointer)}", "cyan"))
        out.print(Text.assemble("  ", *where, "  ", ("unreadable", "bold"), f": {seen(each.reason)}"))
    if (more := tally.unreadable - len(tally.first_unreadable)) > 0:
        out.print(Text(f"  and {more:,} more that cannot be read", "dim"))
