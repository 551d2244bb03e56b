"""The source of a stream's shadow version: the gateway names the version, and the registry stores it."""

from __future__ import annotations

from functools import partial
from typing import Protocol

import httpx
import structlog

from tidegate.contracts.address_secrets import masked
from tidegate.contracts.errors import TidegateError, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import send
from tidegate.contracts.registry_client.subject_schemas import SubjectSchemas
from tidegate.spark_jobs.contract_groups import compile_answer
from tidegate.spark_jobs.contract_source import ask_registry
from tidegate.spark_jobs.worker.shadow import Shadow

log = structlog.get_logger()

_MOST_FAILURES = 3


class ShadowSource(Protocol):
    """Source of the shadow: the version that judges records in addition to the enforced one."""

    def of(self, version: str | None, active: EnforcementPlan, now: int, /) -> Shadow | None:
        """Return the shadow of the batch that begins now, or None. Never raises."""
        ...

    def batch_failed(self) -> None:
        """Record that the batch with the last returned shadow could not be judged."""
        ...


class NoShadows:
    """The shadow source of a stream without a gateway. It has no shadow."""

    def of(self, *_asked: object) -> Shadow | None:
        """Return None."""
        return None

    def batch_failed(self) -> None:
        """Do nothing."""


class RegistryShadows:
    """The shadow source of a stream of the registry. It fetches and compiles each version once.

    Errors of the shadow are reported and never raised. A worker that the shadow crashes in native code cannot be
    distinguished from a worker that crashes for another reason. So the batch after a failure is judged without the
    shadow, and after several failures the shadow is off until another version is declared.
    """

    def __init__(self, client: httpx.Client, contract_id: str, mask_key: MaskKey | None = None) -> None:
        self._client = client
        self._contract_id = contract_id
        self._mask_key = mask_key
        self._version: str | None = None
        self._known: EnforcementPlan | Shadow | None = None
        self._writers: SubjectSchemas | None = None
        self._failures = 0
        self._is_left_out = False

    def of(self, version: str | None, active: EnforcementPlan, now: int) -> Shadow | None:
        """Return the shadow of a batch whose time is `now`, in nanoseconds since 1970."""
        if version is None or version == active.contract.version:
            return None
        if version != self._version:
            self._version, self._known, self._writers, self._failures = version, None, None, 0
            self._is_left_out = False
        if self._is_left_out:
            self._is_left_out = self._failures >= _MOST_FAILURES
            return Shadow(
                version, failure="left out of a batch, for the one before could not be judged with it"
            )
        try:
            return self._shadow(version, active, now)
        except (httpx.HTTPError, Unavailable) as error:  # retried at the next batch
            log.warning("shadow_unknown", stream=self._contract_id, version=version, error=str(error))
            return Shadow(version, failure="the registry does not answer, so that it is not known yet")
        except TidegateError as error:
            self._known = Shadow(version, failure=masked(str(error))[:500])
        except Exception as error:  # noqa: BLE001 - no error of the shadow may affect the enforced version
            self._known = Shadow(version, failure=f"it cannot be compiled: {type(error).__name__}")
        log.warning("shadow_failed", stream=self._contract_id, version=version, error=self._known.failure)
        return self._known

    def batch_failed(self) -> None:
        """Omit the shadow from the next batch; after several failures, from all batches."""
        if isinstance(self._known, EnforcementPlan):
            self._failures += 1
            self._is_left_out = True

    def _shadow(self, version: str, active: EnforcementPlan, now: int) -> Shadow:
        if self._known is None:
            self._known = self._compiled(version)
            log.info("shadow_loaded", stream=self._contract_id, version=version)
        if isinstance(self._known, Shadow):
            return self._known
        plan = self._known.with_now(now)
        return Shadow.of(self._with_writers(plan, active) if plan.needs_writers else plan)

    def _compiled(self, version: str) -> EnforcementPlan:
        answer = send(self._client, requests.contract_version(self._contract_id, version))
        if answer.is_passing:
            raise Unavailable(f"the registry answered {answer.status}")
        if not answer.is_ok:
            raise TidegateError(f"the registry answers {answer.status} to the request for version {version}")
        return compile_answer(answer, f"{self._contract_id}@{version}", self._mask_key)

    def _with_writers(self, plan: EnforcementPlan, active: EnforcementPlan) -> EnforcementPlan:
        if active.writers is not None:
            return plan.with_writers(active.writers)
        self._writers = self._writers or SubjectSchemas(
            partial(ask_registry, self._client), plan.contract.topic
        )
        return plan.with_writers(self._writers.current())
