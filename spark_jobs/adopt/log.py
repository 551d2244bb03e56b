"""The registry as adoptions use it: it stores an adoption before it is carried out, and knows the reported epochs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event
from typing import Any, Final

import httpx

from tidegate.contracts.errors import ConflictError, CredentialsError, NotFoundError, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import RegistryAnswer, Request, send
from tidegate.contracts.stream.adoption import Adoption
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.replay import FEWER_RECORDS, MOST_REQUEST_BYTES
from tidegate.spark_jobs.contract_source import RegistryContract, registry_http
from tidegate.spark_jobs.settings import JobSettings

_REGISTRY_SECONDS: Final = 30.0


def adoption_of(changed: Ledger, stream: str, sink: str, **further: Any) -> Adoption:
    """Return the adoption to store for a change of an existing ledger to `changed`; `further` sets more fields."""
    totals = changed.totals
    return Adoption(
        id=changed.adopted,
        stream=stream,
        topic=changed.topic,
        sink=sink,
        ledger=changed.name,
        at=datetime.now(UTC),
        epoch=changed.epoch,
        begin=changed.begin,
        end=changed.end,
        written=totals.written,
        quarantined=totals.quarantined,
        absent=totals.absent,
        **{"accepted_loss": 0, **further},
    )


@contextmanager
def open_registry(settings: JobSettings, stream: str) -> Iterator[tuple[EnforcementPlan, AdoptionLog]]:
    """Yield the enforced contract of a stream and its log of adoptions.

    Raises NotFoundError for a stream without a contract, SettingsError, Unavailable.
    """
    secret = settings.mask_key
    mask_key = None if secret is None else MaskKey.of(secret.get_secret_value())
    with registry_http(settings, settings.registry_url, _REGISTRY_SECONDS) as client:
        plan = RegistryContract(client, stream, 0.0, Event(), mask_key).current()
        yield plan, AdoptionLog(client, stream)


_ADVICE: Final[Mapping[int, str]] = {
    httpx.codes.CONFLICT: "Look at what the registry has now, and decide again",
    httpx.codes.REQUEST_ENTITY_TOO_LARGE: (
        f"R{FEWER_RECORDS[1:]}. If a proxy has this limit, raise it to {MOST_REQUEST_BYTES / 2**20:.0f} MiB"
    ),
    httpx.codes.UNPROCESSABLE_ENTITY: (
        "Correct what it names. If you gave nothing of that, compare the releases of registry and command "
        "(tidegate --version)"
    ),
}
"""Advice for each status with which the registry rejects a request."""


def _said(answer: RegistryAnswer) -> Iterator[str]:
    """Yield the registry's reasons for a rejection; each validation error with its JSON Pointer."""
    if detail := answer.document.get("detail"):
        yield str(detail)
    errors = answer.document.get("errors")
    for each in errors if isinstance(errors, list) else ():
        yield f"{each.get('pointer')} {each.get('message')}" if isinstance(each, dict) else str(each)


class AdoptionLog:
    """The adoptions of one stream in the registry's audit log."""

    def __init__(self, client: httpx.Client, stream: str) -> None:
        self._client = client
        self._stream = stream

    def last_epoch(self) -> int:
        """Return the epoch of the last reported batch; 0 if there is none. Raises Unavailable, CredentialsError."""
        answer = self._ask(Request("GET", requests.stream_path(self._stream)))
        if answer.is_missing:
            return 0
        required(self._client, answer, "say what was reported of the stream")
        try:
            return int(answer.document["epoch"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable() from error

    def was_rewound(self, ledger: str) -> bool:
        """Return whether the registry knows of a rewind of this ledger. Raises Unavailable, CredentialsError."""
        answer = self._ask(Request("GET", requests.stream_path(self._stream, "adoptions")))
        if answer.is_missing:
            return False
        required(self._client, answer, "say what was adopted")
        try:
            return any(
                each["adoption"].get("kind") == "rewind" and each["adoption"]["ledger"] == ledger
                for each in answer.document["adoptions"]
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._unreadable() from error

    def keep(self, adoption: Adoption) -> None:
        """Store an adoption, before it is carried out.

        Raises NotFoundError, CredentialsError, ConflictError or Unavailable if it is not stored. Then the caller must
        not carry it out.
        """
        answer = self._ask(requests.post(requests.stream_path(adoption.stream, "adoptions"), adoption))
        if answer.is_missing:
            raise NotFoundError(
                f"the registry at {self._client.base_url} keeps no adoptions of {adoption.stream}: no contract is published "
                "under that id, or it is an older version of Tidegate; nothing was changed"
            )
        required(self._client, answer, "write the adoption down")

    def _ask(self, request: Request) -> RegistryAnswer:
        try:
            return send(self._client, request)
        except httpx.HTTPError as error:
            raise Unavailable(
                f"the registry at {self._client.base_url} does not answer ({error}), and nothing is adopted without its log "
                "of changes; nothing was changed"
            ) from error

    def _unreadable(self) -> Unavailable:
        return Unavailable(
            f"the registry at {self._client.base_url} answers in a way that cannot be read here; is it another version of "
            "Tidegate?"
        )


def required(client: httpx.Client, answer: RegistryAnswer, what: str) -> None:
    """Require that the registry has carried out a request; `what` completes "refuses to".

    Raises CredentialsError, ConflictError for a rejection that a retry would not change, Unavailable otherwise.
    """
    if answer.is_success:
        return
    if answer.status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
        raise CredentialsError(
            f"the registry at {client.base_url} does not let you {what} ({answer.status}): set "
            "TIDEGATE_REGISTRY_TOKEN to a key of yours with the role approver; nothing was changed"
        )
    if answer.status in _ADVICE:
        refused = f"the registry at {client.base_url} refuses to {what} ({answer.status})"
        said = "; ".join(_said(answer)) or answer.reason
        raise ConflictError(f"{refused}: {said}; nothing was changed. {_ADVICE[answer.status]}")
    raise Unavailable(
        f"the registry at {client.base_url} answered {answer.status} when asked to {what}; nothing was changed"
    )
