"""Data as decoded records hold them, without a word about the branches of unions; and back."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from tidegate.contracts.formats.avro_types import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from tidegate.contracts.inclusion.avro.data import Branch, Datum

_INTEGERS: Final = {"int": 2**31, "long": 2**63}


class NoDatumError(ValueError):
    """A value that does not belong to its type."""


def plain_of(datum: Datum) -> Any:
    """Leave out which branches of unions were taken."""
    match datum:
        case Branch():
            return plain_of(datum.value)
        case dict():
            return {name: plain_of(value) for name, value in datum.items()}
        case list():
            return [plain_of(item) for item in datum]
    return datum


def datum_of(node: AvroType, value: Any) -> Datum:  # noqa: PLR0911 - one for each type
    """Make a datum of a type; of a union, in the first branch that has the value. Raises NoDatumError.

    Strings stand for bytes where a type wants them, as they do in defaults of fields.
    """
    match node:
        case Primitive():
            return _primitive(node.kind, value)
        case Fixed():
            fixed = _primitive("bytes", value)
            return fixed if len(fixed) == node.size else _refuse(node)
        case Enum():
            return value if isinstance(value, str) and value in node.symbols else _refuse(node)
        case Array():
            return (
                [datum_of(node.items, item) for item in value] if isinstance(value, list) else _refuse(node)
            )
        case Map():
            if not isinstance(value, dict):
                return _refuse(node)
            return {name: datum_of(node.values, member) for name, member in value.items()}
        case Union():
            return _branch(node, value)
        case Record():
            if not isinstance(value, dict):
                return _refuse(node)
            return {each.name: datum_of(each.type, _member(value, each.name)) for each in node.fields}


def symbols_at(node: AvroType, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the symbols of the enum that a field holds; none where it holds no enum."""
    match node:
        case Union():
            return tuple(symbol for branch in node.branches for symbol in symbols_at(branch, path))
        case Enum():
            return () if path else node.symbols
        case Record() if path:
            inner = next((each.type for each in node.fields if each.name == path[0]), None)
            return () if inner is None else symbols_at(inner, path[1:])
    return ()


def _member(value: dict[str, Any], name: str) -> Any:
    if name not in value:
        raise NoDatumError(name)
    return value[name]


def _branch(union: Union, value: Any) -> Branch:
    for index, branch in enumerate(union.branches):
        try:
            return Branch(index, datum_of(branch, value))
        except NoDatumError:
            continue
    raise NoDatumError(str(union))


def _primitive(kind: str, value: Any) -> Any:  # noqa: PLR0911 - one for each type
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "null" if value is None:
            return None
        case "boolean" if isinstance(value, bool):
            return value
        case "int" | "long" if is_number and isinstance(value, int):
            return value if -_INTEGERS[kind] <= value < _INTEGERS[kind] else _refuse(kind)
        case "float" | "double" if is_number:
            return float(value)
        case "string" if isinstance(value, str):
            return value
        case "bytes" if isinstance(value, bytes):
            return value
        case "bytes" if isinstance(value, str) and all(ord(character) < 256 for character in value):
            return value.encode("latin-1")
    raise NoDatumError(kind)


def _refuse(what: AvroType | str) -> NoReturn:
    raise NoDatumError(str(what))
