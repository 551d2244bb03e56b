"""What a report of `tidegate check` in JSON tells."""

from __future__ import annotations

import json
from typing import Any

from .conftest import Ran


def found(ran: Ran) -> list[dict[str, Any]]:
    """Return the contracts of a JSON report."""
    report = json.loads(ran.stdout)
    assert report["failed"] is (ran.returncode == 1)
    contracts: list[dict[str, Any]] = report["contracts"]
    return contracts


def codes(ran: Ran) -> dict[str, list[str]]:
    """Return the codes of all findings by file."""
    return {one["file"]: [finding["code"] for finding in one["findings"]] for one in found(ran)}
