"""Rendering of pages: templates with autoescape, fingerprinted assets, and security headers."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Any

from fastapi import Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from tidegate.gateway.http.desk import wording
from tidegate.gateway.http.desk.layout import MarkedBytes, Piece
from tidegate.gateway.http.desk.visitor import Visitor

_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",  # pages show parts of refused records
}
ASSETS = ("desk.css", "desk.js", "icon.svg")


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file. Its URL contains a digest of its content, so browsers may cache it forever."""

    content: bytes
    media_type: str
    address: str


@cache
def asset(name: str) -> Asset:
    """Return one of ASSETS; its content is cached."""
    content = resources.files("tidegate.gateway.http.desk").joinpath("static", name).read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:12]
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Asset(content, media_type, f"/desk/static/{digest}/{name}")


def asset_response(found: Asset) -> Response:
    """Return the response for a static file."""
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(found.content, media_type=found.media_type, headers=headers)


def page(
    template: str, *, visitor: Visitor | None = None, status_code: int = 200, **values: Any
) -> HTMLResponse:
    """Render a template as a response; every value is escaped. `visitor` is None before the sign-in."""
    text = _templates().get_template(template).render(now=datetime.now(UTC), visitor=visitor, **values)
    return HTMLResponse(text, status_code=status_code, headers=_PAGE_HEADERS)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("tidegate.gateway.http.desk"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=wording.visible,
    )
    environment.filters.update(
        grouped=wording.grouped,
        rate=wording.rate,
        percent=wording.percent,
        byte_size=wording.byte_size,
        exact=wording.exact,
        machine=wording.machine,
        length_of=wording.length_of,
        sentence=wording.sentence,
        ticked=wording.ticked,
        groupby_mark=_groupby_mark,
    )
    environment.globals.update(ago=wording.ago, asset=asset)
    return environment


def _groupby_mark(pieces: Iterable[Piece]) -> list[tuple[MarkedBytes | None, list[Piece]]]:
    """Group adjacent pieces by their mark, so that a mark is one element on the page."""
    return [(mark, list(group)) for mark, group in groupby(pieces, key=lambda piece: piece.mark)]
