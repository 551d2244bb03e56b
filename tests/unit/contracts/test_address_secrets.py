"""Secrets of addresses are masked in messages; everything else stays readable."""

from __future__ import annotations

import pytest

from tidegate.contracts.address_secrets import mask_event, masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Failed to connect: https://s3cr3t@registry/api", "Failed to connect: https://***@registry/api"),
        ("at http://id:s3cr3t@registry:8081 (403)", "at http://***@registry:8081 (403)"),
        ("postgresql://u:s3cr3t@db/lake is away", "postgresql://u:***@db/lake is away"),
        ("postgresql://u:s3c/r3t?#@db/lake is away", "postgresql://u:***@db/lake is away"),
        (
            "jdbc:postgresql://db/lake?user=u&password=s3cr3t&token=s3cr3t&ssl=true",
            "jdbc:postgresql://db/lake?user=u&password=***&token=***&ssl=true",
        ),
        ("'abfss://c@store?sig=s3cr3t' (x@y)", "'abfss://c@store?sig=***' (x@y)"),
        ("https://a.s3cr3t@h https://b.s3cr3t@h", "https://***@h https://***@h"),
    ],
)
def test_what_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert masked(shown) == shown
    event = {"error": text, "n": 1, "exception": [text, None]}
    assert mask_event(None, "error", event) == {"error": shown, "n": 1, "exception": [shown, None]}


@pytest.mark.parametrize(
    "text",
    [
        "the registry at http://127.0.0.1:8081 does not answer",
        "http://registry:8081/path@x and mail to u@x",
        "partition 3: token=abc is no address",
        "kafka://host:9092, then a@b",
        "postgresql://u@db:5432/registry",
    ],
)
def test_what_stays(text: str) -> None:
    assert masked(text) == text
