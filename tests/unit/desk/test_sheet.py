"""The colours of the desk can be read in both themes. Source: WCAG 2.2, success criteria 1.4.3 and 1.4.11."""

from __future__ import annotations

import re

import pytest

from tidegate.gateway.http.desk.rendering import asset

COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", asset("desk.css").content.decode()
    )
}
TEXT = [
    *((ink, ground) for ink in ("ink", "muted", "accent") for ground in ("ground", "raised", "hover")),
    *((ink, "raised") for ink in ("string", "value", "odd", "refused")),
    ("refused", "ground"),
    ("refused", "hover"),
    ("refused", "refused-ground"),
    ("warned", "ground"),
    ("warned", "warned-ground"),
    ("clear", "ground"),
    ("accent", "accent-ground"),
    ("muted", "accent-ground"),
]
GRAPHICS = [(f"s{slot}", "ground") for slot in range(7)]


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize(
    ("front", "behind", "least"), [*((*pair, 4.5) for pair in TEXT), *((*pair, 3.0) for pair in GRAPHICS)]
)
def test_contrast(front: str, behind: str, least: float, theme: int) -> None:
    darker, lighter = sorted(luminance(COLOURS[name][theme]) for name in (front, behind))
    assert (lighter + 0.05) / (darker + 0.05) >= least
