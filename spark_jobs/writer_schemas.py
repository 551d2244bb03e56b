"""The schemas that the records of a topic may have been written with: the versions of its subject in the registry.

They are asked for at each batch boundary, after the records of the batch were there. Versions are immutable, so that
only new ones are fetched. A subject that was deleted for good and registered anew counts its versions from 1 again, but
never gives an id twice: that of the highest version is looked at each time.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import httpx

from contracts.errors import Unavailable
from contracts.writers import WriterSchema, WriterSchemas

_FEW: Final = 10
"""So many versions are fetched one by one; more of them with the list of all."""
_TYPES: Final[dict[str, Any]] = {"AVRO": "avro", "JSON": "json-schema"}
_QUERY: Final = "deleted=true&format=resolved"


class SubjectSchemas:
    """Keeps the versions of one subject, deleted ones too: records that were written with them are still there."""

    def __init__(self, client: httpx.Client, subject: str) -> None:
        self._client = client
        self._subject = subject
        self._versions: dict[int, WriterSchema] = {}

    @property
    def subject(self) -> str:
        """Name of the subject."""
        return self._subject

    def known(self) -> WriterSchemas:
        """Give what is known without asking; there may be more."""
        return WriterSchemas(tuple(self._versions.values()), is_current=False)

    def current(self) -> WriterSchemas:
        """Ask the registry. Raises Unavailable or httpx.HTTPError when it is away."""
        try:
            self._versions = self._asked()
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"the registry answered about {self._subject} what no registry says") from error
        return WriterSchemas(tuple(self._versions.values()), is_current=True)

    def _asked(self) -> dict[int, WriterSchema]:
        path = f"/subjects/{quote(self._subject, safe='')}/versions"
        listed = self._get(f"{path}?deleted=true", missing=[])
        missing = [number for number in listed if number not in self._versions]
        if len(listed) > len(missing):
            highest = max(number for number in listed if number in self._versions)
            if self._version(path, highest).id != self._versions[highest].id:
                missing = listed
        found = {number: each for number, each in self._versions.items() if number in set(listed)}
        if len(missing) > _FEW:
            return self._all()
        return found | {number: self._version(path, number) for number in missing}

    def _all(self) -> dict[int, WriterSchema]:
        entries = self._get(f"/schemas?subjectPrefix={quote(self._subject, safe='')}&{_QUERY}", missing=[])
        return {each["version"]: _schema(each) for each in entries if each["subject"] == self._subject}

    def _version(self, path: str, number: int) -> WriterSchema:
        return _schema(self._get(f"{path}/{number}?{_QUERY}"))

    def _get(self, path: str, missing: Any = None) -> Any:
        answer = self._client.get(path)
        if answer.status_code == httpx.codes.NOT_FOUND and missing is not None:
            return missing
        if answer.status_code != httpx.codes.OK:
            # A version that is gone between two questions, or a key that is taken no more: both are asked about again.
            raise Unavailable(f"the registry answered {answer.status_code} to {path.partition('?')[0]}")
        return answer.json()


def _schema(entry: dict[str, Any]) -> WriterSchema:
    return WriterSchema(entry["id"], UUID(entry["guid"]), _TYPES.get(entry["schemaType"]), entry["schema"])
