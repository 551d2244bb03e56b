"""Compile the quick way for a contract, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from contracts.acceptance.acceptance import Acceptance
from contracts.acceptance.patterns import ABSENT, END, ITEM
from contracts.acceptance.references import NotInlinedError, inlined
from contracts.acceptance.rows import Member, NotExpressibleError, Row, RowBuilder
from contracts.formats.json_schema import JsonSchemaFormat
from contracts.rules.compiled import Path, RuleSet
from contracts.rules.places import is_starred
from contracts.rules.program import FALSE, TRUE, Program, all_of, any_of
from contracts.rules.sound import write_sound_tests

_MAX_EXPRESSION: Final = 20_000
"""Longest expression of the texts of a record: beyond, a regular expression needs more memory than it is given."""


def compile_acceptance(
    payload_format: JsonSchemaFormat, rules: RuleSet, json_columns: Iterable[Path]
) -> Acceptance | None:
    """Compile the quick way; None for a schema whose records are no rows.

    `json_columns` are the paths of the columns that hold JSON: a value there is kept as it is.
    """
    if not isinstance(payload_format.definition, dict):
        return None
    whole = {path for _, check in rules.field_checks for path in check.paths} | set(json_columns)
    whole |= {path for each in rules.lowered for path in each.holders}
    builder = RowBuilder(
        payload_format.subschema_test,
        frozenset(whole),
        formats_hold=payload_format.formats_hold,
        told_apart=frozenset(path for each in rules.lowered for path in each.reads),
    )
    try:
        row = builder.row(inlined(payload_format.definition))
        program = _RowProgram(row)
        write_sound_tests(rules.field_checks, payload_format.fields, program)
        for each in rules.lowered:
            each.write(program)
    except (NotInlinedError, NotExpressibleError, TypeError, ValueError):
        return None
    program.read_members(row)
    expression = "".join(program.expressions)
    if len(expression) > _MAX_EXPRESSION:
        return None
    return Acceptance(row, program.compile(rules), expression, rules.whole_hold)


class _RowProgram(Program):
    """A function of a row: it gives the texts of a row for which all tests hold, None for any other."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self._row = row
        self._attributes: dict[Path, str] = {}
        self._certain = {"record"}
        self._tests: list[str] = []
        self._pieces: list[str] = []
        self.expressions: list[str] = []
        # Bound too, for no quotes may stand within the text's own.
        self._unset, self._absent, self._empty, self._join = (
            self.bind(each) for each in (msgspec.UNSET, ABSENT, "", ITEM.join)
        )

    def variable(self, path: Path) -> str:
        """Name the variable that holds the value at a path, None where there is none."""
        row: Row | None = self._row
        name = "record"
        if not path:
            return name
        if is_starred(path):
            return super().variable(path)
        for depth, token in enumerate(path, start=1):
            if row is None:
                return super().variable(path)
            if token not in row.members:
                raise NotExpressibleError
            member = row.members[token]
            name = self._attribute(path[:depth], name, member)
            row = member.value.row
        return name

    def reading(self, path: Path) -> str:
        """Write the expression that reads what lies below an attribute."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._attributes:
                return f"read({self._attributes[path[:length]]}, {self.bind(path[length:])})"
        raise NotExpressibleError

    def types(self, path: Path) -> frozenset[type] | None:
        """Give the types that a value at a path can have beside null; None when it can have any."""
        member = self._member(path)
        return None if member is None else member.value.kinds

    def missing_here(self, path: Path) -> str:
        """Write the test that the last name of a path is not in the object before it."""
        member, variable = self._member(path), self.variable(path)
        if member is None:
            return super().missing_here(path)
        if member.is_required:
            return FALSE
        if member.may_be_unset:
            return f"{variable}_unset"
        return FALSE if member.value.is_nullable else self._within(path, f"{variable} is None")

    def null_at(self, path: Path) -> str:
        """Write the test that there is a null at a path."""
        member, variable = self._member(path), self.variable(path)
        if member is None:
            return super().null_at(path)
        if not member.value.is_nullable:
            return FALSE
        if member.is_required:
            return self._within(path, f"{variable} is None")
        if member.may_be_unset:
            return self._within(path, f"{variable} is None", f"not {variable}_unset")
        return FALSE

    def absent(self, path: Path) -> str:
        """Write the test that there is a null at a path, or a name of it is not in the object before it."""
        if self._member(path) is None:
            return super().absent(path)
        missing = self.missing(path[:-1]) if len(path) > 1 else FALSE
        return any_of(self._within(path, f"{self.variable(path)} is None"), missing)

    def _member(self, path: Path) -> Member | None:
        """Give the member of a row that is at a path; None below what is kept as JSON has it."""
        row: Row | None = self._row
        for index, token in enumerate(path, start=1):
            if row is None:
                return None
            member = row.members[token]
            if index == len(path):
                return member
            row = member.value.row
        return None

    def _within(self, path: Path, *tests: str) -> str:
        """Write tests about a member that hold only if there is an object that it would be in."""
        parent = self.variable(path[:-1])
        return all_of(TRUE if parent in self._certain else f"{parent} is not None", *tests)

    def read_members(self, row: Row, path: Path = (), *, may_be_absent: bool = False) -> None:
        """Write what is asked of each member of a row beside its type."""
        for name, member in row.members.items():
            place, value = (*path, name), member.value
            may_be_none = may_be_absent or member.may_be_none
            if value.row is not None:
                self.read_members(value.row, place, may_be_absent=may_be_none)
            elif value.fits is not None:
                self._ask(place, member, may_be_absent=may_be_absent)
            elif value.text is not None:
                self._write(place, "{0}", value.text, may_be_none=may_be_none)
            elif value.item_text is not None:
                items = f"(?:{ITEM}(?:{value.item_text}))*"
                self._write(place, f"{self._join}(({self._empty}, *{{0}}))", items, may_be_none=may_be_none)

    def compile(self, rules: RuleSet) -> Callable[[Any], str | tuple[int, str] | None]:
        """Make the function: of a row that breaks rules and nothing else it gives the bit set of them too, if it can."""
        texts = "".join(self._pieces)
        refusal, exact = "None", rules.exact_statements(self)
        if exact is not None:
            fits = " and ".join(f"({test})" for test in self._tests) or "True"
            body = [f"if not ({fits}): return None", "bits = 0", *exact, f'return (bits, f"{texts}")']
            refusal = f"{self.bind(self.statements(body, 'None'))}(record)"
        return self.function([], self._tests, f'f"{texts}"', refusal)

    def _attribute(self, path: Path, parent: str, member: Member) -> str:
        if path not in self._attributes:
            name = f"a{len(self._attributes)}"
            reading = f"{parent}.{member.attribute}"
            if parent not in self._certain:
                reading = f"None if {parent} is None else {reading}"
            elif not member.may_be_none:
                self._certain.add(name)
            self.lines.append(f"{name} = {reading}")
            if member.may_be_unset:
                self.lines.append(f"{name}_unset = {name} is {self._unset}")
                self.lines.append(f"if {name}_unset: {name} = None")
            self._attributes[path] = name
        return self._attributes[path]

    def _ask(self, path: Path, member: Member, *, may_be_absent: bool) -> None:
        """Ask the validator of a value that is there, null included."""
        parent = self.variable(path[:-1])
        reading = f"{parent}.{member.attribute}"
        test = f"{self.bind(member.value.fits)}({reading})"
        if member.may_be_unset:
            test = f"{reading} is {self._unset} or {test}"
        self._tests.append(f"{parent} is None or {test}" if may_be_absent else test)

    def _write(self, path: Path, reading: str, expression: str, *, may_be_none: bool) -> None:
        """Add a text and its expression."""
        variable = self.variable(path)
        text = reading.format(variable)
        if may_be_none:
            text = f"{self._absent} if {variable} is None else {text}"
            expression = f"{expression}|{ABSENT}"
        self._pieces.append(f"{{{text}}}\\x{ord(END):02x}")
        self.expressions.append(f"(?:{expression}){END}")
