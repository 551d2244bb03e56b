"""The switch that turns off the fast path, to find out whether a fault is in generated code."""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "TIDEGATE_FASTPATH"
"""Name of the environment variable."""
_ANSWERS: Final = {"on": True, "off": False}


def is_on() -> bool:
    """Return whether plans use the fast path (the default). Raises ValueError for a setting other than on and off."""
    setting = os.environ.get(VARIABLE, "on")
    try:
        return _ANSWERS[setting.strip().lower()]
    except KeyError:
        message = f"{VARIABLE} is `{setting}`; write `on` or `off`, or leave it out for `on`"
        raise ValueError(message) from None
