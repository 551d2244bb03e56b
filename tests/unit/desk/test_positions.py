from __future__ import annotations

import json

import pytest

from tidegate.gateway.streams.json_places import ValueSpan, find
from tidegate.gateway.streams.json_walk import Event, JsonEvent, Walk


def texts(data: bytes, pointer: str, declared: frozenset[str] | None = None) -> list[bytes]:
    found = find(data, [pointer], declared=declared)
    return [data[place.start : place.end] for place in found.values[pointer]]


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("", [b'{"a": {"b": [1, {"c": "x"}], "": 2}, "a/b": 3, "m~n": 4}']),
        ("/a/b", [b'[1, {"c": "x"}]']),
        ("/a/b/0", [b"1"]),
        ("/a/b/1/c", [b'"x"']),
        ("/a/", [b"2"]),
        ("/a~1b", [b"3"]),
        ("/m~0n", [b"4"]),
        ("/a/b/2", []),
        ("/b", []),
        ("/a/b/c", []),
    ],
)
def test_pointers_lead_to_their_bytes(pointer: str, expected: list[bytes]) -> None:
    assert texts(b'{"a": {"b": [1, {"c": "x"}], "": 2}, "a/b": 3, "m~n": 4}', pointer) == expected


def test_names_are_compared_as_what_they_mean() -> None:
    assert texts(rb'{"\u0061ge": 1, "age": 2}', "/age") == [b"1", b"2"]


def test_repeated_properties_are_all_found() -> None:
    assert texts(b'{"a": 1, "a": {"b": 2}}', "/a") == [b"1", b'{"b": 2}']


def test_star_stands_for_elements_and_undeclared_names() -> None:
    data = b'{"known": 1, "other": 2, "list": [{"x": 3}, {"x": 4}]}'
    declared = frozenset({"known", "list", "x"})
    assert texts(data, "/*", declared) == [b"2"]
    assert texts(data, "/list/*/x", declared) == [b"3", b"4"]
    assert texts(data, "/*") == [b"1", b"2", b'[{"x": 3}, {"x": 4}]']


def test_undeclared_properties_are_noted_outermost_only() -> None:
    data = b'{"known": {"odd": {"odder": 1}}, "strange": 2}'
    found = find(data, [], declared=frozenset({"known"}))
    assert [data[place.start : place.end] for place in found.undeclared] == [b'{"odder": 1}', b"2"]


def test_absent_values_have_the_nearest_container() -> None:
    data = b'{"a": {"b": 1}, "list": [1]}'
    found = find(data, ["/a/x/y", "/list/5", "/z"])
    assert found.nearest == {
        "/a/x/y": (ValueSpan(6, 14, 1),),
        "/list/5": (ValueSpan(24, 27, 16),),
        "/z": (ValueSpan(0, 28, 0),),
    }


@pytest.mark.parametrize(
    ("data", "part", "start", "end", "reason"),
    [
        (b"", JsonEvent.STOP, 0, 0, "the record ends before its value is complete"),
        (b" ", JsonEvent.STOP, 1, 1, "the record ends before its value is complete"),
        (b'{"a":1', JsonEvent.STOP, 6, 6, "the record ends before its value is complete"),
        (b'{"a":"tr', JsonEvent.STOP, 5, 8, "the record ends inside this string"),
        (b'{"a":}', JsonEvent.STOP, 5, 6, "a value is expected here"),
        (b"[1,]", JsonEvent.STOP, 3, 4, "a value is expected here"),
        (b"[,]", JsonEvent.STOP, 1, 2, "a value or ] is expected here"),
        (b'{"a":1,}', JsonEvent.STOP, 7, 8, "a property name in quotes is expected here"),
        (b"{a:1}", JsonEvent.STOP, 1, 2, "a property name in quotes or } is expected here"),
        (b'{"a" 1}', JsonEvent.STOP, 5, 6, "a : is expected here"),
        (b"[1 2]", JsonEvent.STOP, 3, 4, "a comma or a closing bracket is expected here"),
        (b"[1}", JsonEvent.STOP, 2, 3, "a comma or a closing bracket is expected here"),
        (b"{}{}", JsonEvent.STOP, 2, 3, "the value is complete, but more text follows"),
        (b'{"a":NaN}', JsonEvent.FLAW, 5, 8, "JSON has no value for not-a-number or infinity"),
        (b'{"a":-Infinity}', JsonEvent.FLAW, 5, 14, "JSON has no value for not-a-number or infinity"),
        (b'{"a":01}', JsonEvent.FLAW, 5, 7, "this is not a JSON value"),
        (b'{"a":1.}', JsonEvent.FLAW, 5, 7, "this is not a JSON value"),
        (b"[nul]", JsonEvent.FLAW, 1, 4, "this is not a JSON value"),
        (b'["\\q"]', JsonEvent.FLAW, 1, 5, "an escape in this string is not one of JSON's"),
        (b'{"\\q":1}', JsonEvent.FLAW, 1, 5, "an escape in this string is not one of JSON's"),
        (b'["\n"]', JsonEvent.FLAW, 1, 4, "a raw control character stands in this string"),
        (b"\xef\xbb\xbf[]", JsonEvent.FLAW, 0, 3, "a byte order mark stands before the value"),
        (b'["a\xff"]', JsonEvent.FLAW, 3, 4, "these bytes are not UTF-8"),
    ],
)
def test_the_first_thing_that_is_not_json_is_placed(
    data: bytes, part: JsonEvent, start: int, end: int, reason: str
) -> None:
    assert find(data, []).broken == Event(part, start, end, reason)


def test_what_stands_before_the_break_is_still_found() -> None:
    found = find(b'{"a": 1, "b": {"c": 2, "d": "tr', ["/a", "/b/c", "/b"])
    assert found.values == {
        "/a": (ValueSpan(6, 7, 1),),
        "/b/c": (ValueSpan(20, 21, 15),),
        "/b": (ValueSpan(14, 31, 9),),
    }
    assert found.readable_until == 28


def test_any_depth_is_walked() -> None:
    deep = b"[" * 100_000
    assert find(deep, ["/0/0/0"]).values["/0/0/0"] == (ValueSpan(3, 100_000, 3),)
    assert sum(1 for _ in Walk(deep + b"]" * 100_000)) == 200_000


def test_skipped_insides_change_nothing() -> None:
    document = {"skip": {"a": ['}"]', {"b": "\\"}]}, "want": 1}
    data = json.dumps(document).encode()
    assert texts(data, "/want") == [b"1"]
    assert texts(data, "/skip/a/1/b") == [b'"\\\\"']
