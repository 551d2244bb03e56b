"""The base of all pages: error pages, the sign-in form, rendering for the current visitor, and form parsing."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any, Protocol
from urllib.parse import parse_qsl

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from tidegate.contracts.errors import NotFoundError, Problem, TidegateError
from tidegate.gateway.access.principal import AccessError, Unauthenticated
from tidegate.gateway.http.dependencies import read_body
from tidegate.gateway.http.desk.rendering import page
from tidegate.gateway.http.desk.visitor import Visitor, visitor_of
from tidegate.gateway.http.problems import InvalidBody, note_denial, status_of

MOST_FORM_BYTES = 64 * 1024
MOST_FORM_FIELDS = 200
SIGN_IN = "/desk/sign-in"
NO_SUCH_PAGE = "This address names no page of the desk."


class DeskRoute(APIRoute):
    """A FastAPI route that returns errors as HTML pages instead of JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route, wrapped so that its errors become pages."""
        handle = super().get_route_handler()

        async def handle_for_people(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError:
                return error_page(request, HTTPStatus.NOT_FOUND, NO_SUCH_PAGE)
            except TidegateError as error:
                return refusal_page(request, error)

        return handle_for_people


_TITLES = {
    HTTPStatus.BAD_REQUEST: "This cannot be read",
    HTTPStatus.FORBIDDEN: "Not allowed",
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.METHOD_NOT_ALLOWED: "Not found",
    HTTPStatus.CONFLICT: "Not possible now",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Too large",
    HTTPStatus.MISDIRECTED_REQUEST: "Unknown host name",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Not accepted",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The registry failed",
    HTTPStatus.SERVICE_UNAVAILABLE: "No answer",
}


def error_page(request: Request, status: int, detail: str | None) -> Response:
    """Return an error page with the given status; `detail` says what happened (None: nothing more is known)."""
    title = _TITLES.get(HTTPStatus(status), "This did not work")
    visitor = visitor_of(request)
    is_signed_in = request.state.principal is not None and visitor.is_known
    return page(
        "error.html",
        visitor=visitor if is_signed_in else None,
        status_code=status,
        title=title,
        detail=detail,
        can_retry=status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE},
        status=status,
    )


def refusal_page(request: Request, error: TidegateError) -> Response:
    """Return the page of a TidegateError; for Unauthenticated, the sign-in form."""
    if isinstance(error, Unauthenticated):
        return sign_in_page(request, None)
    note_denial(request, error)
    problems = error.problems if isinstance(error, InvalidBody) else ()
    detail = "; ".join((str(error), *(f"{one.pointer} {one.message}".strip() for one in problems)))
    response = error_page(request, status_of(error), detail)
    if isinstance(error, AccessError):
        response.headers.update(error.headers)
    return response


_NO_PROMPT = {"WWW-Authenticate": 'Bearer realm="tidegate"'}
"""A challenge for which browsers open no dialog of their own: the page has the form. Source: RFC 9110, 15.5.2."""


def sign_in_page(request: Request, failure: str | None, next_page: str | None = None) -> Response:
    """Return the sign-in form, which leads to `next_page`, or if that is None to the requested page.

    `failure` is the error of the last attempt; None for none. The status is 401, or 200 for a first visit of SIGN_IN.
    """
    path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
    asked = f"{path}?{query}" if query else path
    is_get = request.method in {"GET", "HEAD"}
    is_form = path == SIGN_IN
    response = page(
        "sign_in.html",
        visitor=None,
        status_code=HTTPStatus.OK if is_form and failure is None else HTTPStatus.UNAUTHORIZED,
        failure=failure,
        next_page=own_page(next_page or (asked if is_get else "")),
    )
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        response.headers.update(_NO_PROMPT)
    return response


_LONGEST_PAGE = 2000


def own_page(path: str) -> str:
    """Return the path if it is a page of the desk, else the path of the first page (no open redirects)."""
    is_own = path == "/desk" or path.startswith(("/desk/", "/desk?"))
    is_plain = path.isascii() and path.isprintable() and "\\" not in path and len(path) <= _LONGEST_PAGE
    is_form = path.startswith(("/desk/sign-in", "/desk/sign-out"))
    return path if is_own and is_plain and not is_form else "/desk"


class Show(Protocol):
    """A function that renders a page for the current visitor."""

    def __call__(self, template: str, *, status_code: int = 200, **values: Any) -> Response:
        """Return the response with the rendered template."""
        ...


def _show_of(request: Request) -> Show:
    visitor = visitor_of(request)

    def show(template: str, *, status_code: int = 200, **values: Any) -> Response:
        return page(template, visitor=visitor, status_code=status_code, **values)

    return show


ShowDep = Annotated[Show, Depends(_show_of)]
VisitorDep = Annotated[Visitor, Depends(visitor_of)]

Fields = tuple[tuple[str, str], ...]


async def posted_fields(request: Request) -> Fields:
    """Read the fields of a posted form, as a FastAPI dependency. Raises BodyTooLarge, InvalidBody."""
    return read_fields(await read_body(request, MOST_FORM_BYTES))


def read_fields(body: bytes) -> Fields:
    """Parse the fields of a URL-encoded form. Raises InvalidBody if it is not text or has too many fields."""
    try:
        return tuple(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FORM_FIELDS))
    except ValueError as error:
        raise InvalidBody(
            "the form cannot be read", (Problem("form", "has too many fields, or is no text"),)
        ) from error


class Form:
    """A posted form with one value per name: of several values, the last."""

    def __init__(self, fields: Fields) -> None:
        self._values = dict(fields)

    def text(self, name: str) -> str | None:
        """Return a value without surrounding whitespace; None if it is empty or missing."""
        return self._values.get(name, "").strip() or None

    def has(self, name: str) -> bool:
        """Return whether the form has a field of this name: whether a checkbox is checked."""
        return name in self._values


def _form_of(fields: Annotated[Fields, Depends(posted_fields)]) -> Form:
    return Form(fields)


FormDep = Annotated[Form, Depends(_form_of)]


def no_such_page() -> NotFoundError:
    """Return the error for a URL that is not a page."""
    return NotFoundError(NO_SUCH_PAGE)
