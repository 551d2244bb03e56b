"""FastAPI dependencies: the factory, and request bodies of limited size."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError

from tidegate.contracts.errors import Problem
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.problems import BodyTooLarge, InvalidBody, UnknownMediaType

M = TypeVar("M", bound=BaseModel)


def get_factory(request: Request) -> Factory:
    """Return the factory of this process, as a FastAPI dependency."""
    return cast("Factory", request.app.state.factory)


FactoryDep = Annotated[Factory, Depends(get_factory)]


def media_type(request: Request, accepted: Collection[str]) -> str:
    """Return the content type of the body, without parameters. Raises UnknownMediaType if it is not in `accepted`."""
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if found not in accepted:
        raise UnknownMediaType(
            f"the content type is {found or 'missing'}; send Content-Type: {' or '.join(accepted)}"
        )
    return found


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """Read the whole body. Raises BodyTooLarge as soon as its declared or actual size exceeds `limit_bytes`."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit_bytes:
        raise _too_large(limit_bytes)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def posted(model: type[M], what: str, *, left_out: M | None = None, least_limit_bytes: int = 0) -> Any:
    """Return a FastAPI dependency that reads a JSON body and validates it as a model.

    `what` names the body in error messages. `left_out` is the value of an empty body; with None, an empty body is an
    error. The size limit is `max_document_bytes` of the settings, but at least `least_limit_bytes`. The dependency
    raises UnknownMediaType, BodyTooLarge, and InvalidBody with the location of each problem.
    """

    async def read(request: Request, factory: FactoryDep) -> M:
        content = await read_body(request, max(factory.settings.max_document_bytes, least_limit_bytes))
        if left_out is not None and not content:
            return left_out
        media_type(request, ("application/json",))
        return read_model(model, content, what)

    return Depends(read)


def posted_json(limit_bytes: int) -> Any:
    """Return a FastAPI dependency that reads a JSON body of limited size as bytes.

    Handlers with a `checked` limit parse a large body only when they have a slot. The dependency raises
    UnknownMediaType and BodyTooLarge.
    """

    async def read(request: Request) -> bytes:
        media_type(request, ("application/json",))
        return await read_body(request, limit_bytes)

    return Depends(read)


def read_model(model: type[M], content: bytes, what: str) -> M:
    """Validate a JSON body as a model. Raises InvalidBody with the location of each problem."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        places = tuple(
            Problem("".join(f"/{part}" for part in one["loc"]), one["msg"])
            for one in error.errors(include_input=False, include_url=False, include_context=False)
        )
        raise InvalidBody(f"the body is no {what}", places) from error


def json_content(schema: type[BaseModel] | str, example: Any) -> dict[str, Any]:
    """Return the OpenAPI `content` of a JSON body: of a model, or of a named schema in the document.

    If `example` is empty, it is the example of the model.
    """
    shown = (
        {"$ref": f"#/components/schemas/{schema}"} if isinstance(schema, str) else schema.model_json_schema()
    )
    return {"content": {"application/json": {"schema": shown, "example": example or shown["example"]}}}


def body_of(schema: type[BaseModel] | str, example: Any = None, *, required: bool = True) -> dict[str, Any]:
    """Return the OpenAPI `requestBody` for a body that `posted` reads, with the example of the model by default."""
    return {"requestBody": {"required": required, **json_content(schema, example)}}


def _too_large(limit_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limit_bytes} bytes, the limit of this operation")
