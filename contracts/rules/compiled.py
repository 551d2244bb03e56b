"""Compiled rules: functions over decoded records that never raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from tidegate.contracts.document.fields import join, tokens
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.rules.clock import Clock
from tidegate.contracts.rules.places import Path, is_starred, item_at, located, places, read
from tidegate.contracts.verdict import Disposition, Severity, Stage, Violation

__all__ = ["CompiledRule", "CompiledRules", "FieldCheck", "Path", "item_at", "read"]

MAX_PLACES: Final = 10
"""Maximum number of violations of one rule in one record: one for each place that breaks it."""


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """A check of the values of some fields.

    `breaks` takes one value for each of `paths` (None if the record has no value there), or the record if there are no
    paths. Without paths or with `asks_fit`, its last argument is whether the record fits its schema. It never raises. If
    paths go through arrays, it is called for every element. `pointer` and `message` are those of a violation. `detail`
    takes the values, or the record, that break the rule, and returns a more precise message or None.
    """

    paths: tuple[Path, ...]
    breaks: Callable[..., bool]
    pointer: str
    message: str
    detail: Callable[..., str | None] | None = None
    asks_fit: bool = False


def when_missing(pointers: tuple[str, ...], nulls: str) -> Callable[..., str | None] | None:
    """Return a function that names the missing field, if missing fields violate the rule."""
    if nulls != "violate":
        return None

    def detail(*values: Any) -> str | None:
        missing = (pointer for pointer, value in zip(pointers, values, strict=True) if value is None)
        return next((f"{pointer.removeprefix('/')} is missing or null" for pointer in missing), None)

    return detail


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One compiled rule, with the disposition of records that break it.

    `rule` is the rule as written, with the values of its reference set. `always` is the violation of every record that
    breaks it; None if that depends on the record. `names` are the property names that the schema declares. Other names
    are data, and are written as `*` in the pointer of a violation.
    """

    rule: Rule
    disposition: Disposition
    check: FieldCheck
    names: frozenset[str] = frozenset()
    always: Violation | None = field(init=False)

    def __post_init__(self) -> None:
        """Build the violation once if it is the same for every record that breaks the rule."""
        check = self.check
        depends = check.detail is not None or any(is_starred(path) for path in check.paths)
        always = None if depends else self._violation(check.pointer)
        object.__setattr__(self, "always", always)  # frozen, but not yet shared

    @property
    def id(self) -> str:
        """Return the identifier of the rule."""
        return self.rule.id

    @property
    def severity(self) -> Severity:
        """Return the severity of the rule."""
        return self.rule.severity

    def breaks(self, record: Any, fits: bool) -> bool:  # noqa: FBT001 - called by position for every record
        """Return whether a record breaks the rule; `fits` is whether the record fits its schema."""
        check = self.check
        if not check.paths:
            return check.breaks(record, fits)
        last = (fits,) if check.asks_fit else ()
        return any(check.breaks(*values, *last) for _, values in places(record, check.paths))

    def violations(self, record: Any, *, fits: bool) -> Iterator[Violation]:
        """Yield the violations of a record that breaks the rule, one for each place, at most MAX_PLACES."""
        check = self.check
        if self.always is not None:
            yield self.always
            return
        if not check.paths:
            yield self._violation(check.pointer, record)
            return
        path = tokens(check.pointer)
        last = (fits,) if check.asks_fit else ()
        broken = ((at, values) for at, values in places(record, check.paths) if check.breaks(*values, *last))
        for elements, values in islice(broken, MAX_PLACES):
            yield self._violation(join(located(path, elements, self.names)), *values)

    def _violation(self, pointer: str, *values: Any) -> Violation:
        detail = self.check.detail(*values) if self.check.detail is not None else None
        return Violation(Stage.RULE, self.id, pointer, self.severity, detail or self.check.message)


class CompiledRules:
    """All rules of a contract; `clock` is their source of `now`, None if no rule uses it."""

    def __init__(self, rules: tuple[CompiledRule, ...], clock: Clock | None = None) -> None:
        self.rules = rules
        self.clock = clock

    def broken(self, record: Any, fits: bool) -> int:  # noqa: FBT001 - called by position for every record
        """Return the bit set of the rules that a record breaks; the first rule has the lowest bit.

        `fits` is whether the record fits its schema.
        """
        return sum(1 << index for index, rule in enumerate(self.rules) if rule.breaks(record, fits))

    def always(self, bits: int) -> tuple[Violation, ...] | None:
        """Return the violations of every record that breaks these rules; None if they depend on the record."""
        found: list[Violation] = []
        for index, rule in enumerate(self.rules):
            if bits >> index & 1:
                if rule.always is None:
                    return None
                found.append(rule.always)
        return tuple(found)

    def violations(self, record: Any, bits: int, *, fits: bool) -> Iterator[Violation]:
        """Yield the violations of the rules in `bits` (see `broken`), which the record breaks, in contract order."""
        for index, rule in enumerate(self.rules):
            if bits >> index & 1:
                yield from rule.violations(record, fits=fits)
