"""Start and stop of streams as the registry's list of contracts changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import httpx
import structlog

from tidegate.contracts.errors import CredentialsError, Fenced, Unavailable
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import RegistryAnswer, Request, send
from tidegate.contracts.registry_client.requests import ListedContract
from tidegate.spark_jobs.contract_source import RegistryGone
from tidegate.spark_jobs.settings import ContractSelection, JobSettings

log = structlog.get_logger()

_STARTED_AT_ONCE = 10
"""Maximum streams started by one step: each loads the broker, registry and catalog in its first second."""
_FIRST_RETRY_SECONDS = 10.0
_LONGEST_RETRY_SECONDS = 300.0
_FIRST_LIST_SECONDS = 300.0
"""Default time that a job without a list of contracts waits for the registry."""
_WARN_AGAIN_SECONDS = 300.0
_NAMED = 10
"""Maximum contracts named in one log event."""


class Stream(Protocol):
    """One run of one stream, in its own thread."""

    @property
    def contract_id(self) -> str:
        """Return the id of its contract."""
        ...

    @property
    def failure(self) -> BaseException | None:
        """Return the error that ended it; None while it runs, and after a normal end."""
        ...

    @property
    def is_under_way(self) -> bool:
        """Return whether it runs, or has failed and restarts by itself."""
        ...

    @property
    def ends_job(self) -> bool:
        """Return whether its failure means that no stream of this process can run any longer."""
        ...

    def start(self) -> None:
        """Start the thread."""
        ...

    def stop(self) -> None:
        """Request that it end between two batches."""
        ...

    def is_alive(self) -> bool:
        """Return whether its thread is running."""
        ...


@dataclass(frozen=True, slots=True)
class _Ended:
    """A stream that ended by itself, and the fingerprint of its contract at that time.

    `times` counts consecutive ends. `retry_at` is on the clock of `now`; None if this job does not start it again.
    """

    times: int
    retry_at: float | None
    fingerprint: str | None
    failure: BaseException | None


S = TypeVar("S", bound=Stream)


@dataclass(frozen=True, slots=True)
class _Running(Generic[S]):
    stream: S
    started_at: float


class ContractWatch(Generic[S]):
    """The running streams of a job, kept in sync with the contracts that the registry lists.

    A stream starts when its contract is listed as enforced and is selected. It is stopped only when the registry
    confirms that the contract is no longer enforced: a missing list, or a list without the contract, stops no stream.
    A stream that ends by itself is restarted after a pause that doubles, or when its contract has a new version. A
    stream that another job has taken over is left to that job while its heartbeats arrive: a restart would fence it.

    With `available_now` the streams of the first list run once each.
    """

    def __init__(
        self,
        registry: httpx.Client,
        selection: ContractSelection,
        make: Callable[[str], S],
        settings: JobSettings,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._selection = selection
        self._make = make
        self._settings = settings
        self._now = now
        self._wanted: dict[str, ListedContract] | None = None
        self._running: dict[str, _Running[S]] = {}
        self._leaving: set[str] = set()
        self._ended: dict[str, _Ended] = {}
        self._left_out: tuple[str, ...] = ()
        self._began = self._heard_at = self._look_at = now()
        self._warned_at: float | None = None

    @property
    def streams(self) -> tuple[S, ...]:
        """Return the streams that run or are about to end. Other threads read this too."""
        return tuple(each.stream for each in list(self._running.values()))

    @property
    def failures(self) -> tuple[BaseException, ...]:
        """Return the errors of ended streams that are not running again."""
        return tuple(each.failure for each in self._ended.values() if each.failure is not None)

    @property
    def is_settled(self) -> bool:
        """Return whether a list was fetched, and every stream that may run is under way or has ended."""
        return (
            self._wanted is not None
            and not self._startable()[0]
            and all(each.stream.is_under_way or not each.stream.is_alive() for each in self._running.values())
        )

    @property
    def is_done(self) -> bool:
        """Return whether all listed streams have ended; True only with `available_now`."""
        if not self._settings.available_now or self._wanted is None or self._running:
            return False
        return self._wanted.keys() <= self._ended.keys()

    def step(self) -> None:
        """Fetch the list when it is due, and start and stop streams accordingly.

        Raises RegistryGone or CredentialsError if no list was ever fetched. Raises the failure of a stream that ends
        the job.
        """
        self._note_ends()
        if self._now() >= self._look_at and not (self._settings.available_now and self._wanted is not None):
            self._look()
            self._look_at = self._now() + self._settings.watch_seconds
        self._start()

    def stop(self) -> None:
        """Request that every stream end between two batches."""
        for each in self.streams:
            each.stop()

    def _look(self) -> None:
        try:
            listed = requests.list_contracts(self._ask)
        except (httpx.HTTPError, Unavailable, ValueError) as error:
            self._note_outage(error)
            return
        if self._warned_at is not None:
            log.info("contracts_listed_again")
        self._heard_at, self._warned_at = self._now(), None
        self._wanted = {
            each.id: each
            for each in listed
            if each.is_enforced and self._selection.matches(each.id, each.domain)
        }
        self._ended = {name: each for name, each in self._ended.items() if name in self._wanted}
        for name in self._running.keys() - self._wanted.keys() - self._leaving:
            self._leave(name)
        for name, each in list(self._ended.items()):
            if (
                isinstance(each.failure, Fenced)
                and each.retry_at is not None
                and self._now() >= each.retry_at
            ):
                self._take_back(name, each)

    def _take_back(self, name: str, ended: _Ended) -> None:
        """Allow a stream that was taken over to start again, if by the registry no job enforces its contract."""
        try:
            answer = send(self._registry, requests.contract_detail(name))
        except httpx.HTTPError:
            return
        enforcement = answer.document.get("enforcement") if answer.is_ok else None
        if isinstance(enforcement, dict) and enforcement.get("is_enforced") is False:
            del self._ended[name]
        else:
            self._ended[name] = replace(ended, retry_at=self._now() + _LONGEST_RETRY_SECONDS)

    def _ask(self, request: Request) -> RegistryAnswer:
        answer = send(self._registry, request)
        if answer.status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN} and self._wanted is None:
            raise CredentialsError(
                f"the registry at {self._registry.base_url} answers {answer.status} to this job: set "
                "TIDEGATE_REGISTRY_TOKEN (or TIDEGATE_REGISTRY_USER and TIDEGATE_REGISTRY_PASSWORD) to a key that may "
                "list contracts"
            )
        if not answer.is_ok:
            raise Unavailable(f"the registry answered {answer.status}")
        return answer

    def _note_outage(self, error: Exception) -> None:
        now = self._now()
        if self._wanted is None:
            bound = self._settings.registry_grace_seconds
            if now - self._began > (_FIRST_LIST_SECONDS if bound is None else bound):
                raise RegistryGone(
                    f"the registry at {self._registry.base_url} has not listed its contracts for "
                    f"{now - self._began:.0f} s ({error}); start it, or give the job more time with "
                    "--registry-grace-seconds"
                ) from error
        if self._warned_at is None or now - self._warned_at > _WARN_AGAIN_SECONDS:
            self._warned_at = now
            log.warning(
                "contracts_not_listed",
                error=str(error)[:500],
                seconds=round(now - self._heard_at),
                streams=len(self._running),
            )

    def _leave(self, name: str) -> None:
        """Stop a stream that the list lacks, if the registry confirms that its contract is not for this job."""
        try:
            answer = send(self._registry, requests.contract_version(name, "latest"))
        except httpx.HTTPError:
            return
        if answer.status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            log.warning("contract_forbidden", stream=name, status=answer.status)
        is_other = answer.is_ok and not self._selection.matches(name, answer.document.get("domain"))
        if answer.is_unknown or is_other:
            self._leaving.add(name)
            log.info("stream_leaving", stream=name, reason="not selected" if is_other else "not enforced")
            self._running[name].stream.stop()

    def _note_ends(self) -> None:
        for name, each in list(self._running.items()):
            if each.stream.is_alive():
                continue
            if each.stream.ends_job and each.stream.failure is not None:
                raise each.stream.failure
            del self._running[name]
            if name in self._leaving:
                self._leaving.discard(name)
            else:
                self._note_end(name, each)

    def _note_end(self, name: str, run: _Running[S]) -> None:
        failure, now = run.stream.failure, self._now()
        if self._settings.available_now:
            self._ended[name] = _Ended(0, None, None, failure)
            return
        _let_go(failure)
        if isinstance(failure, Fenced):
            self._ended[name] = _Ended(0, now + _LONGEST_RETRY_SECONDS, None, failure)
            return
        before = self._ended.get(name)
        is_well = now - run.started_at >= self._settings.restart_reset_seconds
        times = 1 if before is None or is_well else before.times + 1
        seconds = min(_LONGEST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2 ** min(times - 1, 10))
        listed = (self._wanted or {}).get(name)
        fingerprint = None if listed is None else listed.fingerprint
        self._ended[name] = _Ended(times, now + seconds, fingerprint, failure)
        if failure is not None:
            log.warning("stream_retried_later", stream=name, seconds=round(seconds), times=times)

    def _startable(self) -> tuple[list[ListedContract], list[ListedContract]]:
        """Return the contracts whose streams may start now, sorted by id, and those beyond the limit of streams."""
        waiting = [
            each
            for name, each in sorted((self._wanted or {}).items())
            if name not in self._running and self._may_start(each)
        ]
        room = max(0, self._settings.max_streams - len(self._running))
        return waiting[:room], waiting[room:]

    def _may_start(self, contract: ListedContract) -> bool:
        ended = self._ended.get(contract.id)
        if ended is None:
            return True
        if ended.retry_at is None or isinstance(ended.failure, Fenced):
            return False
        return self._now() >= ended.retry_at or contract.fingerprint != ended.fingerprint

    def _start(self) -> None:
        startable, left_out = self._startable()
        for each in startable[:_STARTED_AT_ONCE]:
            stream = self._make(each.id)
            self._running[each.id] = _Running(stream, self._now())
            log.info("stream_selected", stream=each.id, topic=each.topic)
            stream.start()
        self._note_left_out(tuple(each.id for each in left_out))

    def _note_left_out(self, names: tuple[str, ...]) -> None:
        if names and names != self._left_out and not self._settings.available_now:
            log.error(
                "streams_left_out",
                count=len(names),
                contracts=list(names[:_NAMED]),
                most=self._settings.max_streams,
                advice="raise TIDEGATE_MAX_STREAMS, or start another job with --prefix",
            )
        self._left_out = names


def _let_go(failure: BaseException | None) -> None:
    """Remove the tracebacks of an error that is kept: their frames hold the Kafka clients of the stream that ended."""
    pending, seen = [failure], set[int]()
    while pending:
        each = pending.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            pending += each.__cause__, each.__context__
