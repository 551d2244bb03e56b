"""Answers to requests that the guard refuses: a problem document, a page of the desk, a Confluent error."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from tidegate.contracts.errors import TidegateError
from tidegate.gateway.access.principal import AccessError
from tidegate.gateway.http import problems
from tidegate.gateway.http.confluent.answers import confluent_answer
from tidegate.gateway.http.desk.rendering import page

_NATIVE = ("/api/", "/health/", "/docs", "/openapi.json")


def turned_away(request: Request, error: TidegateError) -> Response:
    """Answer a request that goes no further, in the form of the face that it came to."""
    path: str = request.scope["path"]
    if path == "/" or path.startswith(_NATIVE):
        return problems.problem_of(request, error)
    status = problems.status_of(error)
    headers = error.headers if isinstance(error, AccessError) else {}
    if path.startswith("/desk"):
        title = "Who are you?" if status == 401 else "This did not work"
        response: Response = page("problem.html", status_code=status, title=title, detail=str(error))
        response.headers.update(headers)
        return response
    return confluent_answer(error)
