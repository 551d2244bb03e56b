"""How the guard's refusals look to whoever asked: a problem document, a page of the desk, a Confluent error."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response

from contracts.errors import TidegateError
from gateway import problems
from gateway.access.errors import AccessError, Forbidden
from gateway.desk.rendering import page

CONFLUENT_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_NATIVE = ("/api/", "/health/", "/docs", "/openapi.json")
_FORBIDDEN_CODE = 40301


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


def confluent_answer(error: TidegateError) -> Response:
    """Return an error of access control as clients of a schema registry read it.

    Source: Schema Registry API, errors: 40301 for an operation that is denied, else the status as the code.
    """
    status = problems.status_of(error)
    code = _FORBIDDEN_CODE if isinstance(error, Forbidden) else status
    body = json.dumps({"error_code": code, "message": str(error)})
    headers = error.headers if isinstance(error, AccessError) else None
    return Response(body, status, headers, CONFLUENT_MEDIA_TYPE)
