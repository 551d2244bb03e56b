"""Patterns mean what ECMA-262 says, with look-around and without it."""

import re

import pytest

from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.json_schema import JsonSchemaFormat

SPACE = "\\t-\\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
TEXTS = [
    *"\u00e9\u0661\ufeff\u00a0A\n\r\u2028\x01/\x0b\x85\u0130\u017f-_0`{[^ \u180e\u2003",
    "\u00e9x",
    "x\u00e9",
    "a b",
]
# Python's `re` in ASCII mode is the oracle; what ECMA-262 takes for a space or for any character is written out for it.
PATTERNS = [
    (r"\w", r"\w"),
    (r"\W", r"\W"),
    (r"[^\W]", r"[^\W]"),
    (r"[\W_]", r"[\W_]"),
    (r"\d", r"\d"),
    (r"[^\d]", r"[^\d]"),
    (r"[\D0]", r"[\D0]"),
    (r"\s", f"[{SPACE}]"),
    (r"\S", f"[^{SPACE}]"),
    (r"^[^\S]$", rf"\A[{SPACE}]\Z"),
    (r"\bx", r"\bx"),
    (r"x\B", r"x\B"),
    ("^.$", "\\A[^\n\r\u2028\u2029]\\Z"),
    (r"[\w-a]", r"[\w\-a]"),
    (r"[a-\d]", r"[a\-\d]"),
    ("[.]", "[.]"),
    (r"\.", r"\."),
]


@pytest.mark.parametrize("look", ["", "(?!zz)", "|(?=zz)zzz"])
@pytest.mark.parametrize(("pattern", "oracle"), PATTERNS)
def test_a_pattern_takes_the_same_strings_with_look_around_and_without(
    pattern: str, oracle: str, look: str
) -> None:
    payload_format = JsonSchemaFormat(JsonSchema(type="json-schema", definition={"pattern": pattern + look}))
    for text in TEXTS:
        assert payload_format.is_valid(text) is bool(re.search(oracle, text, re.ASCII)), ascii(text)


def test_a_pattern_is_shown_as_the_schema_has_it() -> None:
    definition = {
        "patternProperties": {r"^\b.": {"pattern": r"^\d.(?!x)"}, r"^\b.(?!zz)": {"type": "string"}}
    }
    payload_format = JsonSchemaFormat(JsonSchema(type="json-schema", definition=definition))
    assert [each.message for each in payload_format.violations({"a": "x"})] == [
        r"must match the pattern ^\d.(?!x)"
    ]
    assert payload_format.refusing({"a": "x"}) == {r"/patternProperties/^\b./pattern"}


def test_two_patterns_of_properties_that_are_written_the_same_both_hold() -> None:
    definition = {"patternProperties": {r"^\w(?!a)": {"minimum": 1}, "^[A-Za-z0-9_](?!a)": {"maximum": 2}}}
    payload_format = JsonSchemaFormat(JsonSchema(type="json-schema", definition=definition))
    assert [payload_format.is_valid({"b": number}) for number in (0, 1, 2, 3)] == [False, True, True, False]


def test_a_mistake_in_a_pattern_names_the_pattern_of_the_schema() -> None:
    with pytest.raises(ContractError) as refused:
        JsonSchemaFormat(JsonSchema(type="json-schema", definition={"pattern": r"\b.(("}))
    assert str(refused.value) == r'/schema/definition/pattern: not a JSON Schema: "\\b.((" is not a "regex"'
