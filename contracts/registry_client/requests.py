"""The requests of the registry's API, and what is read from some answers."""

from __future__ import annotations

from urllib.parse import quote
from uuid import UUID

from pydantic import BaseModel

from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.registry_client.messages import Answer, Request
from tidegate.contracts.stream.control import Heartbeat, StreamEvent, Trip
from tidegate.contracts.stream.reconciliation import ReconciliationResult
from tidegate.contracts.stream.report import BatchReport

CONTRACTS = "/api/v1/contracts"
_STREAMS = "/api/v1/streams"


def contract_path(contract_id: str, *rest: str) -> str:
    """Return the path of a contract, or of what lies below it."""
    return _path(CONTRACTS, contract_id, *rest)


def stream_path(stream: str, *rest: str) -> str:
    """Return the path of a stream, or of what lies below it."""
    return _path(_STREAMS, stream, *rest)


def contract_version(contract_id: str, version: str, etag: str | None = None) -> Request:
    """Ask for the document of a version; `latest` is the highest that is enforced."""
    return Request("GET", contract_path(contract_id, "versions", version), etag=etag)


def control(stream: str, etag: str | None) -> Request:
    """Ask what was decided about a stream."""
    return Request("GET", stream_path(stream, "control"), etag=etag)


def batches(stream: str, limit: int) -> Request:
    """Ask for the newest batch reports of a stream."""
    return Request("GET", f"{stream_path(stream, 'batches')}?limit={limit}")


def heartbeat(stream: str, told: Heartbeat) -> Request:
    """Tell that a stream lives, and what it has in hand."""
    return post(stream_path(stream, "heartbeat"), told)


def event(told: StreamEvent) -> Request:
    """Tell what became of a stream."""
    return post(stream_path(told.stream, "events"), told)


def trip(told: Trip) -> Request:
    """Tell that a batch has spent the error budget."""
    return post(stream_path(told.stream, "trips"), told)


def report(told: BatchReport) -> Request:
    """Tell what a batch contained."""
    return post(stream_path(told.stream, "batches"), told)


def reconciled(stream: str, request: UUID, told: ReconciliationResult) -> Request:
    """Tell the result of a reconciliation."""
    return post(stream_path(stream, "reconciliations", str(request), "result"), told)


class _Batches(BaseModel):
    batches: tuple[BatchReport, ...]


def read_batches(answer: Answer) -> tuple[BatchReport, ...]:
    """Return the reports of an answer to `batches`. Raises ValueError for any other answer."""
    return answer.read(_Batches).batches


def read_contract(answer: Answer, name: str) -> DataContract:
    """Return the contract of an answer to `contract_version`. Raises ContractError, with places under that name."""
    return parse_contract(answer.content, name=f"registry:{name}", read_schema=None).contract


def _path(*parts: str) -> str:
    root, *names = parts
    return "/".join([root, *(quote(name, safe="") for name in names)])


def post(path: str, told: BaseModel) -> Request:
    """Send a value to a path."""
    return Request("POST", path, told.model_dump_json().encode())
