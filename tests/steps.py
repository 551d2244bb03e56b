"""Steps of a walk, counted: calls of our own functions. And schemas that a walk without memory needs 2^n steps for."""

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
    """More calls than any walk may take: no `except Exception` of the product swallows it."""


def steps_of(work: Callable[[], object], most: int = MOST) -> int:
    """Count the calls of our own functions; what is refused is an answer, too."""
    steps = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal steps
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            steps += 1
            if steps > most:
                raise TooManySteps

    threading.setprofile(count)  # of threads that begin now, such as those of the application
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
    """Copy a schema as it is read from a text: no two parts of it are the same object."""
    copied: dict[str, Any] = json.loads(json.dumps(schema))
    return copied


def chain(count: int, body: Callable[[dict[str, str]], dict[str, Any]]) -> dict[str, Any]:
    """Return definitions; each refers to the next one by `body`."""
    definitions: dict[str, Any] = {
        f"d{index}": body({"$ref": f"#/$defs/d{index + 1}"}) for index in range(count)
    }
    definitions[f"d{count}"] = {"type": "object", "properties": {"last": {"type": "string"}}}
    properties = {"id": {"type": "integer"}, "tagged": {"type": "string", "confluent:tags": ["PII"]}}
    return fresh({"type": "object", "properties": properties, "$ref": "#/$defs/d0", "$defs": definitions})


def loops(count: int) -> dict[str, Any]:
    """Return definitions that all lead to each other on one value."""
    each = {"anyOf": [{"$ref": f"#/$defs/d{index}"} for index in range(count)]}
    return fresh({"$ref": "#/$defs/d0", "$defs": {f"d{index}": each for index in range(count)}})
