"""The OpenAPI document: FastAPI's, with the Confluent API, problem documents as errors, and security schemes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from tidegate.gateway.access.rules import RULES, Reach
from tidegate.gateway.http.confluent import openapi as confluent
from tidegate.gateway.http.problems import ProblemDocument, responses
from tidegate.gateway.settings import GatewaySettings

_REF = "#/components/schemas/{model}"
_REPLACED = ("HTTPValidationError", "ValidationError")


class DocumentedApi(FastAPI):
    """A FastAPI application with a complete OpenAPI document."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, which is built once."""
        if self.openapi_schema is None:
            settings: GatewaySettings = self.state.factory.settings
            self.openapi_schema = _secured(_completed(super().openapi()), settings)
        return self.openapi_schema


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    """Add the Confluent API and the schema of problem documents; remove FastAPI's unused error format."""
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


_PUBLIC = {key for key, rule in RULES.items() if rule.reach is Reach.NOBODY_ASKED}
_HEALTH = "/health/"


def _secured(document: dict[str, Any], settings: GatewaySettings) -> dict[str, Any]:
    """Add the security schemes and the error responses of access control. If it is off, no scheme is required."""
    schemes = _schemes(settings)
    document["components"]["securitySchemes"] = schemes
    anybody: list[dict[str, list[str]]] = [] if settings.access == "on" else [{}]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            is_public = (method.upper(), path) in _PUBLIC
            operation["security"] = [] if is_public else [*anybody, *({name: []} for name in schemes)]
            statuses = [] if is_public else [401, 403]
            refusals = responses(*statuses, *([] if path.startswith(_HEALTH) else [429]))
            is_confluent = operation["tags"] == [confluent.TAG]
            found = {
                str(status): confluent.refusal(int(status)) if is_confluent else refusal
                for status, refusal in refusals.items()
            }
            operation["responses"] = dict(sorted({**found, **operation["responses"]}.items()))
    return document


def _schemes(settings: GatewaySettings) -> dict[str, Any]:
    schemes: dict[str, Any] = {
        "basic": {
            "type": "http",
            "scheme": "basic",
            "description": "An API key: its id as user, its secret as password.",
        },
        "key": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "tgk_<id>_<secret>",
            "description": "An API key as one token.",
        },
        "token": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "An access token of the identity provider (OAuth 2.0, OpenID Connect), if one is set up.",
        },
    }
    if settings.oidc_issuer is not None:
        place = f"{settings.oidc_issuer.rstrip('/')}/.well-known/openid-configuration"
        schemes["oidc"] = {"type": "openIdConnect", "openIdConnectUrl": place}
    return schemes
