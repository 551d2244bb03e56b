"""Mutations of bytes and JSON documents that often make parsers fail."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any, Final

MOST_BYTES: Final = 128 * 1024
"""The maximum length of a mutated input."""

_INTERESTING: Final = (
    b"\x00", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff", b"\xff" * 9 + b"\x01", b"\x80\xb4\x89\x13", b"\xfe\xff\xff\xff\x0f",
    b"[", b"]", b"{", b"}", b'"', b",", b":", b"\\", b"\\ud800", b"\\u0000", b"-", b"0", b"9" * 30, b"1e400", b"1e-400", b".5",
    b"1e99999", b"null", b"true", b"NaN", b"Infinity", b"\xc3\xa9", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xef\xbb\xbf",
    b'{"a":', b"[[[[[[[[", b"\n- ", b"&a [*a]", b"<<: *a", b"!!python/object:os.system", b"? ", b"| ", b"\t", b"\x1a", b"a" * 64,
    b'"$ref":"#"', b'"type":', b'"pattern":"(a+)+$"', b'"enum":[]', b'"precision":99999999', b'"size":99999999999', b"/0/1", b"~2",
)  # fmt: skip


def mutated(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """Return a random seed with 1 to 16 random changes of its bytes."""
    data = bytearray(chance.choice(seeds))
    for _ in range(1 << chance.randrange(5)):
        _CHANGES[chance.randrange(len(_CHANGES))](chance, data, seeds)
    return bytes(data[:MOST_BYTES])


def _place(chance: Random, data: bytearray) -> int:
    return chance.randrange(len(data) + 1)


def _flip(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.randrange(256)


def _insert(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    place = _place(chance, data)
    data[place:place] = chance.choice(_INTERESTING)


def _replace(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    place, piece = _place(chance, data), chance.choice(_INTERESTING)
    data[place : place + len(piece)] = piece


def _cut(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    place = _place(chance, data)
    del data[place : place + chance.choice((1, 2, 8, 64, len(data)))]


def _repeat(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    place = _place(chance, data)
    piece = data[place : place + chance.choice((1, 2, 4, 16, 64))]
    data[place:place] = piece * min(chance.choice((1, 2, 10, 300, 3_000)), MOST_BYTES // (len(piece) or 1))


def _splice(chance: Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = chance.choice(seeds)
    start = chance.randrange(len(other) + 1)
    place = _place(chance, data)
    data[place:place] = other[start : start + chance.choice((4, 16, 64, 256))]


_CHANGES: Final = (_flip, _flip, _set, _insert, _insert, _replace, _cut, _repeat, _splice)


def _deep(levels: int, key: str) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {key: value} if key else [value]
    return value


_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 0.1, 1e308, "", "x", "é", "\x00", "\ud800",
    "(a+)+$", "(?=a)(a|a)*b", "[", "a{1,99999}", "((((a{9}){9}){9}){9}){9}", "^(?!x)\\p{L}+", "/", "/*", "/a/*/b", "/0", "~", "now - P1D",
    "1900-01-01", "9999-12-31T23:59:60Z", "decimal(38,38)", "timestamp", "json", "avro", "json-schema", "confluent-header",
    "auto", "this.a.b.c", "this.all(x, x > 1)", "1 / 0 > 1", "size(this) > 1 && has(this.n)", "[1,2,3].map(x, x * x)[2] > 1",
    "'a'.matches('(a+)+$')", [], {}, [[]], [None], [1, 1.0, "1"], {"$ref": "#"}, {"$ref": "#/$defs/x"}, {"type": "null"},
    {"type": "array", "items": {"$ref": "#"}}, {"allOf": [{"$ref": "#"}]}, {"not": {}}, {"enum": []}, {"const": 1e400},
    {"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": True, "minimum": 1}, {"multipleOf": 1e-300},
    {"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}, {"patternProperties": {"(a+)+$": {}}}, {"uniqueItems": True},
    {"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 3}, {"type": "fixed", "name": "Z", "size": 2**40},
    {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, {"type": "enum", "name": "Q", "symbols": []},
    {"type": "array", "items": "null"}, ["null", "null"], [["null"]], {"type": {"type": {"type": "int"}}}, "Tree", "nosuch",
    {"type": "map", "values": ["null", "Tree"]}, {"type": "record", "name": "R2", "fields": [], "aliases": 7},
    {"type": "int", "logicalType": 7}, {"type": "string", "logicalType": "uuid"}, _deep(50, ""), _deep(400, "items"),
    _deep(400, "properties"), _deep(150, ""), "y" * 5_000, list(range(2_000)), {f"k{n}": n for n in range(1_000)},
)  # fmt: skip


def mutated_document(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """Return a random seed with 1 to 4 changed JSON nodes, or with changed bytes if it is not JSON."""
    try:
        document = json.loads(chance.choice(seeds))
        for _ in range(1 << chance.randrange(3)):
            _change(chance, list(_holders(document)))
        return json.dumps(document)[:MOST_BYTES].encode()
    except (ValueError, RecursionError):  # not JSON, or nested too deeply to be written
        return mutated(chance, seeds)


def _change(chance: Random, holders: list[Any]) -> None:
    holder = chance.choice(holders)
    value = deepcopy(chance.choice(_VALUES if chance.random() < _MOSTLY else holders))
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    if keys and chance.random() < _MOSTLY:
        holder[chance.choice(keys)] = value
    elif isinstance(holder, dict):
        holder[chance.choice(_NAMES)] = value
    else:
        holder.append(value)


_MOSTLY: Final = 0.8
_NAMES: Final = (
    "type", "definition", "properties", "items", "pattern", "format", "enum", "const", "$ref", "$defs", "allOf", "if", "contains",
    "default", "aliases", "logicalType", "precision", "scale", "size", "symbols", "fields", "values", "name", "namespace",
    "framing", "tombstones", "columns", "rules", "primary_key", "error_budget", "nulls", "severity", "when", "expr", "field", "x",
)  # fmt: skip


def _holders(node: Any) -> Iterator[Any]:
    stack = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, dict | list):
            yield node
            stack.extend(node.values() if isinstance(node, dict) else node)
