"""What handlers depend on: the factory, and bodies that are read up to a limit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, cast

from fastapi import Depends, Request

from gateway.factory import Factory
from gateway.problems import BodyTooLarge, UnknownMediaType


def get_factory(request: Request) -> Factory:
    """Give the factory of this process."""
    return cast("Factory", request.app.state.factory)


FactoryDep = Annotated[Factory, Depends(get_factory)]


def media_type(request: Request, accepted: Collection[str]) -> str:
    """Give the body's content type without parameters. Raises UnknownMediaType for one not in `accepted`."""
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


def _too_large(limit_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limit_bytes} bytes, the limit of this operation")
