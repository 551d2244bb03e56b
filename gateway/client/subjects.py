"""A client for the subjects of a schema registry: Confluent's, this one, or another with the same API."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from tidegate.contracts.errors import NotFoundError, SettingsError
from tidegate.contracts.registry_client.messages import Request
from tidegate.gateway.client.registry import RegistryClient

_MOST_REFERENCES: Final = 100


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """The newest version of a subject as the registry shows it, the schemas that it refers to, and its settings.

    `referred` has the entry of each subject and version that a reference names, at any depth.
    """

    subject: str
    entry: dict[str, Any]
    referred: dict[tuple[str, int], dict[str, Any]]
    config: dict[str, Any]


class SubjectClient(RegistryClient):
    """Reads subjects. Every call raises Unavailable, CredentialsError and SettingsError as `RegistryClient` does."""

    def newest(self, subject: str) -> SubjectVersion:
        """Return the newest version of a subject. Raises NotFoundError."""
        entry = self._version(subject, "latest")
        referred: dict[tuple[str, int], dict[str, Any]] = {}
        waiting = [entry]
        while waiting:
            for each in waiting.pop().get("references") or ():
                key = each["subject"], each["version"]
                if key in referred:
                    continue
                if len(referred) >= _MOST_REFERENCES:
                    raise SettingsError(f"{subject} refers to more than {_MOST_REFERENCES} other schemas")
                referred[key] = self._version(*key)
                waiting.append(referred[key])
        answer = self._ask(Request("GET", f"/config/{quote(subject, safe='')}?defaultToGlobal=true"))
        return SubjectVersion(subject, entry, referred, answer.document if answer.is_ok else {})

    def _version(self, subject: str, version: int | str) -> dict[str, Any]:
        answer = self._ask(Request("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}"))
        if answer.is_missing and "error_code" in answer.document:
            raise NotFoundError(f"{self.url} has no version {version} of the subject {subject}")
        if not answer.is_ok:
            raise self._error(answer)
        if not isinstance(answer.document.get("schema"), str):
            raise SettingsError(
                f"{self.url} answers {HTTPStatus.OK} without a schema; is it a schema registry?"
            )
        return answer.document
