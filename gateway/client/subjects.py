"""A client for the subjects of a schema registry: Confluent's, Tidegate's, or another one with the same API."""

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
class LatestVersion:
    """The latest version of a subject, the schemas that it references, and the configuration of the subject.

    `entry` is the version as the registry returns it. `referred` has the entries of all referenced schemas, direct and
    transitive, by subject and version. `config` is empty if the registry does not return it.
    """

    subject: str
    entry: dict[str, Any]
    referred: dict[tuple[str, int], dict[str, Any]]
    config: dict[str, Any]


class SubjectClient(RegistryClient):
    """A client for subjects. Like `RegistryClient`, it raises Unavailable, CredentialsError and SettingsError."""

    def newest(self, subject: str) -> LatestVersion:
        """Return the latest version of a subject with its references. Raises NotFoundError.

        Raises SettingsError for more than _MOST_REFERENCES references.
        """
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
        return LatestVersion(subject, entry, referred, answer.document if answer.is_ok else {})

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
