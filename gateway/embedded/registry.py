"""The registry as the embedded run uses it: over HTTP, like everybody else."""

from __future__ import annotations

from http import HTTPStatus

import httpx

from contracts.document import dump_contract
from contracts.errors import ConflictError, TidegateError, Unavailable
from contracts.model import DataContract, Status
from gateway.api.models import ContractList, PublishedContract

_ENFORCED = (Status.ACTIVE, Status.DEPRECATED)
_TIMEOUT_SECONDS = 30


class RegistryClient:
    """Talks to one registry. Every method raises Unavailable when it does not answer."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url

    def is_ready(self) -> bool:
        """Whether the registry and its database answer now."""
        try:
            return self._ask("GET", "/health/ready").is_success
        except Unavailable:
            return False

    def publish(self, contract: DataContract) -> bool:
        """Publish a self-contained contract; return whether it is new.

        Raises ConflictError for a changed document under a used version.
        """
        answer = self._ask("POST", "/api/v1/contracts", dump_contract(contract))
        if not answer.is_success:
            raise _refusal(answer, f"{contract.id} {contract.version} was not published")
        return answer.status_code == HTTPStatus.CREATED

    def enforced(self) -> tuple[PublishedContract, ...]:
        """List the contracts of which a version is enforced, by id (the first thousand)."""
        answer = self._ask("GET", "/api/v1/contracts?limit=1000")
        if not answer.is_success:
            raise _refusal(answer, "the contracts could not be listed")
        listed = ContractList.model_validate_json(answer.content).contracts
        return tuple(contract for contract in listed if contract.status in _ENFORCED)

    def _ask(self, method: str, path: str, document: bytes | None = None) -> httpx.Response:
        headers = {"content-type": "application/json"} if document is not None else {}
        try:
            # A proxy of the environment has no business on loopback.
            with httpx.Client(timeout=_TIMEOUT_SECONDS, trust_env=False) as client:
                return client.request(method, self._base_url + path, content=document, headers=headers)
        except httpx.HTTPError as error:
            raise Unavailable(f"the registry at {self._base_url} does not answer: {error}") from error


def _refusal(answer: httpx.Response, what: str) -> TidegateError:
    """Turn a problem document (RFC 9457) into an error of ours."""
    is_problem = answer.headers.get("content-type", "").startswith("application/problem+json")
    reason = answer.json().get("detail", answer.text) if is_problem else f"status {answer.status_code}"
    kind = ConflictError if answer.status_code == HTTPStatus.CONFLICT else Unavailable
    return kind(f"{what}: {reason}")
