"""What rules become: total functions over decoded records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from contracts.model import Rule
from contracts.verdict import Disposition, Severity, Stage, Violation

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Built:
    """A check of the values of some fields.

    `breaks` takes one value for each of `paths` (None where a record has none), and without paths the record and
    whether it fits its schema. It is total: it raises on no value. `pointer` and `message` are what a violation says;
    `detail` looks at the record that breaks the rule and says what the message leaves open.
    """

    paths: tuple[Path, ...]
    breaks: Callable[..., bool]
    pointer: str
    message: str
    detail: Callable[[Any], str | None] | None = None


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One rule, ready to be asked, with its consequence."""

    id: str
    severity: Severity
    disposition: Disposition
    check: Built

    def violation(self, record: Any) -> Violation:
        """Say that a record breaks the rule."""
        detail = self.check.detail(record) if self.check.detail is not None else None
        message = detail or self.check.message
        return Violation(Stage.RULE, self.id, self.check.pointer, self.severity, message)


class RuleSet:
    """All rules of a contract, asked at once."""

    def __init__(
        self,
        rules: tuple[CompiledRule, ...],
        field_checks: tuple[tuple[Rule, Built], ...],
        fields_hold: Callable[[Any], bool],
        whole_holds: Callable[[Any], bool] | None = None,
    ) -> None:
        """Take the rules, those about fields as they are written, and two quick tests that may say that none is broken.

        `fields_hold` is about the rules about fields, `whole_holds` about those about whole records.
        """
        self.rules = rules
        self.field_checks = field_checks
        self._fields_hold = fields_hold
        self._whole_holds = whole_holds
        # Rules about one or two top-level fields are nearly all rules, and are asked without building anything.
        self._single: list[tuple[str, Callable[[Any], bool], int]] = []
        self._double: list[tuple[str, str, Callable[[Any, Any], bool], int]] = []
        self._deep: list[tuple[Callable[[Any], bool], int]] = []
        self._whole: list[tuple[Callable[[Any, bool], bool], int]] = []
        for index, rule in enumerate(rules):
            bit, breaks = 1 << index, rule.check.breaks
            match rule.check.paths:
                case ((name,),):
                    self._single.append((name, breaks, bit))
                case ((first,), (second,)):
                    self._double.append((first, second, breaks, bit))
                case ():
                    self._whole.append((breaks, bit))
                case paths:
                    self._deep.append((_reading(paths, breaks), bit))

    @property
    def hold(self) -> Callable[[Any], bool]:
        """Whether a record that fits its schema is known to break no rule; quick. False says nothing."""
        return self._all_hold if self._whole else self._fields_hold

    @property
    def whole_hold(self) -> Callable[[Any], bool] | None:
        """The same for the rules about whole records alone; None when there are none."""
        return self._whole_rules_hold if self._whole else None

    def _all_hold(self, record: Any) -> bool:
        return self._fields_hold(record) and self._whole_rules_hold(record)

    def _whole_rules_hold(self, record: Any) -> bool:
        if self._whole_holds is not None and self._whole_holds(record):
            return True
        return not any(breaks(record, True) for breaks, _ in self._whole)

    def broken(self, record: Any, fits: bool) -> int:  # noqa: FBT001 - called by position for every record
        """Give the bit set of the rules that a record breaks, the first rule lowest.

        `fits` says whether the record fits its schema.
        """
        bits = 0
        get = record.get if type(record) is dict else _item_of(record)
        for name, breaks, bit in self._single:
            if breaks(get(name)):
                bits |= bit
        for first, second, breaks_both, bit in self._double:
            if breaks_both(get(first), get(second)):
                bits |= bit
        for breaks_deep, bit in self._deep:
            if breaks_deep(record):
                bits |= bit
        if self._whole and (self._whole_holds is None or not self._whole_holds(record)):
            for breaks_whole, bit in self._whole:
                if breaks_whole(record, fits):
                    bits |= bit
        return bits

    def violations(self, record: Any, *, fits: bool) -> Iterator[Violation]:
        """Say which rules a record breaks, in the order of the contract."""
        bits = self.broken(record, fits)
        return (rule.violation(record) for index, rule in enumerate(self.rules) if bits >> index & 1)


def read(record: Any, path: Path) -> Any:
    """Read the value at a path of a record; None where there is none. Source: RFC 6901 section 4."""
    for token in path:
        record = record.get(token) if type(record) is dict else item_at(record, token)
        if record is None:
            return None
    return record


_MAX_INDEX_DIGITS: Final = 9


def item_at(value: Any, token: str) -> Any:
    """Read an item of an array by its index as JSON Pointer writes it; None where there is none."""
    is_index = token.isascii() and token.isdigit() and len(token) <= _MAX_INDEX_DIGITS
    if type(value) is list and is_index and int(token) < len(value):
        return value[int(token)]
    return None


def _item_of(value: Any) -> Callable[[str], Any]:
    return lambda token: item_at(value, token)


def _reading(paths: tuple[Path, ...], breaks: Callable[..., bool]) -> Callable[[Any], bool]:
    if len(paths) == 1:
        (path,) = paths
        return lambda record: breaks(read(record, path))
    return lambda record: breaks(*(read(record, path) for path in paths))
