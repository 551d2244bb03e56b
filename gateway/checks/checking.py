"""Compare each candidate with the version that it follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tidegate.contracts.compatibility.compare import compare, compare_for, suggested_version
from tidegate.contracts.compatibility.finding import Comparison, Finding, FindingSeverity, is_transitive
from tidegate.contracts.compiled import check_compiles
from tidegate.contracts.document.fingerprint import fingerprint
from tidegate.contracts.document.load import LoadedContract
from tidegate.contracts.document.model import Compatibility, DataContract
from tidegate.contracts.document.semver import precedence
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.words import seen
from tidegate.gateway.checks.baselines import Baseline, Missing
from tidegate.gateway.checks.discovery import Candidate
from tidegate.gateway.checks.history import ENFORCED, BaseVersion, History
from tidegate.gateway.checks.places import shown_path
from tidegate.gateway.checks.results import BaseInfo, CheckFinding, ContractCheck, Spot, spot_of
from tidegate.gateway.registry.unjudged_rules import carried_problems, noted_in

_RANK = {severity: rank for rank, severity in enumerate(FindingSeverity)}


def check(
    candidates: Iterable[Candidate], baseline: Baseline, level: Compatibility | None
) -> tuple[ContractCheck, ...]:
    """Return the checks of all candidates in order, then those of deleted or moved contracts.

    `level` replaces the compatibility level of the contracts.
    """
    candidates = tuple(candidates)
    checks = [_check_one(candidate, baseline, level) for candidate in candidates]
    doubles = _doubles(candidates)
    checks = [
        replace(one, findings=(doubles[one.file], *one.findings)) if one.file in doubles else one
        for one in checks
    ]
    return (*checks, *(_gone(missing) for missing in baseline.missing(candidates)))


def compare_documents(
    base: LoadedContract, candidate: LoadedContract, level: Compatibility | None
) -> ContractCheck:
    """Compare two documents, whatever their versions. Raises ContractError if one does not compile."""
    for loaded in (base, candidate):
        _require_compiled(loaded)
    version = BaseVersion(
        base.contract.version,
        base.contract.status,
        fingerprint(base.contract),
        seen(base.document.name),
        lambda: base.contract,
    )
    return _compared(candidate, version, compare(base.contract, candidate.contract, level=level))


def _require_compiled(loaded: LoadedContract) -> None:
    """Raise ContractError, with the place of each mistake, for a contract that does not compile."""
    try:
        check_compiles(loaded.contract)
    except ContractError as error:
        raise ContractError(tuple(loaded.locate(problem) for problem in error.problems)) from error


def _check_one(candidate: Candidate, baseline: Baseline, level: Compatibility | None) -> ContractCheck:
    loaded = candidate.loaded
    if loaded is None:
        return ContractCheck(
            candidate.shown, findings=tuple(_invalid(one, candidate) for one in candidate.problems)
        )
    history = baseline.history(candidate)
    contract = loaded.contract
    same = history.same_as(fingerprint(contract))
    if same is not None:
        return ContractCheck(
            candidate.shown,
            contract.id,
            contract.version,
            BaseInfo(same.version, same.origin),
            findings=tuple(_registered_rules(loaded, same)),
        )
    predecessor = history.predecessor(contract.version)
    warnings = (
        *(_warning(loaded, "contract.unknown-name", each) for each in loaded.warnings),
        *(
            _warning(loaded, "contract.rule-not-judged", loaded.locate(each))
            for each in carried_problems(contract)
        ),
        *(_registered_rules(loaded, predecessor) if predecessor is not None else ()),
    )
    if predecessor is None:
        findings = (_first(loaded, history), *warnings)
        return ContractCheck(candidate.shown, contract.id, contract.version, findings=findings)
    try:
        comparison = _comparison(loaded, history, predecessor, level)
    except ContractError as error:
        # The candidate compiles, so the error is in an earlier version.
        finding = _unreadable(loaded, error.problems[0])
        return ContractCheck(candidate.shown, contract.id, contract.version, findings=(finding,))
    more = (*_version_findings(loaded, history, predecessor, comparison), *warnings)
    return _compared(loaded, predecessor, comparison, more)


def _comparison(
    candidate: LoadedContract, history: History, predecessor: BaseVersion, level: Compatibility | None
) -> Comparison:
    """Compare with the predecessor; with a transitive level, add the breaking findings against versions before it."""
    base = _compiled(predecessor)
    level = level or base.compatibility
    earlier = history.before(predecessor) if is_transitive(level) else ()
    versions = (base, *(_compiled(version) for version in earlier))
    newest, *older = (compare_for(history.readers, one, candidate.contract, level) for one in versions)
    if not older:
        return newest
    findings = {_about(finding): finding for finding in newest.findings}
    for comparison in older:
        for finding in comparison.findings:
            if finding.severity is FindingSeverity.BREAKING:
                sentence = f"{finding.sentence} (against {comparison.against})"
                findings.setdefault(_about(finding), replace(finding, sentence=sentence))
    merged = tuple(sorted(findings.values(), key=lambda finding: _RANK[finding.severity]))
    affected = {consumer for finding in merged for consumer in finding.consumers}
    consumers = {*newest.affected, *newest.unaffected, *affected}
    return Comparison(
        newest.against,
        merged,
        suggested_version(newest.against, merged),
        tuple(sorted(affected)),
        tuple(sorted(consumers - affected)),
    )


def _compiled(version: BaseVersion) -> DataContract:
    """Load an earlier version. Raises ContractError if it does not compile."""
    contract = version.load()
    check_compiles(contract)
    return contract


def _about(finding: Finding) -> tuple[object, ...]:
    """Return a key that is equal for the same finding against several versions."""
    return (finding.severity, finding.code, finding.pointer, finding.field, finding.direction)


def _compared(
    candidate: LoadedContract, base: BaseVersion, comparison: Comparison, more: tuple[CheckFinding, ...] = ()
) -> ContractCheck:
    findings = [*(CheckFinding.of(finding, candidate) for finding in comparison.findings), *more]
    has_changed = fingerprint(candidate.contract) != base.fingerprint
    return ContractCheck(
        shown_path(candidate.document.name),
        candidate.contract.id,
        candidate.contract.version,
        BaseInfo(base.version, base.origin),
        comparison.suggested_version if has_changed else None,
        tuple(sorted(findings, key=lambda finding: _RANK[finding.severity])),
        comparison.affected,
        comparison.unaffected,
    )


def _warning(loaded: LoadedContract, code: str, problem: Problem) -> CheckFinding:
    spot = spot_of(problem, loaded.document.name)
    return CheckFinding(FindingSeverity.WARNING, code, problem.message, spot, problem.pointer)


def _registered_rules(loaded: LoadedContract, version: BaseVersion) -> Iterator[CheckFinding]:
    """Yield a finding for each rule that clients registered with a version and the stream does not judge."""
    for reason in noted_in(version.note):
        sentence = f"{version.version}: the rule {seen(reason)}"
        yield _found(loaded, FindingSeverity.INFO, "contract.rule-not-judged", sentence, "/schema")


def _invalid(problem: Problem, candidate: Candidate) -> CheckFinding:
    return CheckFinding(
        FindingSeverity.BREAKING,
        "contract.invalid",
        problem.message,
        spot_of(problem, candidate.shown),
        problem.pointer,
    )


def _doubles(candidates: Iterable[Candidate]) -> dict[str, CheckFinding]:
    """Return, by file, a finding for each document that has the id and version of an earlier one but other content."""
    first: dict[tuple[str, str], tuple[str, str]] = {}
    found = {}
    for candidate in candidates:
        if candidate.loaded is None:
            continue
        contract = candidate.loaded.contract
        mark = fingerprint(contract)
        file, other = first.setdefault((contract.id, contract.version), (candidate.shown, mark))
        if other != mark:
            sentence = (
                f"{contract.id} {contract.version} is also what {file} says it is, with another content"
            )
            doubled = _found(
                candidate.loaded, FindingSeverity.BREAKING, "version.doubled", sentence, "/version"
            )
            found[candidate.shown] = doubled
    return found


def _first(loaded: LoadedContract, history: History) -> CheckFinding:
    """Return the finding that explains why there is no version to compare with."""
    contract = loaded.contract
    if history.unreadable is not None:
        return _unreadable(loaded, history.unreadable)
    if history.versions:
        states = ", ".join(f"{found.version} is {found.status}" for found in history.versions)
        sentence = f"nothing to compare with, for no version of {contract.id} is enforced: {states}"
        return _found(loaded, FindingSeverity.INFO, "contract.not-enforced", sentence, "/id")
    sentence = f"{contract.id} is a new contract: nothing to compare with"
    return _found(loaded, FindingSeverity.INFO, "contract.new", sentence, "/id")


def _unreadable(loaded: LoadedContract, problem: Problem) -> CheckFinding:
    sentence = f"nothing to compare with, for the version before is wrong: {problem}"
    return _found(loaded, FindingSeverity.WARNING, "base.invalid", sentence, "/id")


def _version_findings(
    loaded: LoadedContract, history: History, base: BaseVersion, comparison: Comparison
) -> tuple[CheckFinding, ...]:
    """Return a finding if the version number does not fit the change of the document."""
    version, suggested = loaded.contract.version, comparison.suggested_version
    severity, code = FindingSeverity.BREAKING, "version.too-low"
    if version == base.version:
        sentence = f"the document has changed, but its version is still {version}; make it {suggested}"
    elif precedence(version) <= precedence(base.version):
        sentence = f"version {version} is not above {base.version}, which it follows; make it {suggested}"
    elif history.is_published and any(version == found.version for found in history.versions):
        code = "version.taken"
        sentence = f"version {version} is published with another content; a published version never changes"
    elif precedence(version) < precedence(suggested):
        severity = FindingSeverity.WARNING
        sentence = f"version {version} says less than has changed since {base.version}; make it {suggested}"
    else:
        return ()
    return (replace(_found(loaded, severity, code, sentence, "/version"), base_pointer="/version"),)


def _gone(missing: Missing) -> ContractCheck:
    """Report a contract whose document was deleted or moved."""
    contract, document = missing.contract, missing.document
    consumers = tuple(sorted(consumer.id for consumer in contract.consumers))
    if missing.moved_to is not None:
        severity, code = FindingSeverity.INFO, "contract.moved"
        sentence = f"{contract.id} is now in {missing.moved_to}; check it there"
        consumers = ()
    elif contract.status in ENFORCED:
        severity, code = FindingSeverity.BREAKING, "contract.deleted"
        sentence = (
            f"{contract.id} {contract.version} is deleted while it is {contract.status}; retire it first"
        )
    else:
        severity, code = FindingSeverity.INFO, "contract.deleted"
        sentence = f"{contract.id} {contract.version}, which is {contract.status}, is deleted"
    finding = CheckFinding(severity, code, sentence, Spot(document.shown), consumers=consumers)
    base = BaseInfo(contract.version, document.origin)
    return ContractCheck(document.shown, contract.id, None, base, None, (finding,), consumers)


def _found(
    loaded: LoadedContract, severity: FindingSeverity, code: str, sentence: str, pointer: str
) -> CheckFinding:
    spot = spot_of(loaded.locate(Problem(pointer, "")), loaded.document.name)
    return CheckFinding(severity, code, sentence, spot, pointer)
