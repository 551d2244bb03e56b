"""Load fix documents from files or request bodies, with the position of every mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tidegate.contracts.document.diagnosis import diagnose
from tidegate.contracts.document.fields import tokens
from tidegate.contracts.document.load import read_source
from tidegate.contracts.document.source import Place, SourceDocument, syntax_error
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.fix.model import Fix
from tidegate.contracts.rules.places import ANYWHERE, go_together

MAX_BYTES: Final = 256 * 1024
"""Maximum size of a fix document."""


def load_fix(path: Path) -> Fix:
    """Load a fix file (YAML or JSON). Raises ContractError with every problem and its position."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise syntax_error(str(path), Place(1, 1), f"cannot be read: {error.strerror}") from None
    return parse_fix(content, name=str(path))


def parse_fix(text: str | bytes, *, name: str) -> Fix:
    """Parse a fix document; the suffix of `name` selects JSON or YAML.

    Raises ContractError with every problem and its position.
    """
    if len(text) > MAX_BYTES:
        raise syntax_error(name, Place(1, 1), f"larger than {MAX_BYTES // 1024} KiB")
    source = read_source(name, text)
    if not isinstance(source.value, dict):
        raise syntax_error(name, Place(1, 1), "a fix is a mapping with `fix`, its name, and `steps`")
    if source.problems:
        raise ContractError(source.problems)
    try:
        fix = Fix.model_validate_json(json.dumps(source.value), strict=True)
    except ValidationError as error:
        found = diagnose(source.value, error, Fix)
        raise ContractError(
            tuple(source.problem(each.pointer, each.message, at_key=each.about != "value") for each in found)
        ) from None
    if problems := tuple(_problems(fix, source)):
        raise ContractError(problems)
    return fix


def _problems(fix: Fix, source: SourceDocument) -> list[Problem]:
    found = []
    for index, step in enumerate(fix.steps):
        problems = list(step.contradictions())
        fields = {"/field": step.field} | ({"/when/field": step.when.field} if step.when else {})
        deep = [place for place, field in fields.items() if ANYWHERE in tokens(field)]
        problems += [
            (place, f"`{ANYWHERE}` is for fields of rules only: name each place of the field")
            for place in deep
        ]
        if not deep and not go_together([tokens(field) for field in fields.values()]):
            problems.append(("/when/field", "goes through other arrays than the field"))
        found += [source.problem(f"/steps/{index}{place}", message) for place, message in problems]
    return found
