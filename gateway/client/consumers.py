"""A client for the consumers of a contract, the changes that break them, and approvals."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tidegate.contracts.document.load import LoadedContract, dump_contract
from tidegate.contracts.errors import ContractError, NotFoundError, Problem, SettingsError
from tidegate.contracts.registry_client.messages import RegistryAnswer, Request
from tidegate.contracts.registry_client.requests import CONTRACTS, contract_path
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

M = TypeVar("M", bound=BaseModel)


class ConsumerClient(RegistryClient):
    """A client for consumers, agreements and approvals; use it in a `with` statement.

    Every call may raise Unavailable or SettingsError.
    """

    def consumers(self, contract_id: str) -> tuple[ConsumerInfo, ...]:
        """Return the consumers of a contract. Raises NotFoundError."""
        return self._read("GET", contract_path(contract_id, "consumers"), ConsumerList).consumers

    def contract(self, contract_id: str) -> ContractDetail:
        """Return a contract with its versions; deprecated ones list their remaining readers. Raises NotFoundError."""
        return self._read("GET", contract_path(contract_id), ContractDetail)

    def register(
        self, contract_id: str, consumer_id: str, wanted: dict[str, Any]
    ) -> tuple[ConsumerInfo, bool]:
        """Register or update a consumer; return it, and whether it is new. Raises NotFoundError, ContractError."""
        path = contract_path(contract_id, "consumers", consumer_id)
        answer = self._ask(Request("PUT", path, json.dumps(wanted).encode()))
        return self._model(answer, ConsumerInfo), answer.status == HTTPStatus.CREATED

    def remove(self, contract_id: str, consumer_id: str) -> ConsumerInfo:
        """Remove a consumer. Raises NotFoundError, ConflictError for a consumer in the contract document."""
        return self._read("DELETE", contract_path(contract_id, "consumers", consumer_id), ConsumerInfo)

    def acknowledge(self, contract_id: str, agreement: dict[str, Any]) -> tuple[AcknowledgementInfo, bool]:
        """Store an agreement; return it, and whether it is new. Raises NotFoundError, ConflictError."""
        path = contract_path(contract_id, "acknowledgements")
        answer = self._ask(Request("POST", path, json.dumps(agreement).encode()))
        return self._model(answer, AcknowledgementInfo), answer.status == HTTPStatus.CREATED

    def proposals(self, contract_id: str) -> tuple[ProposalInfo, ...]:
        """Return the changes that weaken the enforced contract, approved or not. Raises NotFoundError."""
        return self._read("GET", contract_path(contract_id, "approvals"), ProposalList).proposals

    def approve(self, contract_id: str, candidate: str) -> ProposalInfo:
        """Approve a change by its fingerprint. Raises NotFoundError, SettingsError if the role is too low."""
        content = json.dumps({"candidate": candidate}).encode()
        request = Request("POST", contract_path(contract_id, "approvals"), content)
        return self._model(self._ask(request), ProposalInfo)

    def reject(self, contract_id: str, candidate: str) -> ProposalInfo:
        """Reject a change by its fingerprint. Raises NotFoundError, SettingsError if the role is too low."""
        return self._read("DELETE", contract_path(contract_id, "approvals", candidate), ProposalInfo)

    def what_breaks(self, loaded: LoadedContract) -> ChangeInfo:
        """Return what publishing a document would break. Raises ContractError with positions in the author's files."""
        answer = self._ask(Request("POST", f"{CONTRACTS}/check", dump_contract(loaded.contract)))
        if not answer.is_ok:
            raise self._error(answer, loaded)
        return self._model(answer, ChangeInfo)

    def _read(self, method: str, path: str, model: type[M]) -> M:
        return self._model(self._ask(Request(method, path)), model)

    def _model(self, answer: RegistryAnswer, model: type[M]) -> M:
        """Parse the body of a response. Raises the error for its status."""
        try:
            if answer.is_success:
                return answer.read(model)
            body = json.loads(answer.content)
        except (ValidationError, ValueError) as error:
            raise SettingsError(
                f"{self.url} answers {answer.status} in a way that cannot be read here; is it a Tidegate registry?"
            ) from error
        if answer.is_missing and "detail" in body:
            raise NotFoundError(str(body["detail"]))
        if answer.status == HTTPStatus.UNPROCESSABLE_ENTITY and body.get("errors"):
            raise ContractError(tuple(Problem(one["pointer"], one["message"]) for one in body["errors"]))
        raise self._error(answer)
