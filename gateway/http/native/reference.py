"""The page /docs: every operation, from the OpenAPI document. It needs no script and nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

router = APIRouter(include_in_schema=False)

_STYLE = "reference.css"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation."""

    name: str
    place: str
    required: bool
    description: str


@dataclass(frozen=True, slots=True)
class Body:
    """One content type of a request or an answer, with an example if there is one."""

    media_type: str
    example: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """One status with which an operation may answer."""

    status: str
    description: str
    bodies: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, ready to be shown."""

    id: str
    tag: str
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[Parameter, ...]
    body_description: str
    bodies: tuple[Body, ...]
    answers: tuple[Answer, ...]


@router.get("/docs")
def show_reference(request: Request) -> HTMLResponse:
    """Show every operation."""
    openapi = request.app.openapi()
    operations = tuple(read_operations(openapi))
    template = _templates().get_template("reference.html")
    return HTMLResponse(template.render(openapi=openapi, operations=operations, style=f"/docs/{_STYLE}"))


@router.get(f"/docs/{_STYLE}")
def show_style() -> Response:
    """Return the style sheet of the page."""
    content = resources.files("tidegate.gateway.http.native").joinpath("reference_page", _STYLE).read_bytes()
    return Response(content, media_type="text/css", headers={"Cache-Control": "max-age=3600"})


def read_operations(openapi: Mapping[str, Any]) -> Iterator[Operation]:
    """Read the operations of an OpenAPI 3.1 document, in its order."""
    for path, methods in openapi["paths"].items():
        for method, found in methods.items():
            body = found.get("requestBody", {})
            yield Operation(
                id=found["operationId"],
                tag=found["tags"][0],
                method=method.upper(),
                path=path,
                summary=found["summary"],
                description=found["description"],
                parameters=tuple(_parameter(one) for one in found.get("parameters", ())),
                body_description=body.get("description", ""),
                bodies=tuple(_bodies(body, openapi)),
                answers=tuple(
                    Answer(status, answer["description"], tuple(_bodies(answer, openapi)))
                    for status, answer in sorted(found["responses"].items())
                ),
            )


def _parameter(found: Mapping[str, Any]) -> Parameter:
    return Parameter(
        found["name"], found["in"], required=found["required"], description=found.get("description", "")
    )


def _bodies(holder: Mapping[str, Any], openapi: Mapping[str, Any]) -> Iterator[Body]:
    for media_type, content in holder.get("content", {}).items():
        example = content.get("example", _example(content.get("schema", {}), openapi))
        if example is None or isinstance(example, str):
            yield Body(media_type, example)
        else:
            yield Body(media_type, json.dumps(example, indent=2, ensure_ascii=False))


def _example(schema: Mapping[str, Any], openapi: Mapping[str, Any]) -> Any:
    """Find the example of a schema, through a reference into the document's components."""
    name = schema.get("$ref", "").removeprefix("#/components/schemas/")
    return (openapi["components"]["schemas"][name] if name else schema).get("example")


def _with_code(text: str) -> Markup:
    """Set what stands between backquotes as code; all of it is escaped."""
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
    environment.filters["with_code"] = _with_code
    return environment
