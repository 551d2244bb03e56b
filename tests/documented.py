"""The operations of the registry's OpenAPI document, from which schemathesis makes requests."""

from __future__ import annotations

from typing import Any

import schemathesis
from fastapi import FastAPI
from schemathesis import GenerationMode

MODES = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
"""What the schemas of the document allow, and what they do not."""


@schemathesis.serializer("application/x-ndjson")
def lines(_context: object, value: object) -> bytes:
    return str(value).encode("utf-8", "replace")


def documented_operations(application: FastAPI) -> list[Any]:
    """Return the operations that an application documents."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", application, headers={"Host": "localhost"})
    schema.config.generation.update(modes=MODES)
    return [found.ok() for found in schema.get_all_operations()]
