"""Evaluation of a node on a given value: True (it fits), False (it does not fit) or None (unknown), never a guess.

Patterns and formats are evaluated by the judge's own validator, keyword by keyword. Everything else is evaluated here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.inclusion.json_schema.dialect import Dialect
from tidegate.contracts.inclusion.json_schema.nodes import (
    Additional,
    All,
    AnyOf,
    Bound,
    Contains,
    ExactlyOne,
    Format,
    IfThenElse,
    ItemAt,
    ItemCount,
    ItemsFrom,
    Length,
    MultipleOf,
    Node,
    Not,
    OneValue,
    Opaque,
    Pattern,
    PatternProperty,
    Precision,
    Property,
    PropertyCount,
    PropertyNames,
    Required,
    TypeIs,
    UniqueItems,
    WrittenAsInteger,
    concerns,
    resolved,
)
from tidegate.contracts.inclusion.json_schema.values import MAX_EXACT, NUMBER, exact, key_of, margin, type_of

_MAX_DEPTH: Final = 60
_MAX_WORK: Final = 20_000


@dataclass(frozen=True, slots=True)
class _Memo:
    """Known results, by the identity of the value and the id of the node, and the current depth."""

    known: dict[tuple[int, int], bool | None]
    depth: int = 0

    def down(self) -> _Memo:
        return _Memo(self.known, self.depth + 1)


def fits(value: Any, node: Node, memo: _Memo | None = None) -> bool | None:
    """Return whether a value fits a node; None if that is unknown."""
    node = resolved(node)
    memo = memo or _Memo({})
    if memo.depth > _MAX_DEPTH or len(memo.known) > _MAX_WORK:
        return None
    # A value and a node that two paths lead to are evaluated once.
    known = (id(value), node.id)
    if known not in memo.known:
        memo.known[known] = _fits(value, node, memo)
    return memo.known[known]


def _fits(value: Any, node: Node, memo: _Memo) -> bool | None:
    match node:
        case All(parts=parts):
            down = memo.down()
            return _every(fits(value, part, down) for part in parts if not _is_idle(value, part))
        case AnyOf(parts=parts):
            return _some(fits(value, part, memo.down()) for part in parts)
        case ExactlyOne(parts=parts):
            return _exactly_one([fits(value, part, memo.down()) for part in parts])
        case Not(part=part):
            return _opposite(fits(value, part, memo.down()))
        case IfThenElse():
            return _condition(value, node, memo.down())
        case _:
            return _leaf(value, node, memo)


def _is_idle(value: Any, node: Node) -> bool:
    """Return whether a node constrains a property that the value lacks, as most do in a small value."""
    return isinstance(node, Property) and isinstance(value, dict) and node.name not in value


def _leaf(value: Any, node: Node, memo: _Memo) -> bool | None:
    if isinstance(node, OneValue):
        return key_of(value) in node.by_key
    if isinstance(node, TypeIs):
        return _type(value, node.mask)
    if not type_of(value) & concerns(node):
        return True
    if isinstance(value, str):
        return _string(value, node)
    if isinstance(value, dict):
        return _object(value, node, memo.down())
    return _array(value, node, memo.down()) if isinstance(value, list) else _number(value, node)


def fits_all(value: Any, required: Iterable[Node], refused: Iterable[Node]) -> bool | None:
    """Return whether a value fits all of `required` and none of `refused`; None if that is unknown."""
    fitting = (fits(value, node) for node in required)
    return _every(chain(fitting, (_opposite(fits(value, node)) for node in refused)))


def _every(answers: Iterable[bool | None]) -> bool | None:
    unknown = False
    for answer in answers:
        if answer is False:
            return False
        unknown = unknown or answer is None
    return None if unknown else True


def _some(answers: Iterable[bool | None]) -> bool | None:
    return _opposite(_every(_opposite(answer) for answer in answers))


def _opposite(answer: bool | None) -> bool | None:  # noqa: FBT001 - three values
    return None if answer is None else not answer


def _exactly_one(answers: list[bool | None]) -> bool | None:
    if answers.count(True) > 1:
        return False
    return None if None in answers else answers.count(True) == 1


def _condition(value: Any, node: IfThenElse, memo: _Memo) -> bool | None:
    test = fits(value, node.test, memo)
    if test is None:
        return _every([fits(value, node.then, memo), fits(value, node.otherwise, memo)]) or None
    return fits(value, node.then if test else node.otherwise, memo)


def _type(value: Any, mask: int) -> bool | None:
    own = type_of(value)
    if own == NUMBER and (mask & NUMBER) not in {0, NUMBER}:
        return None
    return bool(own & mask)


def _number(value: Any, node: Node) -> bool | None:
    number = None if isinstance(value, bool) or value is None else exact(value)
    if number is None:
        return None
    match node:
        case Bound():
            is_near = abs(number - node.limit) <= margin(node.limit)
            is_kept = isinstance(value, int | float) and abs(number) < MAX_EXACT
            return (
                within(number, node) if is_kept or node.precision is Precision.EXACT or not is_near else None
            )
        case MultipleOf(step=step):
            is_multiple = (number / step).denominator == 1
            return (
                None
                if isinstance(value, Decimal) and node.precision is not Precision.EXACT and not is_multiple
                else is_multiple
            )
        case WrittenAsInteger():
            return None if number.denominator == 1 else False
        case _:
            return None


def within(number: Fraction, bound: Bound) -> bool:
    """Return whether a number satisfies a bound, compared exactly."""
    if number == bound.limit:
        return not bound.is_exclusive
    return number > bound.limit if bound.is_lower else number < bound.limit


def _string(value: str, node: Node) -> bool | None:
    match node:
        case Length(is_lower=is_lower, limit=limit):
            return len(value) >= limit if is_lower else len(value) <= limit
        case Pattern(pattern=pattern):
            return matches(pattern, value)
        case Format(name=name, dialect_uri=uri):
            validator = _validator("format", name, uri)
            return None if validator is None else validator.is_valid(value)
        case Opaque() | _:
            return None


def matches(pattern: str, text: str) -> bool | None:
    """Return whether the judge matches a pattern in a string; None for a pattern that it does not compile."""
    validator = _validator("pattern", pattern, Dialect.DRAFT202012.uri)
    return None if validator is None else validator.is_valid(text)


@lru_cache(maxsize=1024)
def _validator(keyword: str, value: str, uri: str) -> JsonSchemaFormat | None:
    try:
        return JsonSchemaFormat(JsonSchema(type="json-schema", definition={"$schema": uri, keyword: value}))
    except ContractError:
        return None


def _array(value: list[Any], node: Node, memo: _Memo) -> bool | None:
    match node:
        case ItemCount(is_lower=is_lower, limit=limit):
            return len(value) >= limit if is_lower else len(value) <= limit
        case UniqueItems():
            return len({key_of(item) for item in value}) == len(value)
        case ItemAt(index=index, schema=schema):
            return fits(value[index], schema, memo) if index < len(value) else True
        case ItemsFrom(index=index, schema=schema):
            return _every(fits(item, schema, memo) for item in value[index:])
        case Contains():
            return _contains([fits(item, node.schema, memo) for item in value], node)
        case _:
            return None


def _contains(answers: list[bool | None], node: Contains) -> bool | None:
    least, most = answers.count(True), answers.count(True) + answers.count(None)
    if node.is_lower:
        return True if least >= node.limit else (False if most < node.limit else None)
    return True if most <= node.limit else (False if least > node.limit else None)


def _object(value: dict[str, Any], node: Node, memo: _Memo) -> bool | None:
    match node:
        case PropertyCount(is_lower=is_lower, limit=limit):
            return len(value) >= limit if is_lower else len(value) <= limit
        case Required(name=name):
            return name in value
        case PropertyNames(schema=schema):
            return _every(fits(name, schema, memo) for name in value)
        case _:
            return _members(value, node, memo)


def _members(value: dict[str, Any], node: Node, memo: _Memo) -> bool | None:
    match node:
        case Property(name=name, schema=schema):
            return fits(value[name], schema, memo) if name in value else True
        case PatternProperty(pattern=pattern, schema=schema):
            return _every(
                _if_named(matches(pattern, name), member, schema, memo) for name, member in value.items()
            )
        case Additional(schema=schema):
            return _every(
                _if_named(is_additional(name, node), member, schema, memo) for name, member in value.items()
            )
        case _:
            return None


def _if_named(concerned: bool | None, member: Any, schema: Node, memo: _Memo) -> bool | None:  # noqa: FBT001 - three values
    if concerned is False:
        return True
    answer = fits(member, schema, memo)
    return answer if concerned or answer else None


def is_additional(name: str, node: Additional) -> bool | None:
    """Return whether a node applies to a property of that name; None if that is unknown."""
    if name in node.names:
        return False
    return _opposite(_some(matches(pattern, name) for pattern in node.patterns))
