"""Reading JSON and YAML: exact values, exact places, bounded work."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.contracts.document.json_source import read_json
from tidegate.contracts.document.source import MAX_DEPTH, MAX_NODES, Place, SourceDocument, exact_number
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.contracts.errors import ContractError

# Floats whose shortest text gives them back, and text without surrogates or characters that YAML bans.
_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"),
    max_size=40,  # in YAML, a key of more than 1,024 characters needs a question mark
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=20,
)


def _refusal(read: Callable[[str, str], SourceDocument], text: str) -> str:
    with pytest.raises(ContractError) as caught:
        read("doc", text)
    return str(caught.value)


@given(_JSON)
def test_json_gives_the_values_that_were_written(value: object) -> None:
    assert read_json("doc", json.dumps(value, ensure_ascii=False)).value == value
    assert read_json("doc", json.dumps(value, indent="\t")).value == value


@given(_JSON.filter(lambda value: value is not None))
@example({"a": "2020-01-01", "b": "yes", "c": "1e3", "d": "", "e": "null", "f": "0x1F", "g": "~"})
def test_yaml_gives_the_values_that_were_written(value: object) -> None:
    assert read_yaml("doc", json.dumps(value)).value == value  # JSON is YAML 1.2


@given(st.text())
@example("{")
@example('{"a": 1, "a": 2}')
@example("&a [*a]")
@example("? [a]\n: b")
@example("%YAML 1.1\n---\na: 1")
@example("--- >5\n x")
@example("a: !!python/object/apply:os.system [ls]")
@example("\x00")
@example("{a: b, c: *d}")
@example("- - - -\n -")
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (read_json, read_yaml):
        with suppress(ContractError):
            assert isinstance(read("doc", text), SourceDocument)


def test_places_of_json() -> None:
    text = '{\n\t"a": [1,\n 22],\n "b": {"c": "é\\n", "d": null}\n}'
    source = read_json("doc", text)
    assert source.values == {
        "": Place(1, 1),
        "/a": Place(2, 7),
        "/a/0": Place(2, 8),
        "/a/1": Place(3, 2),
        "/b": Place(4, 7),
        "/b/c": Place(4, 13),
        "/b/d": Place(4, 25),
    }
    assert source.keys["/b/d"] == Place(4, 20)


def test_places_of_yaml() -> None:
    text = "# comment\na:\n  - 1\n  - x: 2\nb: {c: é, d: }\ne/f~: |\n  text\ng:\n"
    source = read_yaml("doc", text)
    assert source.value == {"a": [1, {"x": 2}], "b": {"c": "é", "d": None}, "e/f~": "text\n", "g": None}
    assert source.values == {
        "": Place(2, 1),
        "/a": Place(3, 3),
        "/a/0": Place(3, 5),
        "/a/1": Place(4, 5),
        "/a/1/x": Place(4, 8),
        "/b": Place(5, 4),
        "/b/c": Place(5, 8),
        "/b/d": Place(5, 11),
        "/e~1f~0": Place(6, 7),
        "/g": Place(8, 1),
    }


def test_a_problem_stands_where_a_person_looks() -> None:
    source = read_yaml("doc", "a:\n  - x: 1\n    y:\n      z: 2\n")
    places = {
        pointer: (problem.line, problem.column)
        for pointer in ("", "/a", "/a/0", "/a/0/x", "/a/0/y", "/a/0/missing", "/a/0/y/z/deeper", "/nowhere")
        for problem in [source.problem(pointer, "m")]
    }
    assert places == {
        "": (1, 1),
        "/a": (1, 1),  # the key of a block, not its first line
        "/a/0": (2, 5),
        "/a/0/x": (2, 8),  # a scalar itself
        "/a/0/y": (3, 5),
        "/a/0/missing": (2, 5),  # the mapping that lacks it
        "/a/0/y/z/deeper": (4, 7),
        "/nowhere": (1, 1),
    }
    assert source.problem("/a/0/x", "m", at_key=True).column == 5


def test_yaml_scalars_are_those_of_version_1_2() -> None:
    text = (
        "date: 2020-01-01\ntime: 2020-01-01T00:00:00Z\nyes: yes\nnorway: no\noctal: 010\no: 0o10\nhex: 0x1F\n"
        "exponent: 1e3\nunderscore: 1_000\nsexagesimal: 1:30\nquoted: '1'\ntagged: !!str 1\nempty:\nmerge: <<\n"
        "big: 123456789012345678901234567890\nplus: +5\npoint: .5\nTRUE: true\n~: 3\n"
        f"far: 0x{'f' * 65}\n"
    )
    assert read_yaml("doc", text).value == {
        "date": "2020-01-01",
        "time": "2020-01-01T00:00:00Z",
        "yes": "yes",
        "norway": "no",
        "octal": 10,
        "o": 8,
        "hex": 31,
        "exponent": 1000.0,
        "underscore": "1_000",
        "sexagesimal": "1:30",
        "quoted": "1",
        "tagged": "1",
        "empty": None,
        "merge": "<<",
        "big": 123456789012345678901234567890,
        "plus": 5,
        "point": 0.5,
        "TRUE": True,
        "~": 3,
        "far": f"0x{'f' * 65}",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2", "doc:2:1: key `a` is given twice; the first is at 1:1"),
        ("a: {b: 1, c: 2, b: 3}", "doc:1:17: key `b` is given twice; the first is at 1:5"),
    ],
)
def test_repeated_keys_are_reported_with_both_places(text: str, expected: str) -> None:
    assert [str(problem) for problem in read_yaml("doc", text).problems] == [expected]


def test_repeated_keys_of_json_are_reported_with_both_places() -> None:
    source = read_json("doc", '{"a": 1,\n "\\u0061": 2}')
    assert source.value == {"a": 1}
    assert [str(problem) for problem in source.problems] == [
        "doc:2:2: key `a` is given twice; the first is at 1:2"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "doc:1:1: the document is empty"),
        ("# only a comment", "doc:1:1: the document is empty"),
        ("a: 1\n---\nb: 2", "doc:2:1: a second document; put each contract into a file of its own"),
        ("%YAML 1.1\n---\na: 1", "doc:2:1: only YAML 1.2 is read; remove the %YAML line"),
        ("a: !!set {x}", "doc:1:4: the tag tag:yaml.org,2002:set is not read; write the plain value"),
        ("a: !env HOME", "doc:1:4: the tag !env is not read; write the plain value"),
        ("a: &x [1, *x]", "doc:1:11: alias *x stands before the end of its anchor"),
        ("[a, b]: 1", "doc:1:1: a key must be a plain word, not a list or mapping"),
        ("a: .inf", "doc:1:4: .inf is not a number that a record can hold; quote it if text is meant"),
        ("a: 0.30000000000000001", "doc:1:4: the number 0.30000000000000001 cannot be kept exactly"),
        ("a: 1e400", "doc:1:4: the number 1e400 cannot be kept exactly"),
        ("a: [1\nb: 2", "doc:2:2: not YAML: while parsing a flow sequence, expected ',' or ']', but got ':'"),
        ("a:\n\tb: 1", "doc:2:1: not YAML: while scanning for the next token, found character '\\t'"),
        ('a: 1\nb: "\\U00110000"', "doc:2:1: not YAML after this: chr() arg not in range(0x110000)"),
        ("%YAML 1.21", "doc:1:1: not YAML after this: version minor part can only be 2 or 1"),
        ("a: \x01", "doc:1:4: not YAML: the character U+0001 is not allowed"),
    ],
)
def test_what_yaml_is_refused_and_where(text: str, expected: str) -> None:
    assert _refusal(read_yaml, text).startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "doc:1:1: not JSON: the text ends where a value is expected"),
        ("{\n'a': 1}", "doc:2:1: not JSON: expected a key in double quotes"),
        ('{"a": 1,}', "doc:1:9: not JSON: expected a key in double quotes"),
        ('{"a" 1}', "doc:1:6: not JSON: expected `:`"),
        ('{"a": 1 "b": 2}', "doc:1:9: not JSON: expected `,` or `}`"),
        ("[1 2]", "doc:1:4: not JSON: expected `,` or `]`"),
        ("[1, 2", "doc:1:6: not JSON: expected `,` or `]`"),
        ("[01]", "doc:1:3: not JSON: expected `,` or `]`"),
        ("NaN", "doc:1:1: not JSON: expected a JSON value"),
        ('"a\tb"', "doc:1:1: not JSON: a string that is not closed, or holds a raw control character"),
        ("1 2", "doc:1:3: not JSON: text after the end of the JSON value"),
        ("[1e400]", "doc:1:2: not JSON: the number 1e400 cannot be kept exactly"),
        ("[" * 101 + "]" * 101, "doc:1:101: not JSON: nested deeper than 100 levels"),
    ],
)
def test_what_json_is_refused_and_where(text: str, expected: str) -> None:
    assert _refusal(read_json, text).startswith(expected)


def test_a_lone_surrogate_is_no_character() -> None:
    source = read_json("doc", '{"a": "\\ud800", "\\udfff": "\\ud83d\\ude00"}')
    message = "a lone surrogate (\\ud800 to \\udfff) is no character"
    assert [str(problem) for problem in source.problems] == [f"doc:1:7: {message}", f"doc:1:17: {message}"]
    assert source.value == {"a": "?", "?": "😀"}


def test_nesting_is_bounded_in_yaml() -> None:
    assert read_yaml("doc", "[" * MAX_DEPTH + "]" * MAX_DEPTH).value is not None
    assert _refusal(read_yaml, "[" * 101 + "]" * 101) == "doc:1:101: nested deeper than 100 levels"


def test_an_alias_bomb_is_bounded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 10)]
    assert _refusal(read_yaml, "\n".join(lines)).endswith(f"the document has more than {MAX_NODES:,} values")


def test_an_alias_stands_at_its_anchor() -> None:
    source = read_yaml("doc", "a: &x {k: 1}\nb: *x\n")
    assert source.value == {"a": {"k": 1}, "b": {"k": 1}}
    assert source.values["/b/k"] == Place(1, 11)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1", 0.1),
        ("1e3", 1000.0),
        ("-0", 0),
        ("10000000000000000000000001", 10000000000000000000000001),
        ("1.10", 1.1),
        ("123456789.12345679", 123456789.12345679),
        ("123456789.123456789", None),
        ("0.30000000000000001", None),
        ("9007199254740993.0", None),
        ("1e400", None),
        ("1e-400", None),
        ("1e-99999999999999999999", None),
        ("9" * 5000, None),
    ],
)
def test_numbers_are_kept_as_written_or_refused(text: str, expected: float | None) -> None:
    assert exact_number(text) == expected
