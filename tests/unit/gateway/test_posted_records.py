from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.http.native.judge import lines, read_envelope
from tidegate.gateway.http.problems import InvalidBody, RequestError


@pytest.mark.parametrize(
    "value",
    [
        "{}",
        '{"a": 1, "a": 2}',
        '{ "a" :1.0 }',
        "0.30000000000000001",
        "1e400",
        "-0",
        "9" * 5000,
        "NaN",
        "-Infinity",
        '"\\ud800"',
        '"é\\u00e9"',
        "null",
        '[1,\n\t[2], "}]"]',
    ],
)
def test_a_value_is_cut_out_as_it_is_written(value: str) -> None:
    body = f' {{ "records" : [ {{ "value" : {value} }} ,{{"value":{value}}}] }}\n'
    assert read_envelope(body.encode()) == (value.encode(), value.encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(values=st.lists(st.tuples(JSON, st.booleans(), st.sampled_from([None, 1, "\t"]))))
def test_any_values_in_any_spelling_are_cut_out_whole(
    values: list[tuple[object, bool, int | str | None]],
) -> None:
    texts = [json.dumps(value, ensure_ascii=escaped, indent=indent) for value, escaped, indent in values]
    body = '{"records": [' + ",".join(f'{{"value": {text} }}' for text in texts) + "]}"
    expected = tuple(text.encode("utf-8", "surrogatepass") for text in texts)
    assert read_envelope(body.encode("utf-8", "surrogatepass")) == expected


@given(st.lists(st.binary() | st.none()))
def test_base64_holds_any_bytes_and_null_is_a_tombstone(values: list[bytes | None]) -> None:
    records = [
        {"value_base64": None if value is None else base64.b64encode(value).decode()} for value in values
    ]
    assert read_envelope(json.dumps({"records": records}).encode()) == tuple(values)


@given(st.lists(st.binary().map(lambda value: value.replace(b"\n", b"\r"))))
def test_lines_end_at_lf_only(values: list[bytes]) -> None:
    assert lines(b"".join(value + b"\n" for value in values)) == tuple(values)


def test_the_last_line_needs_no_end() -> None:
    assert (lines(b"a\nb"), lines(b"\n"), lines(b"")) == ((b"a", b"b"), (b"",), ())


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ("[]", ""),
        ("{}", ""),
        ("1", ""),
        ('{"records": {}}', "/records"),
        ('{"records": [1]}', "/records/0"),
        ('{"records": [{}]}', "/records/0"),
        ('{"records": [{"value": 1}, {"value": 1, "value_base64": ""}]}', "/records/1"),
        ('{"records": [{"value": 1, "value": 2}]}', "/records/0"),
        ('{"records": [{"key": 1}]}', "/records/0"),
        ('{"records": [{"value_base64": 5}]}', "/records/0/value_base64"),
        ('{"records": [{"value_base64": "?"}]}', "/records/0/value_base64"),
        ('{"records": [{"value_base64": "é"}]}', "/records/0/value_base64"),
        ('{"records": [], "records": []}', "/records"),
        ('{"other": []}', ""),
    ],
)
def test_another_shape_is_refused_with_its_place(body: str, pointer: str) -> None:
    with pytest.raises(InvalidBody) as raised:
        read_envelope(body.encode())
    assert [problem.pointer for problem in raised.value.problems] == [pointer]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b'{"records"',
        b'{"records":',
        b'{"records":[',
        b'{"records":[{"value":1',
        b'{"records":[{"value":1}',
        b'{"records":[{"value":1}}',
        b'{"records":[{"value":1}]',
        b'{"records":[]}x',
        b'{"records":[],}',
        b'{"records":[{"value":1},]}',
        b'{"records":[{"value":}]}',
        b'{"records":[{value:1}]}',
        b'{"records":[{"value":' + b"[" * 100_000,
        b'{"records":[{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
        b'{"records":[{"value":"\xff"}]}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_no_json_is_malformed(body: bytes) -> None:
    with pytest.raises(RequestError) as raised:
        read_envelope(body)
    assert not isinstance(raised.value, InvalidBody)


def test_the_place_where_json_ends_is_given_by_line_and_column() -> None:
    with pytest.raises(RequestError) as raised:
        read_envelope(b'{"records": [\n  {"value": 1},\n  {"value" 2}\n]}')
    (problem,) = raised.value.problems
    assert (problem.line, problem.column) == (3, 12)
