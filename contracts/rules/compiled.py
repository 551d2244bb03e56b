"""What rules become: total functions over decoded records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from tidegate.contracts.document.fields import join, tokens
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.rules.clock import Clock
from tidegate.contracts.rules.places import Path, is_starred, item_at, located, places, read
from tidegate.contracts.rules.program import DECODED, Program
from tidegate.contracts.verdict import Disposition, Severity, Stage, Violation

__all__ = ["Built", "CompiledRule", "Path", "RuleSet", "item_at", "read"]

MAX_PLACES: Final = 10
"""Most violations of one rule that one record is given: one for each place that breaks it."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A check of whole records that can be written into a program.

    `decide` writes the test that it surely holds, and the test that it is surely broken.
    `reads` are the paths that it reads, `holders` those of which it wants the list or the map as it is. `path` is
    that of the field that it is about, if it is about one; `without_array` whether it holds where the array is missing
    that the path goes through.
    """

    decide: Callable[[Program], tuple[str, str]]
    reads: frozenset[Path]
    holders: frozenset[Path]
    path: Path = ()
    without_array: bool = True

    def write(self, program: Program) -> None:
        """Write the test into a program."""
        program.require(self.decide(program)[0], (self.path,), without_array=self.without_array)


@dataclass(frozen=True, slots=True)
class Built:
    """A check of the values of some fields.

    `breaks` takes one value for each of `paths` (None where a record has none), without paths the record, and without
    paths or with `asks_fit` last of all whether the record fits its schema. It is total: it raises on no value. Where paths go through arrays it is asked about
    every element. `pointer` and `message` are what a violation says; `detail` takes the values, or the record, that
    break the rule, and says what the message leaves open.
    """

    paths: tuple[Path, ...]
    breaks: Callable[..., bool]
    pointer: str
    message: str
    detail: Callable[..., str | None] | None = None
    lowered: Lowered | None = None
    asks_fit: bool = False


def when_missing(pointers: tuple[str, ...], nulls: str) -> Callable[..., str | None] | None:
    """Make what says which field is missing, when that breaks a rule."""
    if nulls != "violate":
        return None

    def detail(*values: Any) -> str | None:
        missing = (pointer for pointer, value in zip(pointers, values, strict=True) if value is None)
        return next((f"{pointer.removeprefix('/')} is missing or null" for pointer in missing), None)

    return detail


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One rule, ready to be asked, with its consequence.

    `always` is what is said of every record that breaks it; None where that depends on the record.
    """

    id: str
    severity: Severity
    disposition: Disposition
    check: Built
    always: Violation | None = field(init=False)

    def __post_init__(self) -> None:
        """Note the violation once where every record that breaks the rule is told the same."""
        check = self.check
        depends = check.detail is not None or any(is_starred(path) for path in check.paths)
        always = None if depends else self._violation(check.pointer)
        object.__setattr__(self, "always", always)  # once, before anybody sees it

    def violations(self, record: Any, *, fits: bool) -> Iterator[Violation]:
        """Yield where a record that breaks the rule breaks it; at most MAX_PLACES places."""
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
            yield self._violation(join(located(path, elements)), *values)

    def _violation(self, pointer: str, *values: Any) -> Violation:
        detail = self.check.detail(*values) if self.check.detail is not None else None
        return Violation(Stage.RULE, self.id, pointer, self.severity, detail or self.check.message)


class RuleSet:
    """All rules of a contract, asked at once."""

    def __init__(
        self,
        rules: tuple[CompiledRule, ...],
        field_checks: tuple[tuple[Rule, Built], ...],
        write_tests: Callable[[Program], dict[str, str]],
        whole_holds: Callable[[Any], bool] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Take the rules, those about fields as they are written, and two quick tests that may say that none is broken.

        `write_tests` writes that of the rules about fields, and of those that are lowered, into a program, and gives the tests
        about fields by rule id; `whole_holds` is about the others. `clock` is what the rules take for now; None when they do not ask.
        """
        self.rules = rules
        self.clock = clock
        self.field_checks = field_checks
        self.write_tests = write_tests
        program = Program()
        sound = write_tests(program)
        self._fields_hold = program.function([*DECODED], (), "True", "False")
        self._whole_holds = whole_holds
        self._fields: list[tuple[Callable[[Any], bool], int]] = []
        self._elements: list[tuple[Callable[[Any], bool], int]] = []
        self._whole: list[tuple[Callable[[Any, bool], bool], int]] = []
        self._lowered: list[tuple[Callable[[Any, bool], bool], int]] = []
        statements: list[str] = []
        for index, rule in enumerate(rules):
            bit, breaks, paths = 1 << index, rule.check.breaks, rule.check.paths
            if rule.check.asks_fit or not paths:
                whole = self._whole if rule.check.lowered is None else self._lowered
                whole.append((_fitting(paths, breaks) if rule.check.asks_fit else breaks, bit))
            elif any(is_starred(path) for path in paths):
                self._elements.append((_going_through(paths, breaks), bit))
            else:
                self._fields.append((_reading(paths, breaks), bit))
                values = ", ".join(program.variable(path) for path in paths)
                statements += [
                    f"try: holds = {sound[rule.id]}",
                    "except Exception: holds = False",  # of a record that does not fit its schema: the rule itself knows
                    f"if not holds and {program.bind(breaks)}({values}): bits += {bit}",
                ]
        self._fields_broken = program.statements(["bits = 0", *statements, "return bits"], "None", DECODED)

    @property
    def lowered(self) -> tuple[Lowered, ...]:
        """The checks of whole records that the tests of fields make sure of too."""
        return tuple(rule.check.lowered for rule in self.rules if rule.check.lowered is not None)

    @property
    def reads(self) -> frozenset[str] | None:
        """Names of the members of a record that `write_tests` looks at; None when rules may look at any."""
        paths = [path for _, check in self.field_checks for path in check.paths]
        paths += [path for each in self.lowered for path in (*each.reads, *each.holders)]
        return None if self._whole or not all(paths) else frozenset(path[0] for path in paths)

    def exact_statements(self, program: Program, sound: Mapping[str, str]) -> list[str] | None:
        """Write what sets `bits` to the rules that are broken, or returns None where that is not sure.

        A rule is called only where its test in `sound`, by its id, does not know that it holds. None when there is a rule that cannot be written so: one about elements, or one for the library alone.
        """
        statements: list[str] = []
        for index, rule in enumerate(self.rules):
            check, lowered = rule.check, rule.check.lowered
            if any(is_starred(path) for path in check.paths):
                return None
            if lowered is not None:
                keeps, breaks = lowered.decide(program)
                statements.append(f"if {breaks}: bits += {1 << index}")
                statements.append(f"elif not {keeps}: return None")
            elif check.paths:
                values = ", ".join(program.decoded(path) for path in check.paths)
                known = f"not ({sound[rule.id]}) and " if rule.id in sound else ""
                statements.append(f"if {known}{program.bind(check.breaks)}({values}): bits += {1 << index}")
            else:
                return None
        return statements

    @property
    def hold(self) -> Callable[[Any], bool]:
        """Whether a record that fits its schema is known to break no rule; quick. False says nothing."""
        return self._all_hold if self._whole else self._fields_hold

    @property
    def whole_hold(self) -> Callable[[Any], bool] | None:
        """The same for the rules that only the record as it is decoded can be asked about; None when there are none."""
        return self._whole_rules_hold if self._whole else None

    def _all_hold(self, record: Any) -> bool:
        return self._fields_hold(record) and self._whole_rules_hold(record)

    def _whole_rules_hold(self, record: Any) -> bool:
        if self._whole_holds is not None and self._whole_holds(record):
            return True
        return not any(breaks(record, True) for breaks, _ in self._whole)

    def broken(self, record: Any, fits: bool) -> int:  # noqa: FBT001 - called by position for every record
        """Return the bit set of the rules that a record breaks, the first rule lowest.

        `fits` says whether the record fits its schema.
        """
        bits: int | None = self._fields_broken(record)
        if bits is None:  # it is no object
            bits = sum(bit for breaks, bit in self._fields if breaks(record))
        for breaks_element, bit in self._elements:
            if breaks_element(record):
                bits |= bit
        asked = self._lowered
        if self._whole and (self._whole_holds is None or not self._whole_holds(record)):
            asked = self._lowered + self._whole
        for breaks_whole, bit in asked:
            if breaks_whole(record, fits):
                bits |= bit
        return bits

    def always(self, bits: int) -> tuple[Violation, ...] | None:
        """Return for every record that breaks these rules where it breaks them; None where that depends on the record."""
        found: list[Violation] = []
        for index, rule in enumerate(self.rules):
            if bits >> index & 1:
                if rule.always is None:
                    return None
                found.append(rule.always)
        return tuple(found)

    def violations(self, record: Any, bits: int, *, fits: bool) -> Iterator[Violation]:
        """Yield where a record breaks rules that it breaks, in the order of the contract; `bits` as `broken` gives them."""
        for index, rule in enumerate(self.rules):
            if bits >> index & 1:
                yield from rule.violations(record, fits=fits)


def _reading(paths: tuple[Path, ...], breaks: Callable[..., bool]) -> Callable[[Any], bool]:
    if len(paths) == 1:
        (path,) = paths
        return lambda record: breaks(read(record, path))
    return lambda record: breaks(*(read(record, path) for path in paths))


def _fitting(paths: tuple[Path, ...], breaks: Callable[..., bool]) -> Callable[[Any, bool], bool]:
    return lambda record, fits: any(breaks(*values, fits) for _, values in places(record, paths))


def _going_through(paths: tuple[Path, ...], breaks: Callable[..., bool]) -> Callable[[Any], bool]:
    return lambda record: any(breaks(*values) for _, values in places(record, paths))
