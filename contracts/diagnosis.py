"""From pydantic's findings to sentences for the author of a contract."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from contracts.errors import Problem
from contracts.source import escape


def diagnose(document: dict[str, Any], error: ValidationError) -> list[Problem]:
    """Say what is wrong with `document`; pointers are into it."""
    del document
    return [
        Problem("".join(f"/{escape(str(part))}" for part in item["loc"]), item["msg"])
        for item in error.errors(include_url=False)
    ]
