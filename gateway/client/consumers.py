"""A client for consumers: who reads a contract's records, what a change breaks, who agreed to it."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from tidegate.contracts.document.load import LoadedContract, dump_contract
from tidegate.contracts.errors import ContractError, NotFoundError, Problem, SettingsError
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.http.models.answers import ContractDetail
from tidegate.gateway.http.models.changes import (
    AcknowledgementInfo,
    ChangeInfo,
    ConsumerInfo,
    ConsumerList,
    ProposalInfo,
    ProposalList,
)

_CONTRACTS = "/api/v1/contracts"

M = TypeVar("M", bound=BaseModel)


class ConsumerClient(RegistryClient):
    """Asks a registry about consumers; use it in a `with` statement. Every call raises Unavailable, SettingsError."""

    def consumers(self, contract_id: str) -> tuple[ConsumerInfo, ...]:
        """List who reads a contract's records. Raises NotFoundError."""
        return self._read("GET", f"{_of(contract_id)}/consumers", ConsumerList).consumers

    def contract(self, contract_id: str) -> ContractDetail:
        """Show a contract's versions, the deprecated ones with those who still read them. Raises NotFoundError."""
        return self._read("GET", _of(contract_id), ContractDetail)

    def register(
        self, contract_id: str, consumer_id: str, wanted: dict[str, Any]
    ) -> tuple[ConsumerInfo, bool]:
        """Register a consumer, or change it; says too whether it is new. Raises NotFoundError, ContractError."""
        path = f"{_of(contract_id)}/consumers/{quote(consumer_id, safe='')}"
        answer = self._ask("PUT", path, json.dumps(wanted).encode())
        return self._model(answer, ConsumerInfo), answer.status_code == HTTPStatus.CREATED

    def remove(self, contract_id: str, consumer_id: str) -> ConsumerInfo:
        """Forget a consumer. Raises NotFoundError, ConflictError for one of the contract's document."""
        return self._read(
            "DELETE", f"{_of(contract_id)}/consumers/{quote(consumer_id, safe='')}", ConsumerInfo
        )

    def acknowledge(self, contract_id: str, agreement: dict[str, Any]) -> tuple[AcknowledgementInfo, bool]:
        """Note an agreement; says too whether it is new. Raises NotFoundError, ConflictError."""
        answer = self._ask("POST", f"{_of(contract_id)}/acknowledgements", json.dumps(agreement).encode())
        return self._model(answer, AcknowledgementInfo), answer.status_code == HTTPStatus.CREATED

    def proposals(self, contract_id: str) -> tuple[ProposalInfo, ...]:
        """List the changes that weaken what is enforced now, approved or not. Raises NotFoundError."""
        return self._read("GET", f"{_of(contract_id)}/approvals", ProposalList).proposals

    def approve(self, contract_id: str, candidate: str) -> ProposalInfo:
        """Approve one change by its fingerprint. Raises NotFoundError, SettingsError for a role too low."""
        content = json.dumps({"candidate": candidate}).encode()
        return self._model(self._ask("POST", f"{_of(contract_id)}/approvals", content), ProposalInfo)

    def reject(self, contract_id: str, candidate: str) -> ProposalInfo:
        """Reject one change by its fingerprint. Raises NotFoundError, SettingsError for a role too low."""
        return self._read("DELETE", f"{_of(contract_id)}/approvals/{quote(candidate, safe='')}", ProposalInfo)

    def what_breaks(self, loaded: LoadedContract) -> ChangeInfo:
        """Return what publishing a document would break. Raises ContractError with the places in the author's files."""
        answer = self._ask("POST", f"{_CONTRACTS}/check", dump_contract(loaded.contract))
        if answer.status_code != HTTPStatus.OK:
            raise self._error(answer, loaded)
        return self._model(answer, ChangeInfo)

    def _read(self, method: str, path: str, model: type[M]) -> M:
        return self._model(self._ask(method, path), model)

    def _model(self, answer: httpx.Response, model: type[M]) -> M:
        try:
            if answer.is_success:
                return model.model_validate_json(answer.content)
            body = json.loads(answer.content)
        except (ValidationError, ValueError) as error:
            raise SettingsError(
                f"{self.url} answers {answer.status_code} in a way that cannot be read here; is it a Tidegate registry?"
            ) from error
        if answer.status_code == HTTPStatus.NOT_FOUND and "detail" in body:
            raise NotFoundError(str(body["detail"]))
        if answer.status_code == HTTPStatus.UNPROCESSABLE_ENTITY and body.get("errors"):
            raise ContractError(tuple(Problem(one["pointer"], one["message"]) for one in body["errors"]))
        raise self._error(answer)


def _of(contract_id: str) -> str:
    return f"{_CONTRACTS}/{quote(contract_id, safe='')}"
