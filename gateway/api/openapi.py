"""Completes the OpenAPI document: every refusal is a problem document, and nothing else."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from gateway.confluent import openapi as confluent
from gateway.problems import ProblemDocument

_REF = "#/components/schemas/{model}"
_REPLACED = ("HTTPValidationError", "ValidationError")


class DocumentedApi(FastAPI):
    """The framework's application with a true OpenAPI document."""

    def openapi(self) -> dict[str, Any]:
        """Give the document; made once."""
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi())
        return self.openapi_schema


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    """Add the problem document, and drop the error format of the framework, which is never sent."""
    _, problems = models_json_schema([(ProblemDocument, "serialization")], ref_template=_REF)
    document["paths"] |= confluent.paths()
    schemas = document["components"]["schemas"] | problems["$defs"] | confluent.SCHEMAS
    document["components"]["schemas"] = {
        name: schema for name, schema in sorted(schemas.items()) if name not in _REPLACED
    }
    for methods in document["paths"].values():
        for operation in methods.values():
            refusal = operation["responses"].get("422", {})
            if "application/json" in refusal.get("content", {}):
                del operation["responses"]["422"]
    return document
