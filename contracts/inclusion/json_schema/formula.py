"""Schemas that are compared with each other, each read once, however many comparisons it takes part in."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any, Final

from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.formats.json_work import TooMuchWorkError, check_work
from tidegate.contracts.inclusion.json_schema.compiler import Compiler, TooDeepError
from tidegate.contracts.inclusion.json_schema.document import shape
from tidegate.contracts.inclusion.json_schema.keywords import HANDLERS
from tidegate.contracts.inclusion.json_schema.loops import loop_in
from tidegate.contracts.inclusion.json_schema.nodes import Interner, Node, Side
from tidegate.contracts.inclusion.json_schema.values import exceeds
from tidegate.contracts.inclusion.json_schema.work import Work

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
        """Whether the schema has too many parts, or is nested too deeply, to be looked at."""
        return exceeds(self.schema, MAX_NESTING, MAX_PARTS)

    @cached_property
    def shape(self) -> Hashable:
        """What schemas share that say the same in the same words."""
        return shape(self.schema)

    @cached_property
    def is_too_costly(self) -> bool:
        """Whether judging by the schema takes more work than is done, so that no record can decide anything."""
        try:
            check_work(self.schema)
        except TooMuchWorkError:
            return True
        return False

    @cached_property
    def judge(self) -> JsonSchemaFormat:
        """What judges records. Raises ContractError for an invalid schema."""
        formats = "assert" if self.formats_asserted else "annotate"
        return JsonSchemaFormat(
            JsonSchema.model_validate({"type": "json-schema", "definition": self.schema, "formats": formats})
        )

    @cached_property
    def _compiled(self) -> tuple[Compiler, Node | None]:
        compiler = Compiler(
            self.side, self.schema, self.interner, HANDLERS, formats_asserted=self.formats_asserted
        )
        try:
            return compiler, compiler.compile()
        except (TooDeepError, RecursionError):
            return compiler, None

    @property
    def is_too_deep(self) -> bool:
        """Whether the schema is nested too deeply once its references are followed."""
        return self._compiled[1] is None

    @cached_property
    def node(self) -> Node:
        """The formula. Only for a schema that is not too deep."""
        node = self._compiled[1]
        assert node is not None  # noqa: S101 - the caller has asked
        return node

    @cached_property
    def work(self) -> Work:
        """Which documents are judged in bounded time."""
        compiler = self._compiled[0]
        return Work(self.node, compiler.parts, is_recursive=compiler.has_references)

    @cached_property
    def loop(self) -> Node | None:
        """A reference that leads back to itself without a step into the value; None when there is none."""
        # A loop has a reference in it that leads back, and most schemas have none.
        return loop_in(self.node) if self._compiled[0].has_references else None
