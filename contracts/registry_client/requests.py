"""Build requests to the registry's API, and read some of its answers. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import UUID

from pydantic import BaseModel, Field

from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.document.model import DataContract, Status
from tidegate.contracts.registry_client.messages import RegistryAnswer, Request
from tidegate.contracts.stream.control import Heartbeat, StreamEvent, Trip
from tidegate.contracts.stream.reconciliation import ReconciliationResult
from tidegate.contracts.stream.report import BatchReport

if TYPE_CHECKING:
    # Its bitmaps need a library that the light installation does not bring.
    from tidegate.contracts.stream.replay import ReplayReport

CONTRACTS = "/api/v1/contracts"
_STREAMS = "/api/v1/streams"
WHOAMI = "/api/v1/whoami"
_PAGE_CONTRACTS = 1000
_MOST_CONTRACTS = 100_000


def contract_path(contract_id: str, *rest: str) -> str:
    """Return the path of a contract, or of a resource below it. The parts are percent-encoded."""
    return _path(CONTRACTS, contract_id, *rest)


def streams() -> Request:
    """Build the request for the state of every stream that the key may see."""
    return Request("GET", _STREAMS)


def stream_path(stream: str, *rest: str) -> str:
    """Return the path of a stream, or of a resource below it. The parts are percent-encoded."""
    return _path(_STREAMS, stream, *rest)


def post(path: str, message: BaseModel) -> Request:
    """Build the request that posts a value as JSON."""
    return Request("POST", path, message.model_dump_json().encode())


def contract_version(contract_id: str, version: str, etag: str | None = None) -> Request:
    """Build the request for the document of a version; `latest` is the highest enforced version.

    With `etag` the registry answers 304 if the document is still the same.
    """
    return Request("GET", contract_path(contract_id, "versions", version), etag=etag)


def compatibility_groups(contract_id: str, etag: str | None = None) -> Request:
    """Build the request for the compatibility groups; with `etag` the registry answers 304 if they are still the same."""
    return Request("GET", contract_path(contract_id, "groups"), etag=etag)


def contract_detail(contract_id: str) -> Request:
    """Build the request for the versions of a contract, and whether a job enforces it."""
    return Request("GET", contract_path(contract_id))


def contracts(offset: int, limit: int) -> Request:
    """Build the request for a page of the contracts that the key may read, ordered by id."""
    return Request("GET", f"{CONTRACTS}?offset={offset}&limit={limit}")


def control(stream: str, etag: str | None) -> Request:
    """Build the request for the control of a stream; with `etag` the registry answers 304 if it is still the same."""
    return Request("GET", stream_path(stream, "control"), etag=etag)


def stream(stream: str) -> Request:
    """Build the request for the state of a stream, as its reports tell it."""
    return Request("GET", stream_path(stream))


def batches(stream: str, limit: int, older_than: str | None = None) -> Request:
    """Build the request for the newest batch reports of a stream, or for those that continue an answer."""
    continued = "" if older_than is None else f"&older_than={quote(older_than, safe='')}"
    return Request("GET", f"{stream_path(stream, 'batches')}?limit={limit}{continued}")


def heartbeat(stream: str, message: Heartbeat) -> Request:
    """Build the request that sends a heartbeat of a stream."""
    return post(stream_path(stream, "heartbeat"), message)


def event(message: StreamEvent) -> Request:
    """Build the request that reports an event of a stream."""
    return post(stream_path(message.stream, "events"), message)


def trip(message: Trip) -> Request:
    """Build the request that reports that a batch has exceeded the error budget."""
    return post(stream_path(message.stream, "trips"), message)


def report(message: BatchReport) -> Request:
    """Build the request that reports a batch."""
    return post(stream_path(message.stream, "batches"), message)


def reconciled(stream: str, request: UUID, message: ReconciliationResult) -> Request:
    """Build the request that reports the result of a reconciliation."""
    return post(stream_path(stream, "reconciliations", str(request), "result"), message)


def replay(stream: str, request: UUID) -> Request:
    """Build the request for a replay request of a stream."""
    return Request("GET", stream_path(stream, "replays", str(request), "request"))


def replayed(message: ReplayReport) -> Request:
    """Build the request that reports how far a replay is."""
    return post(stream_path(message.stream, "replays", str(message.request), "progress"), message)


class ListedGroup(BaseModel):
    """A compatibility group: its newest enforced version, if it has one, and the ids of its schemas."""

    group: str
    version: str | None
    schemas: frozenset[int]


class ListedGroups(BaseModel):
    """The compatibility groups of a contract; `newest` is that of the newest enforced version."""

    newest: str | None
    groups: tuple[ListedGroup, ...]


class _Batches(BaseModel):
    batches: tuple[BatchReport, ...]


def read_batches(answer: RegistryAnswer) -> tuple[BatchReport, ...]:
    """Return the reports of an answer to `batches`. Raises ValueError for any other answer."""
    return answer.read(_Batches).batches


class _Older(BaseModel):
    older: str | None = None
    """Missing in the answers of earlier registries, which gave all reports in one."""


def read_older(answer: RegistryAnswer) -> str | None:
    """Return what continues an answer to `batches`; None at the end of the list. Raises ValueError."""
    return answer.read(_Older).older


class _Stream(BaseModel):
    epoch: int = Field(ge=0)


def read_reported_epoch(answer: RegistryAnswer) -> int:
    """Return the highest epoch of the reports of an answer to `stream`. Raises ValueError for any other answer."""
    return answer.read(_Stream).epoch


class ListedContract(BaseModel):
    """An entry in the list of contracts: the contract, and its enforced version or else its highest."""

    id: str
    topic: str
    status: Status
    domain: str | None = None
    fingerprint: str

    @property
    def is_enforced(self) -> bool:
        """Return whether the contract has a version that is enforced."""
        return self.status in {Status.ACTIVE, Status.DEPRECATED}


class ContractPage(BaseModel):
    """One page of the list of contracts; `total` counts all pages."""

    contracts: tuple[ListedContract, ...]
    total: int


def list_contracts(ask: Callable[[Request], RegistryAnswer]) -> tuple[ListedContract, ...]:
    """Return the contracts that the key may read, ordered by id, at most 100,000.

    `ask` sends a request, and raises for an error status. The list is read page by page: if contracts are deleted
    meanwhile, another one may be missing. Raises ValueError for an answer of another form.
    """
    found: dict[str, ListedContract] = {}
    for offset in range(0, _MOST_CONTRACTS, _PAGE_CONTRACTS):
        page = ask(contracts(offset, _PAGE_CONTRACTS)).read(ContractPage)
        found |= {each.id: each for each in page.contracts}
        if offset + _PAGE_CONTRACTS >= page.total:
            break
    return tuple(found.values())


def read_contract(answer: RegistryAnswer, name: str) -> DataContract:
    """Return the contract of an answer to `contract_version`. Raises ContractError, whose places have this name."""
    return parse_contract(answer.content, name=f"registry:{name}", read_schema=None).contract


def _path(*parts: str) -> str:
    root, *names = parts
    return "/".join([root, *(quote(name, safe="") for name in names)])
