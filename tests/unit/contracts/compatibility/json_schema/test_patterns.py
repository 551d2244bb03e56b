"""The regular expressions that are read, and the search in their languages."""

from __future__ import annotations

import pytest

from tidegate.contracts.inclusion.json_schema.evaluate import matches
from tidegate.contracts.inclusion.json_schema.pattern_syntax import (
    UnreadableError,
    read_pattern,
    without_assertions,
)
from tidegate.contracts.inclusion.json_schema.regular import (
    Question,
    TooLargeError,
    automaton_of,
    first_string,
)

CLASSES = [
    r"\d",
    r"\D",
    r"\w",
    r"\W",
    r"\s",
    r"\S",
    ".",
    "[^a]",
    "[a-c]",
    r"[^\s]",
    r"[\w-]",
    r"[\d.]",
    "[-a]",
    "[a-]",
]
READ = [
    *(
        r"\t",
        r"\n",
        r"\v",
        r"\f",
        r"\r",
        r"\x41",
        r"\u0041",
        r"\^\$\.\*\+\?\(\)\[\]\{\}\|\/\-\\",
        "a{2}",
        "a{2,}",
        "a{2,3}?",
    ),
    *(
        "(a)",
        "(?:a)",
        "(|a)b",
        "a|^b$|c",
        "(^a|b)c",
        "(a$|b)",
        "",
        "[a&b]",
        "[a~b]",
        "x$y",
        "a^b",
    ),
]
REFUSED = [
    *(
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<n>a)",
        "(?i)a",
        r"\b",
        r"\B",
        r"\1",
        r"\p{L}",
        r"\cA",
        r"\0",
        r"\_",
        r"\ud800",
    ),
    *(
        "a{1001}",
        "a{2,1}",
        "a{,2}",
        "a{",
        "a**",
        "a+*",
        "^*",
        "$+",
        "*",
        "+a",
        "?",
        "{2}",
        "]",
        "}",
        "(a",
        "a)",
        "[",
    ),
    *(
        "[]",
        "[^]",
        "[z-a]",
        r"[\d-a]",
        "[a-\\d]",
        "[[a]",
        "[a&&b]",
        "[a--b]",
        "[~~a]",
        "\\",
        r"\x4",
        r"\u00g0",
        "(" * 40 + ")" * 40,
    ),
]
TEXTS = [
    "",
    "a",
    "b",
    "c",
    "aa",
    "aaa",
    "ab",
    "ac",
    "bc",
    "abc",
    "A",
    "\t",
    "\n",
    "\v",
    "\f",
    "\r",
    "xy",
    "x$y",
    "a^b",
    "&",
    "~",
    "a]",
]
TEXTS += ["^$.*+?()[]{}|/-\\"]


@pytest.mark.parametrize("pattern", READ)
def test_what_is_read_means_what_the_judge_does(pattern: str) -> None:
    automaton = automaton_of(pattern)
    assert automaton is not None
    for text in TEXTS:
        states = automaton.start
        for character in text:
            states = automaton.step(states, ord(character))
        assert automaton.accepts(states, is_empty=not text) is matches(pattern, text)


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_in_doubt_is_not_read(pattern: str) -> None:
    with pytest.raises(UnreadableError):
        read_pattern(pattern)
    assert automaton_of(pattern) is None


@pytest.mark.parametrize("written", CLASSES)
def test_a_class_holds_the_characters_that_the_judge_finds_in_it(written: str) -> None:
    automaton = automaton_of(f"^{written}$")
    assert automaton is not None
    # Every character that any pattern names on purpose, its neighbours, and a walk through all of Unicode.
    points = {point + more for point in automaton.borders for more in (-1, 0, 1)} | set(
        range(0, 0x110000, 97)
    )
    points |= set(range(0x3000))
    for point in sorted(points):
        if 0 <= point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF:
            states = automaton.step(automaton.start, point)
            assert automaton.accepts(states, is_empty=False) is matches(f"^{written}$", chr(point)), hex(
                point
            )


@pytest.mark.parametrize(
    ("question", "found"),
    [
        (Question(("^a+$",), ("^a{1,3}$",)), "aaaa"),
        (Question(("^[ab]*$",), ("a",)), ""),
        (Question(("^[ab]*$",), ("a",), least=2), "bb"),
        (Question(("^[ab]*$",), ("a",), excluded=frozenset({"", "b"})), "bb"),
        (Question(("a", "b$"), (), most=1), None),
        (Question(("^(a|b)$",), (), excluded=frozenset({"a", "b"})), None),
        (Question((), (".",)), ""),
        (Question((), (".",), least=1), "\n"),
        (Question((r"\S",), (r"[!-~]",)), "\x00"),
        (Question(("^\u00e9$",), ("[a-z]",)), "\u00e9"),
    ],
)
def test_a_search_finds_a_shortest_string(question: Question, found: str | None) -> None:
    assert first_string(question) == found


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        ("^(?=A)[A-Z]{2}$", "^[A-Z]{2}$"),
        (r"\bfoo\b|\Bbar", "foo|bar"),
        ("(?!(a|[)b])c)d", "d"),
        (r"(?<=a\))b(?<!c)", "b"),
        ("((?=x)y|z)+", "(y|z)+"),
        (r"[\]x(?=a)b]\b", r"[\]x(?=a)b]"),
        ("a", None),
        (r"a\\bc", None),
        ("[(?=a)]", None),
        (r"\(?=a\)", None),
        ("(?=a)*b", None),
        (r"a\b{2}", None),
        ("(?=(a)", None),
        (r"[]a]\b", None),
        (r"[[a]\b", None),
        ("\\", None),
    ],
)
def test_assertions_are_left_out_where_it_is_clear_what_they_are(pattern: str, plain: str | None) -> None:
    assert without_assertions(pattern) == plain


def test_a_search_that_would_take_too_long_is_given_up() -> None:
    with pytest.raises(TooLargeError):
        first_string(Question(("^(a|b)*a(a|b){40}$",), ("^(a|b)*b(a|b){40}$",)))
    with pytest.raises(TooLargeError):
        first_string(Question(("(?=a)",), ()))


def test_an_automaton_that_would_be_too_large_is_not_built() -> None:
    assert automaton_of("^.{1000}{1000}$") is None
    assert automaton_of("^(.{0,1000}){0,1000}$") is None
