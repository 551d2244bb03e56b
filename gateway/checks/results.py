"""The results of a check, before they are rendered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from enum import StrEnum

from tidegate.contracts.compatibility.finding import Direction, Finding, FindingSeverity, example_label
from tidegate.contracts.document.load import LoadedContract
from tidegate.contracts.document.semver import precedence
from tidegate.contracts.errors import Problem
from tidegate.contracts.inclusion.answer import Counterexample, Outcome
from tidegate.contracts.words import seen
from tidegate.gateway.checks.places import shown_path

_LONGEST_EXAMPLE = 400  # characters


class FailOn(StrEnum):
    """The lowest severity that fails a check."""

    BREAKING = "breaking"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Spot:
    """A position in a file; line and column count from 1, the column in characters."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One finding, and its position in a file.

    The fields are those of `tidegate.contracts.compatibility.finding.Finding`; `outcome` is None if nothing was compared,
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
        """Locate a finding in the files of the candidate; a finding about a removed part is at the part's former parent."""
        pointer = finding.pointer or finding.base_pointer.rpartition("/")[0]
        spot = spot_of(candidate.locate(Problem(pointer, finding.sentence)), candidate.document.name)
        return cls(spot=spot, **{each.name: getattr(finding, each.name) for each in fields(finding)})


@dataclass(frozen=True, slots=True)
class BaseInfo:
    """The base of a candidate's comparison; `origin` is its source, such as a Git revision."""

    version: str
    origin: str


@dataclass(frozen=True, slots=True)
class ContractCheck:
    """The findings about one contract document.

    `contract_id` and `version` are None for a document that does not compile. `base` is None without an earlier
    version; `suggested_version` also if nothing has changed. `affected` and `unaffected` are the ids of the registered
    consumers, by whether the change breaks them.
    """

    file: str
    contract_id: str | None = None
    version: str | None = None
    base: BaseInfo | None = None
    suggested_version: str | None = None
    findings: tuple[CheckFinding, ...] = ()
    affected: tuple[str, ...] = ()
    unaffected: tuple[str, ...] = ()

    @property
    def opens_major(self) -> bool:
        """Return whether the document claims a higher major version than the one it was compared with."""
        if self.base is None or self.version is None:
            return False
        return major_key(self.version) > major_key(self.base.version)


_FAILING = {
    FailOn.BREAKING: {FindingSeverity.BREAKING},
    FailOn.WARNING: {FindingSeverity.BREAKING, FindingSeverity.WARNING},
    FailOn.INFO: set(FindingSeverity),
    FailOn.NEVER: set[FindingSeverity](),
}


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of one run, contract by contract.

    `against` is the base of the comparison as the user gave it. With `allow_major`, breaking changes do not fail a
    contract that opens a new major version.
    """

    against: str
    contracts: tuple[ContractCheck, ...]
    fail_on: FailOn = FailOn.BREAKING
    allow_major: bool = False

    def fails(self, contract: ContractCheck, finding: CheckFinding) -> bool:
        """Return whether this finding fails the run."""
        is_change = (
            finding.outcome is not None
        )  # None for a contract that does not compile, which always fails
        if self.allow_major and contract.opens_major and is_change:
            return False
        return finding.severity in _FAILING[self.fail_on]

    @property
    def failed(self) -> bool:
        """Return whether the run fails."""
        return any(
            self.fails(contract, finding) for contract in self.contracts for finding in contract.findings
        )

    @property
    def counts(self) -> Counter[FindingSeverity]:
        """Return the number of findings of each severity."""
        return Counter(finding.severity for contract in self.contracts for finding in contract.findings)


def major_key(version: str) -> bytes:
    """Return a sort key of a version's major number, equal for equal major numbers."""
    return precedence(f"{version.partition('.')[0]}.0.0")


def spot_of(problem: Problem, file: str) -> Spot:
    """Return the position of a problem; line 1 of `file` for a problem without one."""
    return Spot(shown_path(problem.file or file), problem.line or 1, problem.column or 1)


def shown_example(finding: CheckFinding) -> tuple[str, str] | None:
    """Return a label for the counterexample and its text, shortened if it is long; None without a counterexample."""
    if finding.counterexample is None:
        return None
    text = finding.counterexample.text
    if len(text) > _LONGEST_EXAMPLE:
        text = f"{text[:_LONGEST_EXAMPLE]}... ({len(text):,} characters; --format json has them all)"
    return example_label(finding.outcome, finding.direction), text


def message(finding: CheckFinding) -> str:
    """Describe a finding in a few lines: the sentence, the counterexample, the consumers that read the field."""
    lines = [seen(finding.sentence)]
    if (example := shown_example(finding)) is not None:
        lines.append(f"{example[0]}: {seen(example[1])}")
    if finding.consumers:
        lines.append(f"consumers: {seen(', '.join(finding.consumers))}")
    return "\n".join(lines)
