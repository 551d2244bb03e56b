"""The page /docs with all operations, rendered from the OpenAPI document without scripts or external resources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

router = APIRouter(include_in_schema=False)

_STYLE = "reference.css"


@router.get("/docs")
def show_reference(request: Request) -> HTMLResponse:
    """Show all operations of the OpenAPI document."""
    openapi = request.app.openapi()
    operations = [
        {"method": method.upper(), "path": path, **operation}
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    ]
    template = _templates().get_template("reference.html")
    return HTMLResponse(template.render(openapi=openapi, operations=operations, style=f"/docs/{_STYLE}"))


@router.get(f"/docs/{_STYLE}")
def show_style() -> Response:
    """Return the style sheet of the page."""
    content = resources.files("tidegate.gateway.http.native").joinpath("reference_page", _STYLE).read_bytes()
    return Response(content, media_type="text/css", headers={"Cache-Control": "max-age=3600"})


def _example(content: Mapping[str, Any], openapi: Mapping[str, Any]) -> str | None:
    """Return the example of a body as text; None without one.

    It is the example of the body itself, or else that of its schema, after resolving a reference.
    """
    schema = content.get("schema", {})
    if "$ref" in schema:
        schema = openapi["components"]["schemas"][schema["$ref"].removeprefix("#/components/schemas/")]
    example = content.get("example", schema.get("example"))
    if example is None or isinstance(example, str):
        return example
    return json.dumps(example, indent=2, ensure_ascii=False)


def _with_code(text: str) -> Markup:
    """Convert text with backticks to HTML: text between backticks becomes code, and everything is escaped."""
    parts = (escape(part) for part in text.split("`"))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if odd % 2 else part for odd, part in enumerate(parts)
    )


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("tidegate.gateway.http.native", "reference_page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(with_code=_with_code, example=_example)
    return environment
