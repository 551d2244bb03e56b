"""Describe a crash without a value of a record: the error and its place.

The message of an error of a library often quotes a value (`Could not convert '...' with type str`). So logs and
tracebacks have only the classes of such errors and the places that raised them.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, MutableMapping
from typing import Any

from tidegate.contracts.address_secrets import masked
from tidegate.contracts.errors import TidegateError


def described(error: BaseException) -> str:
    """Describe an error in a line, with the place where it was raised, the innermost place first.

    Its message is kept if it is our own; of an error of the operating system its reason, of a database its code.
    """
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    if isinstance(error, TidegateError):
        return f"{kind}: {masked(str(error))}"
    reason = error.strerror if isinstance(error, OSError) else getattr(error, "sqlstate", None)
    frames = reversed(traceback.extract_tb(error.__traceback__))
    places = " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{kind}{f' ({reason})' if reason else ''}{f' at {places}' if places else ''}"


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, what caused it, and so on.

    Ends at an error of the Kafka client that is no BaseException, and so has no traceback.
    """
    seen: list[BaseException] = []
    following: BaseException | None = error
    while isinstance(following, BaseException) and following not in seen:
        seen.append(following)
        yield following
        hidden = None if following.__suppress_context__ else following.__context__
        following = following.__cause__ or hidden


def exception_without_values(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Write the `exc_info` of a log event as `exception`, a line for each error: a processor of structlog."""
    given = event.pop("exc_info", None)
    if given is True:
        given = sys.exc_info()
    error = given[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        event["exception"] = [described(each) for each in chain_of(error)]
    return event
