"""The command `tidegate up`: start all processes, follow the registry, and wait for an interrupt."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.lint.lint import lint
from tidegate.gateway.client.registry import Enforced
from tidegate.gateway.embedded.runtime import Runtime, Show

_LOOK_SECONDS = 0.5
_CHECKS_PER_LIST = 4
"""Number of process checks for each request of the registry's contracts."""


class Contracts:
    """The contracts that `tidegate up` enforces: all of the registry, also those published later.

    The job follows the registry. This class creates the topics, and starts the job with the first contract.
    """

    def __init__(self, runtime: Runtime, show: Show) -> None:
        self._runtime = runtime
        self._show = show
        self._topics: dict[str, str] = {}
        self._told_bytes = 0
        self.has_job = False
        self._is_ready = False

    def follow(self, enforced: Sequence[Enforced]) -> None:
        """Create the topics of new contracts, and start the job with the first contract; return when it runs.

        Raises Unavailable if the job does not become ready.
        """
        found = {each.contract_id: each.topic for each in enforced}
        for stream in self._topics.keys() - found.keys():
            self._show("stream", f"{stream}: not enforced any more")
        for stream, topic in found.items():
            if stream not in self._topics:
                self._make_topic(stream, topic)
        self._topics = found
        if found and not self.has_job:
            self.has_job = True
            self._runtime.start_job(["--all"])
        if self.has_job and not self._is_ready:
            self._runtime.await_job()
            self._is_ready = True
            self._show_send(found)

    def _show_send(self, streams: Mapping[str, str]) -> None:
        """Show a command that sends records to a stream."""
        stream = next(iter(streams)) if len(streams) == 1 else "STREAM"
        servers, registry = self._runtime.bootstrap, self._runtime.registry_url
        config = self._runtime.kafka_config
        login = "" if config is None else f" --kafka-config {shlex.quote(str(config))}"
        self._show(
            "send", f"tidegate send {stream} FILE --bootstrap-servers {servers}{login} --registry {registry}"
        )

    def show_failures(self) -> None:
        """Show new log lines about failed streams; the job continues without them."""
        log = self._runtime.logs / "job.log"
        if not self.has_job or not log.exists():
            return
        with log.open("rb") as lines:
            lines.seek(self._told_bytes)
            for line in lines:
                if not line.endswith(b"\n"):
                    return  # an incomplete line is read the next time
                self._told_bytes += len(line)
                event = _event(line)
                if event.get("event") == "stream_failed":
                    self._show("stream", f"{event.get('stream')} failed: {event.get('error')}")

    def _make_topic(self, stream: str, topic: str) -> None:
        try:
            self._runtime.create_topics([topic])
        except Unavailable as error:
            self._show("stream", f"{stream}: {error}")
        else:
            self._show("stream", f"{stream}: topic {topic}, refused records in {topic}.quarantine")


def _event(line: bytes) -> dict[str, object]:
    """Return the event in a line of the job's log; empty for a line that is not JSON, such as of Java."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def serve_contracts(runtime: Runtime, files: Sequence[Path], show: Show) -> Contracts:
    """Start broker, gateway and, if there is a contract, the job; return when all answer. `runtime` must be entered.

    Publishes the contracts of `files`, then enforces all contracts of the registry. Raises ContractError for an invalid
    file, before anything is started, and ConflictError for a file that changes a published version.
    """
    contracts = [lint(file) for file in files]
    runtime.start_broker()
    runtime.start_gateway()
    runtime.await_broker()
    runtime.await_gateway()
    new = sum(runtime.registry.publish(contract).is_new for contract in contracts)
    if contracts:
        known = len(contracts) - new
        show("contracts", f"{new} published" + (f" · {known} known already" if known else ""))
    followed = Contracts(runtime, show)
    followed.follow(runtime.registry.enforced())
    if not followed.has_job:
        publish = f"tidegate publish contract.yaml --registry {runtime.registry_url}"
        show("job", f"no active contract to enforce yet; the job starts with the first: {publish}")
    return followed


def watch(runtime: Runtime, contracts: Contracts | None = None) -> None:
    """Wait until a child process ends, and raise the error of `Runtime.check`. An interrupt ends the wait.

    With `contracts`, follow the registry meanwhile.
    """
    while True:
        for _ in range(_CHECKS_PER_LIST):
            runtime.check()
            if contracts is not None:
                contracts.show_failures()  # also while the registry does not answer
            time.sleep(_LOOK_SECONDS)
        if contracts is None:
            continue
        with suppress(Unavailable):  # a slow registry or job; `check` reports one that has ended
            contracts.follow(runtime.registry.enforced())
