"""Generate the source code of a function over one record, test by test, and compile it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any, Final

from tidegate.contracts.rules.places import EACH, Path, array_of, read

_STEP: Final = "    "
DECODED: Final = ("if type(record) is not dict: return None", "get = record.get")
"""First statements of a function over decoded records: it returns None, which is false, for non-objects."""
TRUE: Final = "True"
"""The test that always holds."""
FALSE: Final = "False"
"""The test that never holds."""
DATE: Final = frozenset({date})
"""The types of a value that was decoded as a date, see `CodeWriter.types`."""


def all_of(*tests: str) -> str:
    """Return the test that all `tests` hold."""
    return _together("and", TRUE, FALSE, tests)


def any_of(*tests: str) -> str:
    """Return the test that any of `tests` holds."""
    return _together("or", FALSE, TRUE, tests)


def _together(word: str, nothing: str, everything: str, tests: tuple[str, ...]) -> str:
    needed = [test for test in dict.fromkeys(tests) if test != nothing]
    if everything in needed:
        return everything
    return f"({f' {word} '.join(needed)})" if len(needed) > 1 else needed[0] if needed else nothing


@dataclass(slots=True)
class _Block:
    """Statements that read values, tests of these, and loops over arrays; `source` is the value to read from."""

    source: str
    lines: list[str] = field(default_factory=list)
    tests: dict[str, None] = field(default_factory=dict)
    loops: list[tuple[str, _Block]] = field(default_factory=list)


class CodeWriter:
    """A writer of functions of one `record`.

    Names and values of a contract never enter the code: `bind` binds them to variables.
    """

    def __init__(self) -> None:
        self._bound: dict[str, Any] = {"read": read, "Decimal": Decimal}
        self._variables: dict[Path, str] = {}
        self._temporaries = 0
        self._root = _Block("record")
        self._blocks: dict[Path, _Block] = {(): self._root}

    @property
    def lines(self) -> list[str]:
        """Return the statements that read the values of the record itself."""
        return self._root.lines

    def bind(self, value: Any) -> str:
        """Return a new name for a value in the generated code."""
        name = f"k{len(self._bound)}"
        self._bound[name] = value
        return name

    def define(self, **values: Any) -> None:
        """Define names for values in the generated code."""
        self._bound |= values

    def variable(self, path: Path) -> str:
        """Return the variable for the value at a path; at run time it is None if there is no value.

        For a path through an array, it is a variable inside the loop over the elements.
        """
        if not path:
            return "record"
        if path not in self._variables:
            array = array_of(path)
            block = self._block(array)
            self._variables[path] = name = f"v{len(self._variables)}"
            reading = self._below(block.source, path[len(array) :]) if array else self.reading(path)
            block.lines.append(f"{name} = {reading}")
        return self._variables[path]

    def decoded(self, path: Path) -> str:
        """Return the expression for the value at a path as in a decoded record, which checks of rules take."""
        return self.variable(path)

    def is_certain(self, variable: str) -> bool:  # noqa: ARG002 - a decoded record may lack anything
        """Return whether a variable is never None."""
        return False

    def temporary(self) -> str:
        """Return a new name for a variable that a test assigns itself."""
        self._temporaries += 1
        return f"t{self._temporaries}"

    def types(self, path: Path) -> frozenset[type] | None:  # noqa: ARG002 - a decoded record may hold anything
        """Return the types that a value at a path can have besides null; None for any type."""
        return None

    def missing_here(self, path: Path) -> str:
        """Return the test that the object at the parent of a path lacks the path's last name."""
        return self._of_key(path, "not in")

    def null_at(self, path: Path) -> str:
        """Return the test that the value at a path is null."""
        return self._of_key(path, "in")

    def missing(self, path: Path) -> str:
        """Return the test that any name on a path is missing from its object."""
        return any_of(self.missing_here(path), self.missing(path[:-1]) if len(path) > 1 else FALSE)

    def absent(self, path: Path) -> str:
        """Return the test that the value at a path is null, or that a name on the path is missing from its object."""
        variable, parent = self.variable(path), path[:-1]
        if not parent:
            return f"{variable} is None"
        is_object = f"type({self.variable(parent)}) is dict"
        return any_of(all_of(f"{variable} is None", is_object), self.missing(parent))

    def _of_key(self, path: Path, word: str) -> str:
        variable, holder = self.variable(path), self.variable(path[:-1])
        is_object = TRUE if len(path) == 1 else f"type({holder}) is dict"
        return all_of(f"{variable} is None", is_object, f"{self.bind(path[-1])} {word} {holder}")

    def reading(self, path: Path) -> str:
        """Return the expression that reads a path of a decoded record."""
        return f"get({self.bind(path[0])})" if len(path) == 1 else f"read(record, {self.bind(path)})"

    def require(self, test: str, paths: Sequence[Path] = (), *, without_array: bool = True) -> None:
        """Add a test of the variables of `paths`, which go through the same arrays; it must hold for every element.

        `without_array` is whether the test holds if the array is missing.
        """
        array = max((array_of(path) for path in paths), key=len, default=())
        self._block(array).tests[test] = None
        if not without_array:
            for length in range(1, len(array) + 1):
                if array[length - 1] == EACH:
                    container = self.variable(array[: length - 1])
                    self._block(array_of(array[: length - 1])).tests[f"{container} is not None"] = None

    def function(
        self, before: list[str], tests: Iterable[str], result: str, refusal: str
    ) -> Callable[[Any], Any]:
        """Build the function: it returns `result` if all tests hold; else, or if Python cannot compare, `refusal`."""
        self._root.tests.update(dict.fromkeys(tests))
        return self._compiled([*before, "try:", *self._statements(self._root, result, refusal)], refusal)

    def loop(
        self, decode: Callable[[Any], Any], decides: Callable[[Any], Any], result: str, also: Sequence[str]
    ) -> Callable[..., None]:
        """Build the same function as a loop over many values; `decode` returns the record of each.

        Its parameters are the values and the lists that it fills. The lists are results ("" for no result), pairs of
        position and record where a test fails, and positions where `decode` or a test raised. One more list for each
        expression in `also` has None for no result. `decides` is the function of one record, which is called if tests
        loop over arrays.
        """
        test = " and ".join(f"({test})" for test in self._root.tests) or TRUE
        steps = [f"record = {self.bind(decode)}(value)", *self.lines]
        if self._root.loops:
            steps.append(f"result = {self.bind(decides)}(record)")
            test, result = "result.__class__ is str", "result"
        names = [f"also{index}" for index in range(len(also))]
        steps += [f"if {test}:", f"{_STEP}found = {result}"]
        steps += [f"{_STEP}now{index} = {each}" for index, each in enumerate(also)]
        steps += [f"{_STEP}add(found)", *(f"{_STEP}{name}(now{index})" for index, name in enumerate(names))]
        body = [
            "add = results.append",
            *(f"{name} = {name}.append" for name in names),
            "for value in values:",
            f"{_STEP}try:",
            *(f"{_STEP * 2}{step}" for step in (*steps, f"{_STEP}continue")),
            f"{_STEP}except Exception:",  # the strict path judges the record, whatever the error
            f"{_STEP * 2}raised.append(len(results))",
            f"{_STEP}else:",
            f"{_STEP * 2}left.append((len(results), record))",
            f"{_STEP}add({''!r})",
            *(f"{_STEP}{name}(None)" for name in names),
        ]
        return self.make(("values", "results", "left", "raised", *names), body)

    def statements(
        self, statements: list[str], otherwise: str, before: Sequence[str] = ()
    ) -> Callable[[Any], Any]:
        """Build a function of statements about the variables; it returns `otherwise` if Python cannot compare."""
        lines = (f"{_STEP}{line}" for line in (*self.lines, *statements))
        return self._compiled([*before, "try:", *lines], otherwise)

    def _compiled(self, body: list[str], refusal: str) -> Callable[[Any], Any]:
        # A value that has no order or no members is left to the rules themselves.
        body += [f"{_STEP}pass", "except (TypeError, AttributeError): pass", f"return {refusal}"]
        return self.make(("record",), body)

    def make(self, parameters: Sequence[str], body: Sequence[str]) -> Callable[..., Any]:
        """Build a function from complete statements.

        Their only content from a contract may be literals as `ascii` writes them, because the code is executed.
        """
        text = f"\n{_STEP}".join([f"def function({', '.join(parameters)}):", *body])
        exec(compile(text, "<contract>", "exec"), self._bound)  # noqa: S102 - our own text, and literals
        function: Callable[..., Any] = self._bound["function"]
        return function

    def _block(self, array: Path) -> _Block:
        """Return the block for the elements of an array; it is created as a loop in the enclosing block."""
        if array not in self._blocks:
            container = self.variable(array[:-1])
            block = _Block(f"e{len(self._blocks)}")
            self._block(array_of(array[:-1])).loops.append((container, block))
            self._blocks[array] = block
        return self._blocks[array]

    def _below(self, source: str, path: Path) -> str:
        if not path:
            return source
        if len(path) == 1 and not path[0].isdigit():
            return f"{source}.get({self.bind(path[0])})"
        return f"read({source}, {self.bind(path)})"

    def _statements(self, block: _Block, result: str | None, refusal: str) -> list[str]:
        """Return the statements of a block, indented once; with `result` None it does not return at its end."""
        test = " and ".join(f"({test})" for test in block.tests) or "True"
        if result is not None and not block.loops:
            return [f"{_STEP}{line}" for line in (*block.lines, f"if {test}: return {result}")]
        text = [*block.lines]
        if block.tests:
            text.append(f"if not ({test}): return {refusal}")
        for container, inner in block.loops:
            text.append(f"if {container} is not None:")
            text.append(f"{_STEP}if type({container}) is not list: return {refusal}")
            text.append(f"{_STEP}for {inner.source} in {container}:")
            text += [f"{_STEP}{line}" for line in self._statements(inner, None, refusal) or [f"{_STEP}pass"]]
        if result is not None:
            text.append(f"return {result}")
        return [f"{_STEP}{line}" for line in text]
