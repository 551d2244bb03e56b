"""The desk's walk over JSON bytes agrees with readers that give values, on any bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.gateway.http.desk.layout import MarkedBytes, lay_out
from tidegate.gateway.streams.json_places import find

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
nearly_json = st.lists(
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b",", b":", b'"', b'"a"', b"1", b"01", b"true", b" ", b"\\", b"\xff"]
    ),
    max_size=12,
).map(b"".join)


def is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def every_pointer(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    yield pointer, value
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, child in children:
        yield from every_pointer(child, f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}")


@given(document=documents, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
def test_every_pointer_leads_to_the_bytes_of_its_value(
    *, document: Any, ascii_only: bool, indent: int | None
) -> None:
    data = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    wanted = dict(every_pointer(document))
    found = find(data, wanted)
    for pointer, value in wanted.items():
        if "*" not in pointer:  # a name that is a star is read as a wildcard
            assert value in [json.loads(data[place.start : place.end]) for place in found.values[pointer]]


@given(st.binary(max_size=40) | nearly_json)
@example(b"[1,]")
@example(b'{"a":1,"a":2}')
def test_broken_exactly_where_readers_refuse(data: bytes) -> None:
    found = find(data, ["/a"])
    if is_json(data):
        assert found.broken is None
    elif b"\\u" not in data:  # lone surrogates are grammatical, and orjson refuses them
        assert found.broken is not None
        assert 0 <= found.broken.start <= found.broken.end <= len(data)


@given(st.binary(max_size=60) | nearly_json | documents.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_laid_out(data: bytes) -> None:
    found = find(data, ["/a", "/0", ""])
    places = sorted({(place.start, place.end) for all_of in found.values.values() for place in all_of})
    marks = [MarkedBytes(start, end, (1,)) for start, end in places]
    lines = lay_out(data, marks)
    assert lines
    assert all(line.depth >= 0 for line in lines)
