"""Words of sentences: characters that no reader sees are written by their codes."""

from __future__ import annotations

import pytest

from tidegate.contracts.words import length_of, seen


def test_what_a_terminal_would_act_on_is_written_out() -> None:
    assert seen("räume 漢 😀") == "räume 漢 😀"
    assert seen("a\n\x1b[0m\u202e\udcff\U000e0001") == "a\\u000a\\u001b[0m\\u202e\\udcff\\U000e0001"


@pytest.mark.parametrize("character", ["\u3164", "\u115f", "\ufe0f", "\U000e0100", "\u200b"])
def test_characters_without_a_glyph_are_written_out(character: str) -> None:
    """`str.isprintable` says yes to most of them."""
    assert seen(character).startswith("\\")


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ms"),
        (1, "0.000001 ms"),
        (1_500_000, "1.5 ms"),
        (123_456_789, "123.456789 ms"),
        (999_999_999, "999.999999 ms"),
        (90_000_000_000, "1 minute 30 seconds"),
    ],
)
def test_a_length_of_time_below_a_second_is_exact(nanoseconds: int, text: str) -> None:
    assert length_of(nanoseconds) == text
