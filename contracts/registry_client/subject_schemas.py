"""The schemas that the records of a topic may have been written with: the versions of its subject in the registry.

They are requested after the records were read. Versions are immutable, so that only new ones are fetched. A subject
that was permanently deleted and registered again counts its versions from 1 again. Its ids never repeat, so the id of
the highest version is compared each time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import NotFoundError, Unavailable
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas

_FEW: Final = 10
"""So many versions are fetched one by one; more of them with the list of all."""
_TYPES: Final[dict[str, Any]] = {"AVRO": "avro", "JSON": "json-schema"}
_QUERY: Final = "deleted=true&format=resolved"
_PAGE: Final = 1_000
"""Versions of one list: the most that this registry and the Confluent Schema Registry return by default."""

Ask = Callable[[str], Any]
"""Returns the JSON that a registry has under a path. Raises NotFoundError for none, Unavailable for any other answer."""


class SubjectSchemas:
    """Keeps the versions of a topic's subject, deleted ones too: records that were written with them are still there."""

    def __init__(self, ask: Ask, topic: str) -> None:
        self._ask = ask
        self._topic = topic
        self._subject = subject_of(topic)
        self._versions: dict[int, WriterSchema] = {}

    @property
    def topic(self) -> str:
        """Return the name of the topic."""
        return self._topic

    def known(self) -> WriterSchemas:
        """Return what is known without asking; there may be more."""
        return self._listed(is_current=False)

    def current(self) -> WriterSchemas:
        """Request the schemas. Raises Unavailable if the registry is unreachable, and other errors of the request."""
        try:
            self._versions = self._fetched()
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"the registry returned an invalid document about {self._subject}") from error
        except NotFoundError as error:  # gone between two questions
            raise Unavailable(f"the registry answered about {self._subject} what holds no more") from error
        return self._listed(is_current=True)

    def _listed(self, *, is_current: bool) -> WriterSchemas:
        return WriterSchemas(tuple(self._versions[each] for each in sorted(self._versions)), is_current)

    def _fetched(self) -> dict[int, WriterSchema]:
        path = f"/subjects/{quote(self._subject, safe='')}/versions"
        try:
            listed = self._ask(f"{path}?deleted=true")
        except NotFoundError:
            return {}
        missing = [number for number in listed if number not in self._versions]
        if len(listed) > len(missing):
            highest = max(number for number in listed if number in self._versions)
            if self._version(path, highest).id != self._versions[highest].id:
                missing = listed
        found = {number: each for number, each in self._versions.items() if number in set(listed)}
        if len(missing) > _FEW:
            return self._all(set(listed))
        return found | {number: self._version(path, number) for number in missing}

    def _all(self, listed: set[int]) -> dict[int, WriterSchema]:
        """Return the versions of the list of all. Raises NotFoundError if one that was listed is not among them."""
        path = f"/schemas?subjectPrefix={quote(self._subject, safe='')}&{_QUERY}&limit={_PAGE}"
        found: dict[int, WriterSchema] = {}
        for offset in count(0, _PAGE):
            entries = self._ask(f"{path}&offset={offset}")
            found |= {each["version"]: _schema(each) for each in entries if each["subject"] == self._subject}
            if len(entries) < _PAGE:
                break
        if not found.keys() >= listed:  # a page moves when a version before it is deleted
            raise NotFoundError(f"the versions of {self._subject} changed while they were listed")
        return found

    def _version(self, path: str, number: int) -> WriterSchema:
        return _schema(self._ask(f"{path}/{number}?{_QUERY}"))


def _schema(entry: dict[str, Any]) -> WriterSchema:
    return WriterSchema(entry["id"], UUID(entry["guid"]), _TYPES.get(entry["schemaType"]), entry["schema"])
