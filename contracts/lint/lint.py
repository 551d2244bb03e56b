"""Lint: check a contract file as its author wants to hear of it, every mistake at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tidegate.contracts.document.load import Draft, LoadedContract, read_draft
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.judge.plan import check_compiles
from tidegate.contracts.lint.spelling import Spelling, check_spelling


def lint(path: Path) -> LoadedContract:
    """Load a contract file and compile it, so that what the schema says is checked too.

    Raises ContractError with every problem of the document, located and in document order.
    """
    draft = read_draft(path)
    problems = _compile_problems(draft)
    spelling = _spelling(draft)
    loaded = draft.finish([*problems, *(draft.locate(each) for each in spelling.errors)])
    return replace(loaded, warnings=tuple(loaded.locate(each) for each in spelling.warnings))


def _compile_problems(draft: Draft) -> list[Problem]:
    """Compile what there is; leave out what is known to be wrong already."""
    if draft.contract is None:
        return []
    try:
        check_compiles(draft.contract)
    except ContractError as error:
        found = [draft.locate(problem) for problem in error.problems]
        told = {_told(problem) for problem in draft.problems}
        return [problem for problem in found if _told(problem) not in told]
    return []


def _spelling(draft: Draft) -> Spelling:
    if draft.contract is None:
        return Spelling()
    try:
        return check_spelling(draft.contract)
    except ContractError:  # the schema does not compile, which is reported by itself
        return Spelling()


def _told(problem: Problem) -> str:
    """Return the pointer that stands for a problem: within a rule one mistake may show in many ways."""
    match problem.pointer.split("/"):
        case ["", "rules", index, *_]:
            return f"/rules/{index}"
        case _:
            return problem.pointer
