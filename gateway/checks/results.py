"""What a check has found, before anybody renders it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from tidegate.contracts.compatibility.finding import Direction, Finding, FindingSeverity
from tidegate.contracts.document.load import LoadedContract
from tidegate.contracts.document.semver import precedence
from tidegate.contracts.errors import Problem
from tidegate.contracts.inclusion.answer import Counterexample, Outcome
from tidegate.gateway.checks.shown import printable, shown_path

_LONGEST_EXAMPLE = 400


class FailOn(StrEnum):
    """The mildest severity that fails a check."""

    BREAKING = "breaking"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a file; line and column count from 1, the column in characters."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One finding and the place in a file that people must look at.

    The fields are those of `tidegate.contracts.compatibility.finding.Finding`; `outcome` is None where nothing was compared,
    such as for a contract that does not compile.
    """

    severity: FindingSeverity
    code: str
    sentence: str
    spot: Spot
    pointer: str = ""
    base_pointer: str = ""
    field: str = ""
    outcome: Outcome | None = None
    direction: Direction | None = None
    counterexample: Counterexample | None = None
    consumers: tuple[str, ...] = ()

    @classmethod
    def of(cls, finding: Finding, candidate: LoadedContract) -> CheckFinding:
        """Place a finding in the files of the candidate; what is gone, at what held it before."""
        pointer = finding.pointer or finding.base_pointer.rpartition("/")[0]
        return cls(
            finding.severity,
            finding.code,
            finding.sentence,
            spot_of(candidate.locate(Problem(pointer, finding.sentence)), candidate.document.name),
            finding.pointer,
            finding.base_pointer,
            finding.field,
            finding.outcome,
            finding.direction,
            finding.counterexample,
            finding.consumers,
        )


@dataclass(frozen=True, slots=True)
class BaseName:
    """The version that a candidate was compared with, and where that was found."""

    version: str
    origin: str


@dataclass(frozen=True, slots=True)
class ContractCheck:
    """All that was found about one contract document.

    `contract_id` and `version` are None for a document that does not compile. `base` and `suggested_version` are None
    where there was nothing to compare with; `suggested_version` also where nothing has changed. `affected` and
    `unaffected` split the registered consumers by id.
    """

    file: str
    contract_id: str | None = None
    version: str | None = None
    base: BaseName | None = None
    suggested_version: str | None = None
    findings: tuple[CheckFinding, ...] = ()
    affected: tuple[str, ...] = ()
    unaffected: tuple[str, ...] = ()

    @property
    def opens_major(self) -> bool:
        """Whether the document claims a higher major version than the one it was compared with."""
        if self.base is None or self.version is None:
            return False
        return line_of(self.version) > line_of(self.base.version)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What one run has found, contract by contract, and what of it fails the run.

    `against` is what was compared with, as it was asked for. With `allow_major`, breaking changes fail no contract
    that opens a new major version.
    """

    against: str
    contracts: tuple[ContractCheck, ...]
    fail_on: FailOn = FailOn.BREAKING
    allow_major: bool = False

    def fails(self, contract: ContractCheck, finding: CheckFinding) -> bool:
        """Return whether this finding fails the run."""
        if self.allow_major and contract.opens_major and finding.outcome is not None:
            return False
        return finding.severity in _FAILING[self.fail_on]

    @property
    def failed(self) -> bool:
        """Whether the run fails."""
        return any(
            self.fails(contract, finding) for contract in self.contracts for finding in contract.findings
        )

    @property
    def counts(self) -> Counter[FindingSeverity]:
        """How many findings there are of each severity."""
        return Counter(finding.severity for contract in self.contracts for finding in contract.findings)


_FAILING = {
    FailOn.BREAKING: {FindingSeverity.BREAKING},
    FailOn.WARNING: {FindingSeverity.BREAKING, FindingSeverity.WARNING},
    FailOn.INFO: set(FindingSeverity),
    FailOn.NEVER: set[FindingSeverity](),
}


def line_of(version: str) -> bytes:
    """Return a key for the major line of a version: equal within a line, and ordered as the lines are."""
    return precedence(f"{version.partition('.')[0]}.0.0")


def spot_of(problem: Problem, file: str) -> Spot:
    """Return the place of a located problem; the top of `file` when it has none."""
    return Spot(shown_path(problem.file or file), problem.line or 1, problem.column or 1)


def shown_example(finding: CheckFinding) -> tuple[str, str] | None:
    """Return what introduces a counterexample, and the counterexample, cut if it is long; None when there is none."""
    if finding.counterexample is None:
        return None
    text = finding.counterexample.text
    if len(text) > _LONGEST_EXAMPLE:
        text = f"{text[:_LONGEST_EXAMPLE]}... ({len(text):,} characters; --format json has them all)"
    if finding.direction is Direction.FORWARD:
        return "accepted now, refused before", text
    return "accepted before, refused now", text


def message(finding: CheckFinding) -> str:
    """Say all of a finding in a few lines: the sentence, the counterexample, who reads the field."""
    lines = [printable(finding.sentence)]
    if (example := shown_example(finding)) is not None:
        lines.append(f"{example[0]}: {printable(example[1])}")
    if finding.consumers:
        lines.append(f"consumers: {', '.join(finding.consumers)}")
    return "\n".join(lines)
