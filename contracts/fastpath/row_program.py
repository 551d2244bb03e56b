"""The generated functions of typed rows: the checks of a row, and the stored values of an accepted one."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tidegate.contracts.document.rule_model import Ordered, Range
from tidegate.contracts.fastpath.accept import Acceptance, Reading
from tidegate.contracts.fastpath.code_writer import DATE, FALSE, TRUE, CodeWriter, all_of, any_of
from tidegate.contracts.fastpath.columns import FastColumn, bulk_json
from tidegate.contracts.fastpath.json_bounds import with_quick_bounds
from tidegate.contracts.fastpath.patterns import ABSENT, ANYTHING, END, LAST
from tidegate.contracts.fastpath.references import NotInlinedError, inlined
from tidegate.contracts.fastpath.rows import NotExpressibleError, RowBuilder, RowMember, RowType
from tidegate.contracts.fastpath.rules import FastRules
from tidegate.contracts.fastpath.table import ColumnSource, TypedAcceptance
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.rules.places import Path, is_starred

_TEXT: Final = frozenset({str})
_OF_DATES: Final = frozenset({Range, Ordered})
"""The kinds of rules that can compare `date` objects instead of their texts."""
_MAX_EXPRESSION: Final = 20_000
"""Maximum length of the expression for the texts of a record: longer ones exceed the memory limit of the engine."""


def compile_acceptance(
    payload_format: JsonSchemaFormat, rules: FastRules, columns: tuple[FastColumn, ...]
) -> tuple[Acceptance, TypedAcceptance] | None:
    """Compile typed rows without and with the values of columns; None if rows cannot express the schema."""
    definition = payload_format.definition
    if not isinstance(definition, dict) or not payload_format.is_bounded:
        return None
    lowered = rules.lowered.values()
    whole = {path for rule in rules.field_rules for path in rule.check.paths}
    whole |= {path for each in lowered for path in each.holders}
    # Columns with JSON or a mask need the value as decoded from JSON.
    whole |= {column.path for column in columns if column.type == "json" or column.kind.takes_all}
    reads = frozenset(path for each in lowered for path in each.reads)
    # Rules of all other kinds read dates as strings.
    texts = reads.union(*(rule.check.paths for rule in rules.field_rules if type(rule.rule) not in _OF_DATES))

    def program(definition: dict[str, Any], texts: frozenset[Path] | None) -> _RowProgram:
        builder = RowBuilder(
            lambda subschema: payload_format.subschema_test(with_quick_bounds(subschema)),
            frozenset(whole),
            formats_hold=payload_format.formats_hold,
            told_apart=reads,
            texts=texts,
        )
        row = builder.row(definition)
        program = _RowProgram(row)
        program.tests = rules.write_tests(program)
        program.read_members(row)
        return program

    try:
        flat = inlined(definition)
        # With columns, dates stay strings, because a date column is converted from strings in bulk.
        plain, typed = program(flat, texts), program(flat, None)
    except (NotInlinedError, NotExpressibleError, TypeError, ValueError):
        return None
    sources = tuple(typed.keep(column) for column in columns)
    if max(len(plain.expression), len(typed.expression)) > _MAX_EXPRESSION:
        return None
    try:
        quick, keeping = (Acceptance(each.compile(rules), rules.whole_hold) for each in (plain, typed))
    except NotExpressibleError:
        return None
    return quick, TypedAcceptance(keeping, columns, sources)


class _RowProgram(CodeWriter):
    """The writer of functions over typed rows. They return the text of a row that passes all tests, else None."""

    def __init__(self, row: RowType) -> None:
        super().__init__()
        self.tests: dict[str, str] = {}
        self._row = row
        self._attributes: dict[Path, str] = {}
        self._certain = {"record"}
        self._conditions: list[str] = []
        self._pieces: list[str] = []
        self._items: list[str] = []
        self._strings: dict[Path, str] = {}
        self._lists: dict[Path, str] = {}
        self._also: list[str] = []
        bound = (msgspec.UNSET, ABSENT, (ABSENT,), LAST)
        self._unset, self._absent, self._none, self._last = (self.bind(each) for each in bound)
        self._join = self.bind(END.join)

    @property
    def expression(self) -> str:
        """Return the regular expression of the texts of good rows: strings, then lists of strings."""
        return "".join((*self._strings.values(), *self._lists.values()))

    def variable(self, path: Path) -> str:
        """Return the variable for the value at a path; at run time it is None if there is no value."""
        row: RowType | None = self._row
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

    def is_certain(self, variable: str) -> bool:
        """Return whether a variable is never None: its value is required and not null."""
        return variable in self._certain

    def reading(self, path: Path) -> str:
        """Return the expression that reads a value below an attribute."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._attributes:
                return f"read({self._attributes[path[:length]]}, {self.bind(path[length:])})"
        raise NotExpressibleError

    def types(self, path: Path) -> frozenset[type] | None:
        """Return the types that a value at a path can have besides null; None for any type."""
        member = self._member(path)
        return None if member is None else member.value.kinds

    def decoded(self, path: Path) -> str:
        """Return the expression for the value at a path as in JSON: a date as its text."""
        variable = self.variable(path)
        return f"{variable} and {variable}.isoformat()" if self.types(path) == DATE else variable

    def missing_here(self, path: Path) -> str:
        """Return the test that the object at the parent of a path lacks the path's last name."""
        member, variable = self._member(path), self.variable(path)
        if member is None:
            return super().missing_here(path)
        if member.is_required:
            return FALSE
        if member.may_be_unset:
            return f"{variable}_unset"
        return FALSE if member.value.is_nullable else self._within(path, f"{variable} is None")

    def null_at(self, path: Path) -> str:
        """Return the test that the value at a path is null."""
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
        """Return the test that the value at a path is null, or that a name on the path is missing from its object."""
        if self._member(path) is None:
            return super().absent(path)
        missing = self.missing(path[:-1]) if len(path) > 1 else FALSE
        return any_of(self._within(path, f"{self.variable(path)} is None"), missing)

    def _member(self, path: Path) -> RowMember | None:
        """Return the member of a row at a path; None below a value that is kept as decoded from JSON."""
        row: RowType | None = self._row
        for index, token in enumerate(path, start=1):
            if row is None:
                return None
            member = row.members[token]
            if index == len(path):
                return member
            row = member.value.row
        return None

    def _within(self, path: Path, *tests: str) -> str:
        """Return tests about a member that hold only if its parent object exists."""
        parent = self.variable(path[:-1])
        return all_of(TRUE if parent in self._certain else f"{parent} is not None", *tests)

    def read_members(self, row: RowType, path: Path = (), *, may_be_absent: bool = False) -> None:
        """Write the checks of each member of a row that its type does not cover."""
        for name, member in row.members.items():
            place, value = (*path, name), member.value
            may_be_none = may_be_absent or member.may_be_none
            if value.row is not None:
                self.read_members(value.row, place, may_be_absent=may_be_none)
            elif value.fits is not None:
                self._ask(place, member, may_be_absent=may_be_absent)
            elif value.text is not None:
                self._write(place, value.text, may_be_none=may_be_none)
            elif value.item_text is not None:
                self._write_items(place, value.item_text, may_be_none=may_be_none)

    def keep(self, column: FastColumn) -> ColumnSource:
        """Store the values of a column, as strings, lists or other values; return where they are."""
        try:
            variable = self.variable(column.path)
        except NotExpressibleError:  # the schema has the field, but no row does: all values are null
            return ColumnSource()
        member = self._member(column.path)
        if column.of_texts is not None and member is not None and member.value.kinds == _TEXT:
            if column.path not in self._strings:
                self._write(column.path, ANYTHING, may_be_none=True)
            return ColumnSource(string=list(self._strings).index(column.path))
        if column.bulk is bulk_json and member is not None and member.value.holds_strings:
            if column.path not in self._lists:
                self._write_items(column.path, ANYTHING, may_be_none=True)
            return ColumnSource(list=list(self._lists).index(column.path))
        self._also.append(variable)
        return ColumnSource(also=len(self._also) - 1)

    def compile(self, rules: FastRules) -> Reading:
        """Build the functions.

        If possible, they also return the bit set of broken rules for a row that fits the schema.
        """
        decode = msgspec.json.Decoder(self._row.type).decode
        text = f'{self._join}([{"".join(f"{each}, " for each in (*self._pieces, *self._items))}""])'
        accepted = self.function([], self._conditions, text, "None")
        text_of, exact = accepted, rules.exact_statements(self, self.tests)
        if exact is not None:
            fits = " and ".join(f"({test})" for test in self._conditions) or "True"
            body = [f"if not ({fits}): return None", "bits = 0", *exact, f"return (bits, {text})"]
            text_of = self.statements(body, "None")
        also_of = self.statements([f"return ({''.join(f'{each}, ' for each in self._also)})"], "None")
        return Reading(
            self.loop(decode, accepted, text, self._also),
            text_of,
            also_of,
            len(self._also),
            self.expression,
            len(self._strings),
            len(self._lists),
        )

    def _attribute(self, path: Path, parent: str, member: RowMember) -> str:
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

    def _ask(self, path: Path, member: RowMember, *, may_be_absent: bool) -> None:
        """Add a test that calls the validator for a present value, including null."""
        parent = self.variable(path[:-1])
        reading = f"{parent}.{member.attribute}"
        test = f"{self.bind(member.value.fits)}({reading})"
        if member.may_be_unset:
            test = f"{reading} is {self._unset} or {test}"
        self._conditions.append(f"{parent} is None or {test}" if may_be_absent else test)

    def _write(self, path: Path, expression: str, *, may_be_none: bool) -> None:
        """Add a string to the text, and its expression to the expression of the text."""
        variable = self.variable(path)
        if may_be_none and variable not in self._certain:
            self._pieces.append(f"{self._absent} if {variable} is None else {variable}")
            expression = f"{expression}|{ABSENT}"
        else:
            self._pieces.append(variable)
        self._strings[path] = f"(?:{expression}){END}"

    def _write_items(self, path: Path, expression: str, *, may_be_none: bool) -> None:
        """Add the strings of a list to the text, followed by LAST, and their expression to that of the text."""
        variable = self.variable(path)
        items = f"(?:(?:{expression}){END})*"
        if may_be_none and variable not in self._certain:
            self._items.append(f"*({self._none} if {variable} is None else {variable})")
            items = f"(?:{items}|{ABSENT}{END})"
        else:
            self._items.append(f"*{variable}")
        self._items.append(self._last)
        self._lists[path] = f"{items}{LAST}{END}"
