"""Schemas of comparisons, each compiled once for all its comparisons.

`Work` bounds the judging of a document: the judge evaluates a definition once for every path that leads to it. Forty
definitions that each name the next one twice make a small schema and 2^40 steps. A document that would take too long
is not judged, and does not refute anything.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.json_keywords import with_whole_limits
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.formats.json_work import TooMuchWorkError
from tidegate.contracts.inclusion.json_schema.compiler import Compiler, TooDeepError
from tidegate.contracts.inclusion.json_schema.document import shape
from tidegate.contracts.inclusion.json_schema.evaluate import is_additional, matches
from tidegate.contracts.inclusion.json_schema.keywords import HANDLERS
from tidegate.contracts.inclusion.json_schema.nodes import (
    Additional,
    All,
    AnyOf,
    Condition,
    Contains,
    Interner,
    ItemAt,
    ItemsFrom,
    Matching,
    Names,
    Node,
    Not,
    OneOf,
    Property,
    Reference,
    Side,
)
from tidegate.contracts.inclusion.json_schema.values import exceeds

MAX_NESTING: Final = 200
MAX_PARTS: Final = 200_000

Schema = dict[str, Any] | bool


class Formula:
    """One schema, as the judge compiles it and as a formula. Equal parts of formulas with one interner have one id."""

    def __init__(self, side: Side, schema: Schema, interner: Interner, *, formats_asserted: bool) -> None:
        self.side = side
        self.schema = schema
        self.interner = interner
        self.formats_asserted = formats_asserted

    def instead(self, schema: Schema) -> Formula:
        """Return the formula of another schema that stands for this one."""
        return Formula(self.side, schema, self.interner, formats_asserted=self.formats_asserted)

    @cached_property
    def is_too_large(self) -> bool:
        """Return whether the schema has too many parts, or is nested too deeply, to be looked at."""
        return exceeds(self.schema, MAX_NESTING, MAX_PARTS)

    @cached_property
    def shape(self) -> Hashable:
        """Return the identity that equal texts of schemas share."""
        return shape(self._judged)

    @cached_property
    def _judged(self) -> Schema:
        """Return the schema with its limits as the judge has them."""
        judged: Schema = with_whole_limits(self.schema)
        return judged

    @cached_property
    def is_too_costly(self) -> bool:
        """Return whether judging by the schema exceeds the work limit, so that no record is decided."""
        try:
            _ = self.judge
        except TooMuchWorkError:
            return True
        except ContractError:
            return False  # `judge` says what is wrong with it
        return False

    @cached_property
    def judge(self) -> JsonSchemaFormat:
        """Return the validator of records. Raises ContractError for an invalid schema."""
        formats = "assert" if self.formats_asserted else "annotate"
        return JsonSchemaFormat(
            JsonSchema.model_validate({"type": "json-schema", "definition": self.schema, "formats": formats})
        )

    @cached_property
    def _compiled(self) -> tuple[Compiler, Node | None]:
        compiler = Compiler(
            self.side, self._judged, self.interner, HANDLERS, formats_asserted=self.formats_asserted
        )
        try:
            return compiler, compiler.compile()
        except (TooDeepError, RecursionError):
            return compiler, None

    @property
    def is_too_deep(self) -> bool:
        """Return whether the schema is nested too deeply once its references are followed."""
        return self._compiled[1] is None

    @cached_property
    def node(self) -> Node:
        """Return the formula. Only for a schema that is not too deep."""
        node = self._compiled[1]
        assert node is not None  # noqa: S101 - the caller has asked
        return node

    @cached_property
    def work(self) -> Work:
        """Return the documents that are judged in bounded time."""
        compiler = self._compiled[0]
        return Work(self.node, compiler.parts, is_recursive=compiler.has_references)

    @cached_property
    def loop(self) -> Node | None:
        """Return a reference that leads back to itself without a step into the value; None without one."""
        # Every loop contains a reference, and most schemas have none.
        return loop_in(self.node) if self._compiled[0].has_references else None


def loop_in(root: Node) -> Node | None:
    """Return a node of a loop that takes no step into the value; None if there is none.

    `{"$ref": "#"}` says nothing that a proof could use.
    """
    colours: dict[int, bool] = {}  # by identity: False while its parts are being looked at
    starts = [root]
    while starts:
        start = starts.pop()
        if id(start) in colours:
            continue
        colours[id(start)] = False
        stack: list[tuple[Node, Iterator[Node]]] = [(start, iter(beside(start)))]
        starts.extend(below(start))
        while stack:
            node, parts = stack[-1]
            part = next(parts, None)
            if part is None:
                colours[id(node)] = True
                stack.pop()
            elif id(part) not in colours:
                colours[id(part)] = False
                starts.extend(below(part))
                stack.append((part, iter(beside(part))))
            elif not colours[id(part)]:
                return part
    return None


MAX_STEPS: Final = 100_000


def beside(node: Node) -> tuple[Node, ...]:
    """Return the nodes that a node combines: they apply to the same value."""
    match node:
        case All(parts=parts) | AnyOf(parts=parts) | OneOf(parts=parts):
            return parts
        case Not(part=part):
            return (part,)
        case Condition(test=test, then=then, otherwise=otherwise):
            return test, then, otherwise
        case Reference() if node.definition.node is not None:
            return (node.definition.node,)
        case _:
            return ()


def below(node: Node) -> tuple[Node, ...]:
    """Return the node that applies to items, properties or names."""
    match node:
        case (
            Property(schema=schema)
            | Matching(schema=schema)
            | Additional(schema=schema)
            | Names(schema=schema)
            | ItemAt(schema=schema)
            | ItemsFrom(schema=schema)
            | Contains(schema=schema)
        ):
            return (schema,)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class Effort:
    """The cost of judging a document: `steps` of the judge, and how many of them had to be counted."""

    steps: int
    counted: int

    @property
    def is_bounded(self) -> bool:
        """Return whether the judge takes at most MAX_STEPS steps."""
        return self.steps <= MAX_STEPS


class Work:
    """The documents that one schema judges in bounded time."""

    def __init__(self, root: Node, parts: int, *, is_recursive: bool) -> None:
        self.parts = parts
        self._root = root
        # Only several items make the judge evaluate a part more than once.
        self._is_small = not is_recursive and parts <= MAX_STEPS // 2

    def effort(self, document: Any) -> Effort:
        """Return the cost of judging a document."""
        if self._is_small:
            return Effort(0, 0)
        known: dict[tuple[int, int], int] = {}
        try:
            return Effort(_steps(document, self._root, known), len(known))
        except RecursionError:
            return Effort(MAX_STEPS + 1, len(known))


def _steps(value: Any, node: Node, known: dict[tuple[int, int], int]) -> int:
    key = (id(value), id(node))
    if key not in known:
        known[key] = 0  # the judge cuts a loop too
        same = sum(_steps(value, part, known) for part in beside(node))
        known[key] = 1 + same + sum(_steps(part, inner, known) for part, inner in _members(value, node))
    return known[key]


def _members(value: Any, node: Node) -> list[tuple[Any, Node]]:
    """Return the parts of a value that a leaf evaluates, each with its schema."""
    if isinstance(value, list) and isinstance(node, ItemAt | ItemsFrom | Contains):
        first = 0 if isinstance(node, Contains) else node.index
        last = first + 1 if isinstance(node, ItemAt) else len(value)
        return [(item, node.schema) for item in value[first:last]]
    if not isinstance(value, dict):
        return []
    names: list[str] = []
    match node:
        case Property(name=name):
            names = [name] if name in value else []
        case Matching(pattern=pattern):
            names = [name for name in value if matches(pattern, name) is not False]
        case Additional():
            names = [name for name in value if is_additional(name, node) is not False]
        case Names(schema=schema):
            return [(name, schema) for name in value]
    return [(value[name], schema) for name in names for schema in below(node)]
