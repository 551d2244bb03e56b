"""Where a stream's contract comes from: the registry, asked at each batch boundary."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import httpx
import structlog

from tidegate.contracts.errors import NotFoundError, SettingsError, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.privacy.masks import require_key
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import Answer, Request, authorization, send
from tidegate.contracts.registry_client.subject_schemas import SubjectSchemas
from tidegate.spark_jobs.settings import ReconcileSettings, RegistrySettings

log = structlog.get_logger()

_ASK_AGAIN_SECONDS = 0.5
_FIRST_CONTRACT_SECONDS = 300.0
"""How long a stream that has no contract yet waits for the registry, unless the settings say otherwise."""
_WARN_AGAIN_SECONDS = 300.0


class RegistryGone(Unavailable):
    """The registry has been away for longer than the last good contract may serve: the stream ends."""


def registry_auth(settings: RegistrySettings) -> Callable[[httpx.Request], httpx.Request] | None:
    """Return what the job presents to the registry; None without credentials. Raises SettingsError for half of them."""
    user, password, token = settings.registry_user, settings.registry_password, settings.registry_token
    if (user is None) != (password is None) or (user is not None and token is not None):
        raise SettingsError(
            "the registry takes a user and a password, or a token: set TIDEGATE_REGISTRY_USER and "
            "TIDEGATE_REGISTRY_PASSWORD, or TIDEGATE_REGISTRY_TOKEN"
        )
    return authorization(user, password, token)


def registry_http(settings: RegistrySettings, url: str, timeout_seconds: float) -> httpx.Client:
    """Open the connections to a registry, with the credentials of the settings. Raises SettingsError for half of them."""
    return httpx.Client(base_url=url, timeout=timeout_seconds, auth=registry_auth(settings))


def ask_registry(client: httpx.Client, path: str) -> Any:
    """Ask for the JSON under a path. Raises NotFoundError, Unavailable, or httpx.HTTPError."""
    answer = send(client, Request("GET", path))
    if answer.is_missing:
        raise NotFoundError(f"the registry has no {path.partition('?')[0]}")
    if not answer.is_ok:
        # Such as a key that is taken no more: asked about again.
        raise Unavailable(f"the registry answered {answer.status} to {path.partition('?')[0]}")
    return json.loads(answer.content)


def compile_answer(answer: Answer, name: str, mask_key: MaskKey | None) -> EnforcementPlan:
    """Compile the contract of an answer. Raises ContractError, or SettingsError for masks without a key."""
    contract = requests.read_contract(answer, name)
    require_key(contract, mask_key)
    return compile_plan(contract, mask_key)


class ContractSource(Protocol):
    """Gives the contract in force, compiled."""

    def current(self) -> EnforcementPlan:
        """Return the plan for the batch that begins now. Raises Unavailable, NotFoundError or ContractError."""
        ...


class RegistryContract:
    """The latest enforced version of one contract in the registry.

    An unchanged contract costs one conditional request (If-None-Match), and two small ones more when its records name
    the schemas that they were written with. While the registry does not answer, the last good contract serves, with the
    schemas known so far: for `grace_seconds`, or without end when that is None. A stream that has no contract yet waits
    as long, or for five minutes. After that `current` raises RegistryGone. A registry that answers but has no such contract is no outage: NotFoundError.
    Setting `stopping` ends the wait. A contract that hashes fields needs `mask_key`: SettingsError without.
    """

    def __init__(
        self,
        client: httpx.Client,
        contract_id: str,
        grace_seconds: float | None,
        stopping: threading.Event,
        mask_key: MaskKey | None = None,
    ) -> None:
        self._client = client
        self._contract_id = contract_id
        self._grace_seconds = grace_seconds
        self._stopping = stopping
        self._mask_key = mask_key
        self._plan: EnforcementPlan | None = None
        self._writers: SubjectSchemas | None = None
        self._etag: str | None = None
        self._last_answer = time.monotonic()
        self._warned_at: float | None = None

    @property
    def is_away(self) -> bool:
        """Whether the registry did not answer when it was asked last, and an earlier contract serves."""
        return self._warned_at is not None and self._plan is not None

    def current(self) -> EnforcementPlan:
        """Ask the registry; give the last good plan when it is away."""
        while True:
            try:
                return self._accept(self._ask())
            except (httpx.HTTPError, Unavailable) as error:
                self._note_outage(error)
                if self._plan is not None:
                    return (
                        self._plan
                        if self._writers is None
                        else self._plan.with_writers(self._writers.known())
                    )
                if self._stopping.wait(_ASK_AGAIN_SECONDS):
                    raise Unavailable("stopped while waiting for the registry") from error

    def _accept(self, answer: Answer) -> EnforcementPlan:
        plan = self._contract_of(answer)
        if not plan.needs_writers:
            self._writers = None
            self._note_answer()
            return plan
        topic = plan.contract.topic
        if self._writers is None or self._writers.topic != topic:
            self._writers = SubjectSchemas(partial(ask_registry, self._client), topic)
        writers = self._writers.current()
        self._note_answer()
        return plan.with_writers(writers)

    def _note_answer(self) -> None:
        self._last_answer = time.monotonic()
        if self._warned_at is not None:
            log.info("registry_returned", stream=self._contract_id)
            self._warned_at = None

    def _contract_of(self, answer: Answer) -> EnforcementPlan:
        if answer.status == httpx.codes.NOT_MODIFIED and self._plan is not None:
            return self._plan
        plan = compile_answer(answer, self._contract_id, self._mask_key)
        self._plan, self._etag = plan, answer.etag
        log.info(
            "contract_loaded",
            stream=self._contract_id,
            version=plan.contract.version,
            fingerprint=plan.fingerprint,
        )
        return plan

    def _ask(self) -> Answer:
        held = self._etag if self._plan else None
        answer = send(self._client, requests.contract_version(self._contract_id, "latest", held))
        match answer.status:
            case httpx.codes.OK | httpx.codes.NOT_MODIFIED:
                return answer
            case httpx.codes.NOT_FOUND:
                raise NotFoundError(
                    f"the registry at {self._client.base_url} has no active version of contract "
                    f"{self._contract_id}; publish one: tidegate publish FILE"
                )
            case httpx.codes.UNAUTHORIZED | httpx.codes.FORBIDDEN as status:
                raise self._turned_away(status)
            case status:
                raise Unavailable(f"the registry answered {status}")

    def _turned_away(self, status: int) -> Exception:
        """Say that the job's key is not taken: a wrong setting at the start, an outage of a stream that runs."""
        reason = (
            f"the registry at {self._client.base_url} answers {status} to this job: set TIDEGATE_REGISTRY_TOKEN (or "
            f"TIDEGATE_REGISTRY_USER and TIDEGATE_REGISTRY_PASSWORD) to a key that may publish {self._contract_id}"
        )
        return SettingsError(reason) if self._plan is None else Unavailable(reason)

    def _note_outage(self, error: Exception) -> None:
        now = time.monotonic()
        away_seconds = now - self._last_answer
        grace_seconds = self._grace_seconds
        if grace_seconds is None and self._plan is None:
            grace_seconds = _FIRST_CONTRACT_SECONDS
        if grace_seconds is not None and away_seconds > grace_seconds:
            raise RegistryGone(
                f"the registry at {self._client.base_url} has not answered for {away_seconds:.0f} s ({error}); "
                "start it, or give the stream more time with --registry-grace-seconds"
            ) from error
        if self._warned_at is None or now - self._warned_at > _WARN_AGAIN_SECONDS:
            serving = self._plan.contract.version if self._plan else None
            log.warning(
                "registry_away",
                stream=self._contract_id,
                serving=serving,
                seconds=round(away_seconds),
                grace_seconds=grace_seconds,
            )
            self._warned_at = now


def mask_key_of(settings: RegistrySettings) -> MaskKey | None:
    """Return the key that makes the tokens of hashed fields, if the settings have one."""
    secret = settings.mask_key
    return None if secret is None else MaskKey.of(secret.get_secret_value())


def find_plan(settings: ReconcileSettings, contract_id: str) -> EnforcementPlan | None:
    """Ask the registry once for a contract; None when the settings name no registry. Raises as `RegistryContract` does."""
    if settings.registry_url is None:
        return None
    with registry_http(settings, settings.registry_url, settings.registry_timeout_seconds) as client:
        found = RegistryContract(client, contract_id, 0, threading.Event(), mask_key_of(settings))
        return found.current()
