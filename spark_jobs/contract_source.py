"""The source of a stream's contract: the registry, asked at each batch boundary."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import httpx
import structlog

from tidegate.contracts.document.semver import precedence
from tidegate.contracts.errors import (
    CredentialsError,
    NotFoundError,
    SettingsError,
    StreamStopped,
    Unavailable,
)
from tidegate.contracts.formats.writers import WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import RegistryAnswer, Request, authorization, send
from tidegate.contracts.registry_client.subject_schemas import SubjectSchemas
from tidegate.spark_jobs.contract_groups import GroupSource, compile_answer
from tidegate.spark_jobs.settings import ReconcileSettings, RegistrySettings

log = structlog.get_logger()

_RETRY_SECONDS = 0.5
_FIRST_CONTRACT_SECONDS = 300.0
"""How long a stream without a contract waits for the registry if the settings have no grace period."""
_WARN_AGAIN_SECONDS = 300.0
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?")


class RegistryGone(Unavailable):
    """The registry has been unreachable for longer than the grace period: the stream ends."""


class ContractNotFoundError(NotFoundError):
    """The registry has no version of the contract that is enforced."""


def registry_auth(settings: RegistrySettings) -> Callable[[httpx.Request], httpx.Request] | None:
    """Return the credentials for the registry; None if there are none. Raises SettingsError for incomplete ones."""
    user, password, token = settings.registry_user, settings.registry_password, settings.registry_token
    if (user is None) != (password is None) or (user is not None and token is not None):
        raise SettingsError(
            "the registry takes a user and a password, or a token: set TIDEGATE_REGISTRY_USER and "
            "TIDEGATE_REGISTRY_PASSWORD, or TIDEGATE_REGISTRY_TOKEN"
        )
    return authorization(user, password, token)


def registry_http(settings: RegistrySettings, url: str, timeout_seconds: float) -> httpx.Client:
    """Return an HTTP client for a registry, with the settings' credentials. Raises SettingsError if incomplete."""
    return httpx.Client(base_url=url, timeout=timeout_seconds, auth=registry_auth(settings))


def ask_registry(client: httpx.Client, path: str) -> Any:
    """Return the parsed JSON of a path. Raises NotFoundError, Unavailable, or httpx.HTTPError."""
    answer = send(client, Request("GET", path))
    if answer.is_missing:
        raise NotFoundError(f"the registry has no {path.partition('?')[0]}")
    if not answer.is_ok:
        # Also for a revoked key: the caller retries later.
        raise Unavailable(f"the registry answered {answer.status} to {path.partition('?')[0]}")
    return json.loads(answer.content)


class ContractSource(Protocol):
    """A source of the enforced contract, compiled."""

    def current(self) -> EnforcementPlan:
        """Return the plan for the batch that begins now. Raises Unavailable, NotFoundError, StreamStopped or ContractError."""
        ...

    def require_published(self, judged_by: str | None) -> None:
        """Raise StreamStopped if the last batch's version (`id@version`) was lost and an older one is enforced."""
        ...


class RegistryContract:
    """The latest enforced version of one contract in the registry.

    An unchanged contract costs one conditional request (If-None-Match). Records that name their writer's schema cost
    two more small requests, and compatibility groups of the subject one more. While the registry does not answer, the
    last contract and the known schemas are used: for `grace_seconds`, or without limit if that is None. A stream
    without a contract waits for `grace_seconds`, or for five minutes if that is None. Then `current` raises
    RegistryGone.

    The registry's own 404 raises ContractNotFoundError. Any other 404, such as a proxy's, counts as an outage if the
    stream has a contract. Setting `stopping` ends the wait. Without `mask_key` a contract that hashes fields raises
    SettingsError.
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
        self._writer_schemas: SubjectSchemas | None = None
        self._groups: GroupSource | None = None
        self._grouped: EnforcementPlan | None = None
        self._has_groups = False
        self._etag: str | None = None
        self._last_answer = time.monotonic()
        self._warned_at: float | None = None

    @property
    def is_away(self) -> bool:
        """Return whether the registry did not answer the last request, and an earlier contract is used."""
        return self._warned_at is not None and self._plan is not None

    def current(self) -> EnforcementPlan:
        """Fetch the contract; return the last plan if the registry is unreachable."""
        while True:
            try:
                return self._prepare(self._fetch_latest())
            except (httpx.HTTPError, Unavailable) as error:
                self._record_outage(error)
                plan = self._held
                if plan is not None and self._writer_schemas is not None:
                    return plan.with_writers(self._writer_schemas.known())
                if plan is not None:
                    return plan
                if self._stopping.wait(_RETRY_SECONDS):
                    raise Unavailable("stopped while waiting for the registry") from error

    def require_published(self, judged_by: str | None) -> None:
        """Raise StreamStopped if the registry has lost the version of the last batch and enforces an older one.

        A retired version is still known. If the registry does not answer, nothing is raised.
        """
        version = (judged_by or "").rpartition("@")[2]
        plan = self._plan
        if plan is None or not _VERSION.fullmatch(version):
            return
        if precedence(version) <= precedence(plan.contract.version):
            return  # the enforced version is not older
        try:
            answer = send(self._client, requests.contract_version(self._contract_id, version))
        except httpx.HTTPError as error:
            log.warning("version_unknown", stream=self._contract_id, version=version, error=str(error))
            return
        if answer.is_unknown:
            raise StreamStopped(
                f"the registry at {self._client.base_url} has no {judged_by}, by which the last batch of this stream was "
                f"judged, and enforces {plan.contract.version}: its database was restored or replaced. To go on, publish "
                f"{version} again: tidegate publish FILE"
            )

    def _prepare(self, answer: RegistryAnswer) -> EnforcementPlan:
        """Return the plan of an answer, with the compatibility groups and writer schemas that its records need."""
        plan = self._plan_of(answer)
        self._has_groups = answer.groups_by is not None
        if not self._has_groups:
            self._groups = self._grouped = None
        if not self._has_groups and not plan.needs_writers:
            self._writer_schemas = None
            self._record_answer()
            return plan
        writers = self._writers(plan)
        if self._has_groups:
            # Fetched after the schemas, so that the groups contain every schema of that list.
            plan = self._grouped = self._grouped_plan(plan)
        self._record_answer()
        return plan.with_writers(writers)

    @property
    def _held(self) -> EnforcementPlan | None:
        """Return the plan to use while the registry is away, or None; with groups, only a plan with all groups."""
        return self._grouped if self._has_groups else self._plan

    def _writers(self, plan: EnforcementPlan) -> WriterSchemas:
        topic = plan.contract.topic
        if self._writer_schemas is None or self._writer_schemas.topic != topic:
            self._writer_schemas = SubjectSchemas(partial(ask_registry, self._client), topic)
        return self._writer_schemas.current()  # raises if the registry does not answer

    def _grouped_plan(self, plan: EnforcementPlan) -> EnforcementPlan:
        if self._groups is None:
            self._groups = GroupSource(self._client, self._contract_id, self._mask_key)
        return self._groups.current(plan)

    def _record_answer(self) -> None:
        self._last_answer = time.monotonic()
        if self._warned_at is not None:
            log.info("registry_returned", stream=self._contract_id)
            self._warned_at = None

    def _plan_of(self, answer: RegistryAnswer) -> EnforcementPlan:
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

    def _fetch_latest(self) -> RegistryAnswer:
        etag = self._etag if self._plan else None
        answer = send(self._client, requests.contract_version(self._contract_id, "latest", etag))
        match answer.status:
            case httpx.codes.OK | httpx.codes.NOT_MODIFIED:
                return answer
            case httpx.codes.NOT_FOUND if answer.is_unknown or self._plan is None:
                raise ContractNotFoundError(
                    f"the registry at {self._client.base_url} has no active version of contract "
                    f"{self._contract_id}; publish one: tidegate publish FILE"
                )
            case httpx.codes.UNAUTHORIZED | httpx.codes.FORBIDDEN as status:
                raise self._unauthorized(status)
            case status:
                raise Unavailable(f"the registry answered {status}")

    def _unauthorized(self, status: int) -> Exception:
        """Return the error for a rejected key: CredentialsError for a stream without a contract, else Unavailable."""
        reason = (
            f"the registry at {self._client.base_url} answers {status} to this job: set TIDEGATE_REGISTRY_TOKEN (or "
            f"TIDEGATE_REGISTRY_USER and TIDEGATE_REGISTRY_PASSWORD) to a key with the role reporter for {self._contract_id}"
        )
        return CredentialsError(reason) if self._plan is None else Unavailable(reason)

    def _record_outage(self, error: Exception) -> None:
        """Log an outage, at most every five minutes. Raises RegistryGone after the grace period."""
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
    """Return the key for the tokens of hashed fields; None if the settings have none."""
    secret = settings.mask_key
    return None if secret is None else MaskKey.of(secret.get_secret_value())


def find_plan(settings: ReconcileSettings, contract_id: str) -> EnforcementPlan | None:
    """Fetch and compile a contract once; None if the settings have no registry. Raises as `RegistryContract` does."""
    if settings.registry_url is None:
        return None
    with registry_http(settings, settings.registry_url, settings.registry_timeout_seconds) as client:
        found = RegistryContract(client, contract_id, 0, threading.Event(), mask_key_of(settings))
        return found.current()
