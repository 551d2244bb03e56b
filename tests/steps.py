"""A counter of function calls, and schemas for which a walk without memory needs 2^n steps."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tidegate.contracts.errors import ContractError

ROOT = str(Path(__file__).parents[1])
OURS = (f"{ROOT}/tidegate/contracts/", f"{ROOT}/tidegate/gateway/")
MOST = 3_000_000


class TooManySteps(BaseException):
    """Too many calls; a BaseException, so that no `except Exception` of the product catches it."""


def steps_of(work: Callable[[], object], most: int = MOST) -> int:
    """Return the number of calls of our own functions, also if `work` raises ContractError. Raise TooManySteps above `most`."""
    steps = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal steps
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            steps += 1
            if steps > most:
                raise TooManySteps

    threading.setprofile(count)  # also of threads that start later, such as those of the application
    sys.setprofile(count)
    try:
        work()
    except ContractError:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return steps


def fresh(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a deep copy in which no object is shared, as in a schema that was parsed."""
    copied: dict[str, Any] = json.loads(json.dumps(schema))
    return copied


def chain(count: int, body: Callable[[dict[str, str]], dict[str, Any]]) -> dict[str, Any]:
    """Return a schema of `count` definitions; `body` makes each from a reference to the next one."""
    definitions: dict[str, Any] = {
        f"d{index}": body({"$ref": f"#/$defs/d{index + 1}"}) for index in range(count)
    }
    definitions[f"d{count}"] = {"type": "object", "properties": {"last": {"type": "string"}}}
    properties = {"id": {"type": "integer"}, "tagged": {"type": "string", "confluent:tags": ["PII"]}}
    return fresh({"type": "object", "properties": properties, "$ref": "#/$defs/d0", "$defs": definitions})


def loops(count: int) -> dict[str, Any]:
    """Return a schema of `count` definitions that all refer to each other for the same value."""
    each = {"anyOf": [{"$ref": f"#/$defs/d{index}"} for index in range(count)]}
    return fresh({"$ref": "#/$defs/d0", "$defs": {f"d{index}": each for index in range(count)}})
