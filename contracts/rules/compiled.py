"""What a rule becomes: a total function over decoded records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from contracts.verdict import Disposition, Severity

Check = Callable[[Any], bool]
"""Whether a decoded record violates the rule. Total: it raises on no record."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One rule, ready to be asked. `message` and `pointer` are what a violation of it says."""

    id: str
    severity: Severity
    disposition: Disposition
    pointer: str
    message: str
    violates: Check


def getter(path: tuple[str, ...]) -> Callable[[Any], Any]:
    """Make a function that reads the value at a path of a record; None where there is none."""
    if len(path) == 1:
        (name,) = path

        def get_member(record: Any) -> Any:
            return record.get(name) if type(record) is dict else get_item(record, name)

        return get_member

    def get(record: Any) -> Any:
        for token in path:
            record = record.get(token) if type(record) is dict else get_item(record, token)
            if record is None:
                return None
        return record

    return get


def get_item(value: Any, token: str) -> Any:
    """Read an item of an array by its index as JSON Pointer writes it; None for anything else."""
    if type(value) is list and token.isascii() and token.isdigit() and int(token) < len(value):
        return value[int(token)]
    return None
