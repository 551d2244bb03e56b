"""Errors of access control, as clients of a schema registry read them."""

from __future__ import annotations

import json

from starlette.responses import Response

from tidegate.contracts.errors import TidegateError
from tidegate.gateway.access.principal import AccessError, Forbidden
from tidegate.gateway.http import problems

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_FORBIDDEN_CODE = 40301


def confluent_answer(error: TidegateError) -> Response:
    """Return an error of access control as clients of a schema registry read it.

    Source: Schema Registry API, errors: 40301 for an operation that is denied, else the status as the code.
    """
    status = problems.status_of(error)
    code = _FORBIDDEN_CODE if isinstance(error, Forbidden) else status
    body = json.dumps({"error_code": code, "message": str(error)})
    headers = error.headers if isinstance(error, AccessError) else None
    return Response(body, status, headers, MEDIA_TYPE)
