"""The parsed request of an operation: path (split at unescaped slashes), query and body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote

import orjson
from pydantic import ValidationError
from starlette.requests import Request

from tidegate.gateway.access.principal import Principal
from tidegate.gateway.registry.schemas.entities import Entity
from tidegate.gateway.registry.schemas.errors import Refused, invalid_rule_set
from tidegate.gateway.registry.schemas.names import DEFAULT_CONTEXT, GLOBAL, context_of, qualified
from tidegate.gateway.registry.subject_reading import Page
from tidegate.gateway.storage.subjects import Deleted

if TYPE_CHECKING:
    from tidegate.gateway.factory import Factory


MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
READABLE = (
    MEDIA_TYPE,
    "application/vnd.schemaregistry+json",
    "application/json",
    "application/octet-stream",
)
_MAX_NUMBER = 2**31 - 1
MOST_SCHEMAS: Final = 1_000
"""Most schemas of one list. Source: the default of `schema.search.max.limit` in Confluent's SchemaRegistryConfig 8.4."""

E = TypeVar("E", bound=Entity)


@dataclass(frozen=True, slots=True)
class OperationAnswer:
    """The response of an operation: a JSON `value`, or the bytes of `content` unless it is None."""

    value: Any = None
    status: int = 200
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> bytes:
        """Return the bytes of the body; empty for status 204."""
        if self.content is not None:
            return self.content
        return b"" if self.status == 204 else orjson.dumps(self.value)


@dataclass(frozen=True, slots=True)
class Call:
    """One parsed request.

    `path` has the decoded path parameters by name, `query` all values of each parameter. The names of `headers` are in
    lower case. `content` is the body; empty for methods without one.
    """

    request: Request
    path: Mapping[str, str]
    query: Mapping[str, tuple[str, ...]]
    headers: Mapping[str, str]
    content: bytes
    principal: Principal
    factory: Factory

    @property
    def subject(self) -> str:
        """Return the subject in the path."""
        return self.path["subject"]

    @property
    def scope(self) -> str:
        """Return the subject in the path, or GLOBAL for the settings of all subjects."""
        return self.path.get("subject", GLOBAL)

    @property
    def is_python_client(self) -> bool:
        """Return whether the client is confluent-kafka for Python, which cannot read tags in metadata."""
        return self.headers.get("confluent-client-version", "").startswith("python/")

    def text(self, *names: str, default: str = "") -> str:
        """Return the last value of the first of these parameters that the query has, else `default`."""
        for name in names:
            if name in self.query:
                return self.query[name][-1]
        return default

    def flag(self, *names: str) -> bool:
        """Return a Boolean query parameter; False if it is missing. Case is ignored. Raises Refused (422).

        `names` are alternative spellings of the parameter.
        """
        found = self.text(*names).lower()
        if found not in {"", "true", "false"}:
            raise Refused(422, 422, f"{names[0]} is true or false")
        return found == "true"

    def number(self, name: str, default: int) -> int:
        """Return an integer query parameter, clamped to the range from -1 to 2^31 - 1. Raises Refused (422)."""
        found = self.text(name)
        try:
            number = int(found) if found else default
        except ValueError:
            raise Refused(422, 422, f"{name} is a whole number") from None
        return max(-1, min(number, _MAX_NUMBER))

    @property
    def page(self) -> Page:
        """Return the part of a list that is asked for; a limit below 1 means no limit."""
        return self.page_of(None)

    def page_of(self, most: int | None) -> Page:
        """Return the part of a list of at most `most` members; a limit that is not in 1..most means `most`."""
        limit = self.number("limit", -1)
        is_meant = limit > 0 and (most is None or limit <= most)
        return Page(max(0, self.number("offset", 0)), limit if is_meant else most)

    @property
    def deleted(self) -> Deleted:
        """Return whether the request includes soft-deleted versions: none of them, also them, or only them."""
        if self.flag("deleted_only", "deletedOnly"):
            return Deleted.ONLY
        return Deleted.SHOWN if self.flag("deleted") else Deleted.LEFT_OUT

    def json(self) -> dict[str, Any]:
        """Parse the body as a JSON object. Raises Refused (400, 422)."""
        try:
            found = orjson.loads(self.content)
        except orjson.JSONDecodeError as error:
            raise Refused(400, 400, f"the body is not valid JSON: {error}") from error
        if not isinstance(found, dict):
            raise Refused(422, 422, "the body is a JSON object")
        return found

    def entity(self, kind: type[E]) -> E:
        """Parse the body as an entity. Raises Refused (400, 422, 42210)."""
        return read_entity(kind, self.json())


def read_entity(kind: type[E], value: object) -> E:
    """Validate a JSON value as an entity; a member that is null counts as missing. Raises Refused (422, 42210)."""
    try:
        return kind.model_validate(_without_nulls(value))
    except ValidationError as error:
        places = [(".".join(str(part) for part in one["loc"]), one["msg"]) for one in error.errors()]
        message = "; ".join(f"{place}: {problem}" if place else problem for place, problem in places)
        if any(name in place for place, _ in places for name in ("ruleSet", "RuleSet")):
            raise invalid_rule_set(message) from error
        raise Refused(422, 422, message) from error


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def read_segments(raw_path: bytes) -> tuple[str, ...]:
    """Split a raw path into decoded segments; `%2F` does not separate segments. Raises Refused (400)."""
    try:
        parts = [unquote(part, errors="strict") for part in raw_path.decode("ascii").split("/")]
    except UnicodeDecodeError as error:
        raise Refused(400, 400, "the path is not UTF-8") from error
    return tuple(parts[1:-1] if len(parts) > 2 and not parts[-1] else parts[1:])


def read_query(query_string: bytes) -> dict[str, tuple[str, ...]]:
    """Parse a query string into the values of each parameter, in their order."""
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return {name: tuple(values) for name, values in found.items()}


def in_context(context: str, subject: str) -> str:
    """Return the qualified name of a subject in a path under `/contexts/{context}`.

    A subject that names a context itself is returned as it is.
    """
    if context == DEFAULT_CONTEXT or context_of(subject) != DEFAULT_CONTEXT or subject.startswith(":"):
        return subject
    return qualified(context, subject)
