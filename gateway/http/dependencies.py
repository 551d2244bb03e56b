"""Dependencies of handlers: the factory, and bodies that are read up to a limit."""

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
    """Return the factory of this process."""
    return cast("Factory", request.app.state.factory)


FactoryDep = Annotated[Factory, Depends(get_factory)]


def media_type(request: Request, accepted: Collection[str]) -> str:
    """Return the body's content type without parameters. Raises UnknownMediaType for one not in `accepted`."""
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if found not in accepted:
        raise UnknownMediaType(
            f"the content type is {found or 'missing'}; send Content-Type: {' or '.join(accepted)}"
        )
    return found


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """Read the whole body. Raises BodyTooLarge as soon as it is known to exceed `limit_bytes`."""
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
    """Return the dependency that reads a small JSON body as a model; `left_out` is what no body means, if that is allowed.

    Bodies of up to `least_limit_bytes` are read whatever the settings say. It raises UnknownMediaType, BodyTooLarge,
    InvalidBody with each place.
    """

    async def read(request: Request, factory: FactoryDep) -> M:
        content = await read_body(request, max(factory.settings.max_document_bytes, least_limit_bytes))
        if left_out is not None and not content:
            return left_out
        media_type(request, ("application/json",))
        return read_model(model, content, what)

    return Depends(read)


def posted_json(limit_bytes: int) -> Any:
    """Return the dependency that reads a JSON body of a limited size as bytes: what is large is parsed in its turn.

    It raises UnknownMediaType, BodyTooLarge.
    """

    async def read(request: Request) -> bytes:
        media_type(request, ("application/json",))
        return await read_body(request, limit_bytes)

    return Depends(read)


def read_model(model: type[M], content: bytes, what: str) -> M:
    """Read a JSON body as a model. Raises InvalidBody with each place."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        places = tuple(
            Problem("".join(f"/{part}" for part in one["loc"]), one["msg"])
            for one in error.errors(include_input=False, include_url=False, include_context=False)
        )
        raise InvalidBody(f"the body is no {what}", places) from error


def json_content(schema: type[BaseModel] | str, example: Any) -> dict[str, Any]:
    """Describe a JSON body for the OpenAPI document: by a model, or by the name of a schema that the document has."""
    shown = (
        {"$ref": f"#/components/schemas/{schema}"} if isinstance(schema, str) else schema.model_json_schema()
    )
    return {"content": {"application/json": {"schema": shown, "example": example or shown["example"]}}}


def body_of(schema: type[BaseModel] | str, example: Any = None, *, required: bool = True) -> dict[str, Any]:
    """Describe the body that `posted` reads, for the OpenAPI document; the example may be the model's own."""
    return {"requestBody": {"required": required, **json_content(schema, example)}}


def _too_large(limit_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limit_bytes} bytes, the limit of this operation")
