"""Compile CEL expressions to Python tests that agree with the CEL library wherever they have a result.

Each part of an expression becomes tests that are true only where the library certainly returns true, returns false, or
finds a value missing. Where no test is true, the library evaluates the expression. Source: cel-spec, "Language
Definition", and the behaviour of the library, with which property tests compare:

* `&&` and `||` absorb errors on either side; a missing key, or a null that no overload takes, is a separate kind of error;
* integers have 64 bits and raise on overflow; they mix with doubles only in comparisons, where both count as doubles;
* strings compare by their UTF-8 bytes, and `size` counts code points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tidegate.contracts.fastpath.cel_lowered import Lowered, NotLoweredError, chosen, joined, leaf, sure
from tidegate.contracts.fastpath.code_writer import FALSE, TRUE, CodeWriter, all_of, any_of
from tidegate.contracts.rules.cel import FIRST_MOMENT, LAST_MOMENT, moment_of, span_of
from tidegate.contracts.rules.cel_syntax import Const, FunctionCall, ListLiteral, Node, Roots, Select
from tidegate.contracts.rules.places import Path

MAX_TEXT: Final = 6_000
"""Maximum length of a generated test; longer ones are left to the library."""

_EXACT: Final = 2**53
_MIN, _MAX = -(2**63), 2**63 - 1
_ORDERS: Final = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_EQUALITIES: Final = {"_==_": True, "_!=_": False}
_ARITHMETIC: Final = {"_+_": "+", "_-_": "-", "_*_": "*"}
_AFFIXES: Final = {"startsWith": "startswith", "endsWith": "endswith"}
_NUMBERS: Final = frozenset({int, float})
_SCALARS: Final = frozenset({int, float, str, bool})
_SIZED: Final = frozenset({str, list, dict})
_HOLDERS: Final = frozenset({list, dict})


@dataclass(frozen=True, slots=True)
class _Term:
    """An operand of a comparison: where `guard` holds it is of the `kind`, and `value` is its Python expression.

    `present` holds where the library certainly has a value that is not null. `unknown` holds where it certainly
    reports a missing value: an absent key, or a null that no overload takes. The kinds are number (of either type),
    integer, double, text, moment, span, and any for a value read at a `path`.
    """

    kind: str
    value: str
    guard: str
    present: str
    unknown: str
    path: Path | None = None
    is_constant: bool = False


def lower(node: Node, program: CodeWriter, roots: Roots | None = None) -> Lowered:
    """Return the tests of an expression for a program. Raises NotLoweredError if the expression is not supported."""
    lowered = _Lowering(program, roots or Roots()).boolean(node)
    if len(lowered.passes) + len(lowered.misses) > MAX_TEXT:
        raise NotLoweredError
    return lowered


class _Lowering:
    """Lowers expressions for one program."""

    def __init__(self, program: CodeWriter, roots: Roots) -> None:
        self._program = program
        self._bind = program.bind
        self._path = roots.path
        self._value = roots.value

    def boolean(self, node: Node) -> Lowered:  # noqa: PLR0911 - one for each form
        """Return the tests of an expression whose result is a boolean."""
        match node:
            case Const(bool(value)):
                return sure(TRUE if value else FALSE, FALSE if value else TRUE)
            case Select(operand, field, True):
                return self._has(_required(self._path(operand)), field)
            case FunctionCall("_&&_" | "_||_" as name, (left, right)):
                return joined(name, self.boolean(left), self.boolean(right))
            case FunctionCall("!_", (operand,)):
                return self.boolean(operand).inverse()
            case FunctionCall("_?_:_", (condition, one, other)):
                return chosen(self.boolean(condition), self.boolean(one), self.boolean(other))
            case FunctionCall(name, (left, right)) if name in _ORDERS:
                return self._order(_ORDERS[name], left, right)
            case FunctionCall(name, (left, right)) if name in _EQUALITIES:
                equal = self._equal(left, right)
                return equal if _EQUALITIES[name] else equal.inverse()
            case FunctionCall("@in", (item, holder)):
                return self._in(item, holder)
            case FunctionCall("startsWith" | "endsWith" | "contains" as name, (text, Const(str(part)))):
                return self._affix(name, text, part)
        path = _required(self._path(node))
        variable = self._program.variable(path)
        return leaf(f"{variable} is True", f"{variable} is False", self._missing(path))

    def _has(self, parent: Path, field: str) -> Lowered:
        path = (*parent, field)
        absent = self._missing(parent) if parent else FALSE
        return leaf(self._present(path), self._program.missing_here(path), absent)

    def _order(self, comparison: str, left: Node, right: Node) -> Lowered:
        one, other = self._term(left), self._term(right)
        guard = self._comparable(one, other)
        test = f"{one.value} {comparison} {other.value}"
        return leaf(all_of(guard, test), all_of(guard, f"not {test}"), _either_unknown(one, other))

    def _equal(self, left: Node, right: Node) -> Lowered:
        if isinstance(left, Const):
            left, right = right, left
        path, other_path = self._path(left), self._path(right)
        if path and isinstance(right, Const):
            return self._equals_constant(path, right.value)
        one, other = self._term(left), self._term(right)
        unknown = _either_unknown(one, other)
        if path is not None or other_path is not None:
            if path is None or other_path is None:
                raise NotLoweredError  # a null compared with a computed value is unequal, not an error
            missing, other_missing = self._missing(path), self._missing(other_path)
            unknown = any_of(
                all_of(missing, any_of(self._present(other_path), other_missing)),
                all_of(other_missing, any_of(self._present(path), missing)),
            )
        guard = self._comparable(one, other)
        test = f"{one.value} == {other.value}"
        return leaf(all_of(guard, test), all_of(guard, f"not {test}"), unknown)

    def _equals_constant(self, path: Path, constant: Any) -> Lowered:
        variable, missing = self._program.variable(path), self._missing(path)
        null = self._null_at(path)
        if constant is None:
            return leaf(null, f"{variable} is not None", missing)
        if isinstance(constant, bool):
            is_scalar = self._is_of(path, _SCALARS)
            fails = all_of(is_scalar, f"{variable} is not {constant}")
            return leaf(f"{variable} is {constant}", any_of(fails, null), missing)
        name = self._constant(constant)
        # In Python, True equals 1.
        kinds = _SCALARS if isinstance(constant, str) else _SCALARS - {bool}
        is_scalar = self._is_of(path, kinds)
        holds = (
            f"{variable} == {name}"
            if isinstance(constant, str)
            else all_of(is_scalar, f"{variable} == {name}")
        )
        return leaf(holds, any_of(all_of(is_scalar, f"{variable} != {name}"), null), missing)

    def _in(self, item: Node, holder: Node) -> Lowered:
        if isinstance(holder, ListLiteral):
            path = self._path(item)
            values = [part.value for part in holder.items if isinstance(part, Const)]
            if not path or len(values) < len(holder.items) or not values:
                raise NotLoweredError
            return self._among(path, values)
        path = self._path(holder)
        if not path or not isinstance(item, Const) or not isinstance(item.value, str) or "\0" in item.value:
            raise NotLoweredError
        variable, name = self._program.variable(path), self._bind(item.value)
        is_holder = self._is_of(path, _HOLDERS)
        return leaf(
            all_of(is_holder, f"{name} in {variable}"),
            all_of(is_holder, f"{name} not in {variable}"),
            self._missing(path),
        )

    def _among(self, path: Path, values: list[Any]) -> Lowered:
        are_texts = all(isinstance(value, str) for value in values)
        if not are_texts:
            for value in values:
                self._constant(value)
        kinds = _SCALARS if are_texts else _SCALARS - {bool}
        variable, is_scalar = self._program.variable(path), self._is_of(path, kinds)
        listed = self._bind(frozenset(values))
        return leaf(
            all_of(is_scalar, f"{variable} in {listed}"),
            any_of(all_of(is_scalar, f"{variable} not in {listed}"), self._null_at(path)),
            self._missing(path),
        )

    def _affix(self, name: str, text: Node, part: str) -> Lowered:
        path = self._path(text)
        if not path:
            raise NotLoweredError
        variable, constant = self._program.variable(path), self._bind(part)
        is_text = self._is_of(path, frozenset({str}))
        test = (
            f"{constant} in {variable}" if name == "contains" else f"{variable}.{_AFFIXES[name]}({constant})"
        )
        return leaf(all_of(is_text, test), all_of(is_text, f"not {test}"), self._unknown(path))

    def _term(self, node: Node) -> _Term:
        match node:
            case Const(value):
                name = self._constant(value)
                kind = "text" if isinstance(value, str) else "integer" if isinstance(value, int) else "double"
                return _Term(kind, name, TRUE, TRUE, FALSE, is_constant=True)
            case FunctionCall("size", (operand,)):
                path = _required(self._path(operand))
                value, guard = f"len({self._program.variable(path)})", self._is_of(path, _SIZED)
                return _Term("integer", value, guard, guard, self._unknown(path))
            case FunctionCall("timestamp" | "duration" as name, (Const(str(text)),)):
                read = moment_of(text) if name == "timestamp" else span_of(text)
                if read is None:
                    raise NotLoweredError
                kind = "moment" if name == "timestamp" else "span"
                return _Term(kind, self._bind(read), TRUE, TRUE, FALSE, is_constant=True)
            case FunctionCall("timestamp", (operand,)):
                path = _required(self._path(operand))
                reading = f"{self._bind(moment_of)}({self._program.variable(path)})"
                value, guard = self._kept(reading, "{0} is not None")
                return _Term("moment", value, guard, guard, self._unknown(path))
            case FunctionCall(name, (left, right)) if name in _ARITHMETIC:
                return self._arithmetic(_ARITHMETIC[name], self._term(left), self._term(right))
        path = _required(self._path(node))
        variable = self._program.variable(path)
        return _Term("any", variable, TRUE, f"{variable} is not None", self._unknown(path), path)

    def _arithmetic(self, operator: str, one: _Term, other: _Term) -> _Term:
        kinds = (one.kind, other.kind)
        value = f"{one.value} {operator} {other.value}"
        if (kind := _TIMES_OF.get((operator, *kinds))) is not None:
            typed = [one.guard, other.guard]
            bounds = (FIRST_MOMENT, LAST_MOMENT) if kind == "moment" else (_MIN, _MAX)
        elif set(kinds) <= {"any", "integer", "double", "number"} and not {"integer", "double"} <= set(kinds):
            kind = next((each for each in kinds if each in {"integer", "double"}), "number")
            typed = [one.guard, other.guard, self._typed(one, kind), self._typed(other, kind)]
            if kind == "number":
                typed.append(f"type({one.value}) is type({other.value})")
            bounds = (_MIN, _MAX)
        else:
            raise NotLoweredError
        low, high = (self._bind(bound) for bound in bounds)
        within = [f"{low} <= {each.value} <= {high}" for each in (one, other) if not each.is_constant]
        kept, fits = self._kept(value, f"{low} <= {{0}} <= {high}")
        guard = all_of(*typed, *(within if "any" in kinds else ()), fits)
        return _Term(kind, kept, guard, guard, _either_unknown(one, other))

    def _typed(self, term: _Term, kind: str) -> str:
        """Return the test that an operand has the type that arithmetic of this kind takes."""
        kinds = {"integer": frozenset({int}), "double": frozenset({float})}.get(kind, _NUMBERS)
        if term.path is not None:
            return self._is_of(term.path, kinds)
        return (
            TRUE
            if kind in {term.kind, "number"}
            else f"type({term.value}) is {'int' if kind == 'integer' else 'float'}"
        )

    def _comparable(self, one: _Term, other: _Term) -> str:
        """Return the test that two terms are of one sort, so that Python compares them as the library does."""
        guards = [one.guard, other.guard]
        kinds = {one.kind, other.kind}
        paths = [each.path for each in (one, other) if each.path is not None]
        if kinds == {"any"}:
            return self._alike(one, other)
        if kinds <= {"any", "number", "integer", "double"}:
            guards += [self._is_of(path, _NUMBERS) for path in paths]
            if not (one.is_constant or other.is_constant):
                guards += [self._small(each) for each in (one, other)]
            return all_of(*guards)
        if kinds <= {"any", "text"}:
            return all_of(*guards, *(self._is_of(path, frozenset({str})) for path in paths))
        if kinds in ({"moment"}, {"span"}):
            return all_of(*guards)
        raise NotLoweredError

    def _alike(self, one: _Term, other: _Term) -> str:
        """Return the test that two values of the record are both strings, or both numbers that compare exactly."""
        assert one.path is not None  # noqa: S101 - narrows for the type checker
        assert other.path is not None  # noqa: S101 - the same
        numbers = all_of(
            *(self._is_of(path, _NUMBERS) for path in (one.path, other.path)),
            self._small(one),
            self._small(other),
        )
        known = [self._program.types(path) for path in (one.path, other.path)]
        if all(kinds is not None and kinds <= _NUMBERS for kinds in known):
            return numbers
        return any_of(
            all_of(*(self._is_of(path, frozenset({str})) for path in (one.path, other.path))), numbers
        )

    def _small(self, term: _Term) -> str:
        """Return the test that a number is small enough to be equal as an integer and as a double."""
        return f"{self._bind(-_EXACT)} < {term.value} < {self._bind(_EXACT)}"

    def _kept(self, value: str, test: str) -> tuple[str, str]:
        """Return the name of a variable for a value, and the guard that assigns and tests it."""
        name = self._program.temporary()
        return name, test.format(f"({name} := {value})")

    def _constant(self, value: Any) -> str:
        """Bind a string, or a number exact as integer and double. Raises NotLoweredError for others."""
        if isinstance(value, bool) or value is None:
            raise NotLoweredError
        if not isinstance(value, str) and not abs(value) < _EXACT:
            raise NotLoweredError
        return self._bind(value)

    def _is_of(self, path: Path, kinds: frozenset[type]) -> str:
        """Return the test that the value at a path has one of the types `kinds`, and is not null."""
        variable, known = self._program.variable(path), self._program.types(path)
        if known is not None and known <= kinds:
            return f"{variable} is not None"
        if len(kinds) == 1:
            (kind,) = kinds
            return f"type({variable}) is {kind.__name__}"
        return f"type({variable}) in {self._bind(kinds)}"

    def _unknown(self, path: Path) -> str:
        """Return the test that a value is missing or null, and that nothing else is wrong on its path."""
        return FALSE if not path or path == self._value else self._program.absent(path)

    def _missing(self, path: Path) -> str:
        return FALSE if not path or path == self._value else self._program.missing(path)

    def _null_at(self, path: Path) -> str:
        return FALSE if not path or path == self._value else self._program.null_at(path)

    def _present(self, path: Path) -> str:
        return any_of(f"{self._program.variable(path)} is not None", self._null_at(path))


_TIMES_OF: Final = {
    ("-", "moment", "moment"): "span",
    ("-", "moment", "span"): "moment",
    ("+", "moment", "span"): "moment",
    ("+", "span", "moment"): "moment",
}


def _required(path: Path | None) -> Path:
    if path is None:
        raise NotLoweredError
    return path


def _either_unknown(one: _Term, other: _Term) -> str:
    return any_of(
        all_of(one.unknown, any_of(other.present, other.unknown)),
        all_of(other.unknown, any_of(one.present, one.unknown)),
    )
