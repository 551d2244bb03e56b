"""Schemas to compare, each compiled once for all of its comparisons.

`Work` limits the cost of judging a document: the judge evaluates a definition once for every path that leads to it.
Forty definitions that each refer to the next one twice make a small schema that takes 2^40 steps. A document that
would take too long is not judged, and refutes nothing.
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
from tidegate.contracts.inclusion.json_schema.compiler import Compiler, SchemaTooDeepError
from tidegate.contracts.inclusion.json_schema.document import shape
from tidegate.contracts.inclusion.json_schema.evaluate import is_additional, matches
from tidegate.contracts.inclusion.json_schema.keywords import HANDLERS
from tidegate.contracts.inclusion.json_schema.nodes import (
    Additional,
    All,
    AnyOf,
    Contains,
    DefinitionReference,
    ExactlyOne,
    IfThenElse,
    Interner,
    ItemAt,
    ItemsFrom,
    Node,
    Not,
    PatternProperty,
    Property,
    PropertyNames,
    Side,
)
from tidegate.contracts.inclusion.json_schema.values import exceeds

MAX_NESTING: Final = 200
MAX_PARTS: Final = 200_000

Schema = dict[str, Any] | bool


class Formula:
    """One schema, compiled as a validator and as a formula. Equal parts share an id if the interner is shared."""

    def __init__(self, side: Side, schema: Schema, interner: Interner, *, formats_asserted: bool) -> None:
        self.side = side
        self.schema = schema
        self.interner = interner
        self.formats_asserted = formats_asserted

    def instead(self, schema: Schema) -> Formula:
        """Return the formula of another schema, to be used in place of this one."""
        return Formula(self.side, schema, self.interner, formats_asserted=self.formats_asserted)

    @cached_property
    def is_too_large(self) -> bool:
        """Return whether the schema has too many parts, or is nested too deeply, to be compiled."""
        return exceeds(self.schema, MAX_NESTING, MAX_PARTS)

    @cached_property
    def shape(self) -> Hashable:
        """Return a key that is equal for schemas that differ only in annotations and in the order of members."""
        return shape(self._judged)

    @cached_property
    def _judged(self) -> Schema:
        """Return the schema with its limits as the judge reads them: `3.0` as `3`."""
        judged: Schema = with_whole_limits(self.schema)
        return judged

    @cached_property
    def is_too_costly(self) -> bool:
        """Return whether validating with the schema exceeds the work limit, so that no record can be judged."""
        try:
            _ = self.judge
        except TooMuchWorkError:
            return True
        except ContractError:
            return False  # the caller gets this error from `judge`
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
        except (SchemaTooDeepError, RecursionError):
            return compiler, None

    @property
    def is_too_deep(self) -> bool:
        """Return whether the schema is too deeply nested with its references followed."""
        return self._compiled[1] is None

    @cached_property
    def node(self) -> Node:
        """Return the root node of the formula. Only valid if `is_too_deep` is false."""
        node = self._compiled[1]
        assert node is not None  # noqa: S101 - the caller has checked `is_too_deep`
        return node

    @cached_property
    def work(self) -> Work:
        """Return the counter of the work that judging a document takes."""
        compiler = self._compiled[0]
        return Work(self.node, compiler.parts, is_recursive=compiler.has_references)

    @cached_property
    def loop(self) -> Node | None:
        """Return a reference that leads back to itself without a step into the value; None if there is none."""
        # Every loop contains a reference, and most schemas have none.
        return loop_in(self.node) if self._compiled[0].has_references else None


def loop_in(root: Node) -> Node | None:
    """Return a node of a loop that takes no step into the value; None if there is none.

    Such a loop, as in `{"$ref": "#"}`, never terminates and gives a proof nothing to use.
    """
    colours: dict[int, bool] = {}  # by identity: False while the parts of a node are being visited
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
"""Maximum steps of the judge for one document."""


def beside(node: Node) -> tuple[Node, ...]:
    """Return the nodes that a connective combines: those that apply to the same value. Empty for a leaf."""
    match node:
        case All(parts=parts) | AnyOf(parts=parts) | ExactlyOne(parts=parts):
            return parts
        case Not(part=part):
            return (part,)
        case IfThenElse(test=test, then=then, otherwise=otherwise):
            return test, then, otherwise
        case DefinitionReference() if node.definition.node is not None:
            return (node.definition.node,)
        case _:
            return ()


def below(node: Node) -> tuple[Node, ...]:
    """Return the node that a leaf applies to items, properties or names: one node, or none."""
    match node:
        case (
            Property(schema=schema)
            | PatternProperty(schema=schema)
            | Additional(schema=schema)
            | PropertyNames(schema=schema)
            | ItemAt(schema=schema)
            | ItemsFrom(schema=schema)
            | Contains(schema=schema)
        ):
            return (schema,)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class Effort:
    """The cost of judging a document: the `steps` of the judge, and how many pairs of value and node were `counted`.

    Both are 0 for a small schema without recursion, whose work is not counted.
    """

    steps: int
    counted: int

    @property
    def is_bounded(self) -> bool:
        """Return whether the judge takes at most MAX_STEPS steps."""
        return self.steps <= MAX_STEPS


class Work:
    """Counts the work that judging a document by one schema takes.

    `parts` is the number of parts of the schema, counted once for each path that leads to it.
    """

    def __init__(self, root: Node, parts: int, *, is_recursive: bool) -> None:
        self.parts = parts
        self._root = root
        # Without recursion, the judge evaluates a part more than once only for several items.
        self._is_small = not is_recursive and parts <= MAX_STEPS // 2

    def effort(self, document: Any) -> Effort:
        """Return the cost of judging a document; beyond the limit if it is nested too deeply to count."""
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
        known[key] = 0  # the judge stops at a loop too
        same = sum(_steps(value, part, known) for part in beside(node))
        known[key] = 1 + same + sum(_steps(part, inner, known) for part, inner in _members(value, node))
    return known[key]


def _members(value: Any, node: Node) -> list[tuple[Any, Node]]:
    """Return the items, property values or names that a leaf evaluates, each with its schema."""
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
        case PatternProperty(pattern=pattern):
            names = [name for name in value if matches(pattern, name) is not False]
        case Additional():
            names = [name for name in value if is_additional(name, node) is not False]
        case PropertyNames(schema=schema):
            return [(name, schema) for name in value]
    return [(value[name], schema) for name in names for schema in below(node)]
