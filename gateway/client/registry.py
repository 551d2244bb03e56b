"""A client for the registry, used by the command line and the embedded runtime."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from tidegate.contracts.document.load import LoadedContract, dump_contract, parse_contract
from tidegate.contracts.document.model import Consumer, DataContract, Status
from tidegate.contracts.errors import (
    ConflictError,
    ContractError,
    CredentialsError,
    NotFoundError,
    Problem,
    SettingsError,
    Unavailable,
)
from tidegate.contracts.registry_client.messages import RegistryAnswer, Request, send
from tidegate.contracts.registry_client.requests import (
    CONTRACTS,
    WHOAMI,
    batches,
    contract_path,
    contract_version,
    list_contracts,
    post,
    read_batches,
    read_older,
    stream_path,
    streams,
)
from tidegate.contracts.registry_client.subject_schemas import SubjectSchemas
from tidegate.contracts.stream.control import RecordPosition, StreamControl
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.stream.shadow import ShadowFindings
from tidegate.contracts.stream.table_audit import TableAudit
from tidegate.gateway.client.credentials import RegistryCredentials, credentials_for
from tidegate.gateway.http.models.answers import StreamInfo, StreamList

M = TypeVar("M", bound=BaseModel)

_TIMEOUT_SECONDS = 30.0
_MOST_BATCHES = 10_000
_NO_BROKER = "urn:tidegate:problem:no-broker"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class PublicationAnswer:
    """The response of the registry to a publication. `is_new` is False if the version was already published."""

    contract_id: str
    version: str
    registry_id: int
    is_new: bool
    status: str
    enforcement: dict[str, Any] | None
    """`is_enforced` and `seen_at`; None from an older registry."""
    note: str | None
    """The parts of the version that are not enforced, with the reasons, one per line; None if there are none."""


@dataclass(frozen=True, slots=True)
class Enforced:
    """A contract with an enforced version, and its topic."""

    contract_id: str
    topic: str


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """A version in the registry, without its document. `note` lists the parts that are not enforced, if any."""

    version: str
    status: Status
    fingerprint: str
    note: str | None = None


class RegistryClient:
    """A client for one registry; use it in a `with` statement. Every call but `is_ready` raises Unavailable if it does not respond.

    Without `credentials`, the client uses those of the environment, or those that `tidegate login` stored for the URL.
    """

    def __init__(self, url: str, credentials: RegistryCredentials | None = None) -> None:
        self.url = url.rstrip("/")
        self._is_registry = False
        self._credentials = credentials or credentials_for(self.url)
        try:
            # Proxy settings of the environment must not apply to loopback addresses.
            trust_env = httpx.URL(self.url).host not in LOOPBACK
            self._http = httpx.Client(
                base_url=self.url,
                auth=self._credentials.auth(),
                timeout=_TIMEOUT_SECONDS,
                trust_env=trust_env,
            )
        except httpx.InvalidURL as error:
            raise SettingsError(f"{url} is not the URL of a registry: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def publish(self, loaded: LoadedContract) -> PublicationAnswer:
        """Publish a contract that compiles.

        Raises ContractError with positions in the author's files, and ConflictError with a message on what to do.
        """
        answer = self._ask(Request("POST", CONTRACTS, dump_contract(loaded.contract)))
        if answer.status in {HTTPStatus.OK, HTTPStatus.CREATED}:
            body = answer.document
            is_new = answer.status == HTTPStatus.CREATED
            return PublicationAnswer(
                body["id"],
                body["version"],
                body["registry_id"],
                is_new,
                body["status"],
                body.get("enforcement"),
                body.get("note"),
            )
        raise self._error(answer, loaded)

    def enforced(self) -> tuple[Enforced, ...]:
        """Return the contracts with an active or deprecated version, ordered by id."""
        return tuple(Enforced(one.id, one.topic) for one in list_contracts(self._listed) if one.is_enforced)

    def _listed(self, request: Request) -> RegistryAnswer:
        answer = self._ask(request)
        if not answer.is_ok:
            raise self._error(answer)
        return answer

    def versions(self, contract_id: str) -> tuple[PublishedVersion, ...]:
        """Return the versions of a contract, highest first; an empty tuple for an unknown contract."""
        answer = self._ask(Request("GET", contract_path(contract_id)))
        if answer.is_unknown:
            self._require_registry()
            return ()
        if not answer.is_ok:
            raise self._error(answer)
        listed = answer.document["versions"]
        return tuple(
            PublishedVersion(one["version"], Status(one["status"]), one["fingerprint"], one.get("note"))
            for one in listed
        )

    def require_published(self, contract: DataContract, fingerprint: str) -> None:
        """Raise SettingsError unless this version of the contract is published with this fingerprint."""
        name = f"{contract.id} {contract.version}"
        found = {each.version: each.fingerprint for each in self.versions(contract.id)}
        if contract.version not in found:
            raise SettingsError(f"{name} is not published at {self.url}: publish it, or leave out --registry")
        if found[contract.version] != fingerprint:
            raise SettingsError(
                f"{self.url} has {name} with other content: raise the version and publish it, or leave out --registry"
            )

    def keep_table_audit(self, audit: TableAudit) -> str:
        """Send the result of a table audit; return the URL of its page. Raises NotFoundError, ConflictError."""
        answer = self._ask(post(contract_path(audit.contract_id, "table-audits"), audit))
        if not answer.is_success:
            self._require_found(answer)
        return f"{self.url}/desk/contracts/{audit.contract_id}/table-audits/{audit.id}"

    def readers(self, contract_id: str) -> tuple[Consumer, ...]:
        """Return the consumers that were registered separately from the contract's documents.

        The tuple is empty for an unknown contract. Raises SettingsError for a consumer that cannot be parsed.
        """
        answer = self._ask(Request("GET", contract_path(contract_id, "consumers")))
        if answer.is_missing:
            return ()  # older registries do not have this path
        if not answer.is_ok:
            raise self._error(answer)
        names = Consumer.model_fields.keys()
        apart = (one for one in answer.document.get("consumers", ()) if one["registered_by"] is not None)
        try:
            return tuple(
                Consumer.model_validate({name: value for name, value in one.items() if name in names})
                for one in apart
            )
        except ValidationError as error:
            raise SettingsError(
                f"{self.url} keeps a consumer that cannot be read here; is it a newer Tidegate?"
            ) from error

    def fetch(self, contract_id: str, version: str) -> LoadedContract:
        """Return one version, or for `latest` the highest enforced one.

        Raises NotFoundError, and SettingsError for a document that this version of Tidegate cannot parse.
        """
        answer = self._require_found(self._ask(contract_version(contract_id, version)))
        name = f"registry:{contract_id}@{version}"
        try:
            return parse_contract(answer.content, name=name, read_schema=None)
        except ContractError as error:
            raise SettingsError(
                f"{self.url} serves a contract that cannot be read here; is it a newer Tidegate? {error}"
            ) from error

    def schemas_of(self, topic: str) -> SubjectSchemas:
        """Return the reader of the schemas that the records of a topic may refer to."""
        return SubjectSchemas(self._json_at, topic)

    def streams(self) -> tuple[StreamInfo, ...]:
        """Return the state of every stream that the credentials permit to see, ordered by name."""
        return self._parsed(self._ask(streams()), StreamList).streams

    def stream(self, stream: str) -> StreamInfo:
        """Return the state of one stream. Raises NotFoundError."""
        return self._parsed(self._ask(Request("GET", stream_path(stream))), StreamInfo)

    def pause(self, stream: str, reason: str | None) -> StreamControl:
        """Pause a stream; return its new control state. Raises NotFoundError."""
        return self._decide(stream, "pause", {"reason": reason})

    def resume(self, stream: str, *, accept_batch: bool, decisions: int | None = None) -> StreamControl:
        """Resume a stream; return its new control state.

        `accept_batch` lets the batch that exceeded the error budget pass. `decisions` is only needed after a restore of
        the registry's database that lost some: the number of decisions that the job knows.

        Raises NotFoundError, and ConflictError if there is no batch to accept.
        """
        restored = {} if decisions is None else {"decisions": decisions}
        return self._decide(stream, "resume", {"accept_batch": accept_batch, **restored})

    def quarantine_record(self, stream: str, record: RecordPosition) -> StreamControl:
        """Request that one record is quarantined; return the stream's new control state. Raises NotFoundError."""
        return self._decide(stream, "quarantine-record", record.model_dump(mode="json"))

    def declare_shadow(self, stream: str, version: str | None) -> StreamControl:
        """Set the shadow version of a stream (None: no shadow); return its new control state.

        Raises NotFoundError, ConflictError.
        """
        return self._decide(stream, "shadow", {"version": version})

    def shadow(self, stream: str) -> ShadowFindings:
        """Return the findings of a stream's shadow version. Raises NotFoundError if it has not processed a batch."""
        return self._parsed(self._ask(Request("GET", stream_path(stream, "shadow"))), ShadowFindings)

    def batches(self, stream: str) -> tuple[BatchReport, ...]:
        """Return the batch reports of a stream in the last day, newest first, at most _MOST_BATCHES.

        The tuple is empty for an unknown stream.
        """
        found: tuple[BatchReport, ...] = ()
        older: str | None = None
        while True:
            answer = self._ask(batches(stream, _MOST_BATCHES - len(found), older))
            if answer.is_missing:
                return ()
            if not answer.is_ok:
                raise self._error(answer)
            found += read_batches(answer)
            older = read_older(answer)
            if older is None or len(found) >= _MOST_BATCHES:
                return found

    def promotion(self, contract_id: str, version: str) -> dict[str, Any]:
        """Return what promoting a version would change, as the JSON object of the API. Raises NotFoundError."""
        path = contract_path(contract_id, "versions", version, "promotion")
        return self._require_found(self._ask(Request("GET", path))).document

    def promote(self, contract_id: str, version: str) -> None:
        """Make a version active. Raises NotFoundError, and ConflictError if it breaks the enforced version."""
        path = contract_path(contract_id, "versions", version, "status")
        self._require_found(self._ask(Request("POST", path, b'{"status": "active"}')))

    def whoami(self) -> dict[str, Any]:
        """Return `name`, `grants` and `access_control` of the credentials. Raises CredentialsError."""
        return self._require_found(self._ask(Request("GET", WHOAMI))).document

    def is_ready(self) -> bool:
        """Return whether the registry is ready, its dependencies included; False if it does not respond."""
        try:
            return self._ask(Request("GET", "/health/ready")).is_success
        except Unavailable:
            return False

    def _json_at(self, path: str) -> Any:
        answer = self._ask(Request("GET", path))
        if answer.is_missing:
            self._require_registry()
            raise NotFoundError(f"{self.url} has no {path.partition('?')[0]}")
        if not answer.is_ok:
            raise self._error(answer)
        return json.loads(answer.content)

    def _decide(self, stream: str, decision: str, body: dict[str, Any]) -> StreamControl:
        request = Request("POST", stream_path(stream, decision), json.dumps(body).encode())
        return self._parsed(self._ask(request), StreamControl)

    def _require_found(self, answer: RegistryAnswer) -> RegistryAnswer:
        """Return the response if its status is 200. Raises NotFoundError for an unknown resource, or other errors."""
        if answer.is_unknown:
            raise NotFoundError(f"{self.url}: {answer.document.get('detail')}")
        if not answer.is_ok:
            raise self._error(answer)
        return answer

    def _parsed(self, answer: RegistryAnswer, model: type[M]) -> M:
        try:
            return self._require_found(answer).read(model)
        except ValidationError as error:
            raise SettingsError(
                f"{self.url} answers in a way that cannot be read here; is it a newer Tidegate?"
            ) from error

    def _require_registry(self) -> None:
        """Raise an error unless the URL is that of a registry: a wrong path in the URL also leads to 404."""
        if not self._is_registry:
            answer = self._ask(Request("GET", f"{CONTRACTS}?limit=1"))
            if not answer.is_ok:
                raise self._error(answer)
            self._is_registry = True

    def _ask(self, request: Request) -> RegistryAnswer:
        try:
            return send(self._http, request)
        except httpx.UnsupportedProtocol as error:
            raise SettingsError(f"{self.url} is not the URL of a registry: {error}") from error
        except httpx.TransportError as error:
            raise Unavailable(
                f"no registry answers at {self.url} ({error}); start one with `tidegate serve`, "
                "or name another with --registry"
            ) from error

    def _error(self, answer: RegistryAnswer, loaded: LoadedContract | None = None) -> Exception:
        body = answer.document
        detail = str(body.get("detail") or body.get("title") or answer.reason)
        if loaded and answer.status == HTTPStatus.UNPROCESSABLE_ENTITY and body.get("errors"):
            problems = (Problem(one["pointer"], one["message"]) for one in body["errors"])
            return ContractError(tuple(loaded.locate(problem) for problem in problems))
        if answer.status == HTTPStatus.CONFLICT:
            return ConflictError(detail)
        if body.get("type") == _NO_BROKER:
            return SettingsError(f"{self.url}: {detail}")
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Unavailable(f"the registry at {self.url} failed ({answer.status}): {detail}")
        return self._turned_away(answer.status, detail)

    def _unauthenticated(self) -> str:
        match self._credentials.source:
            case None:
                what = "requires authentication"
            case source:
                what = f"rejects the credentials of {source}: they are wrong, expired or revoked"
        return (
            f"the registry at {self.url} {what}. Store a key or token with `tidegate login --registry {self.url}`, or "
            "set TIDEGATE_REGISTRY_TOKEN; `tidegate keys create` makes a key"
        )

    def _turned_away(self, status: int, detail: str) -> Exception:
        match status:
            case HTTPStatus.UNAUTHORIZED:
                return CredentialsError(self._unauthenticated())
            case HTTPStatus.FORBIDDEN:
                return CredentialsError(f"the registry at {self.url} refuses: {detail}")
            case HTTPStatus.UNPROCESSABLE_ENTITY:
                return SettingsError(f"the registry at {self.url} refuses the request: {detail}")
            case HTTPStatus.TOO_MANY_REQUESTS:
                return Unavailable(f"the registry at {self.url} refuses further requests for now: {detail}")
            case _:
                return SettingsError(f"{self.url} answers {status} ({detail}); is it a Tidegate registry?")
