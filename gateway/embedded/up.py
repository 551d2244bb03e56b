"""What `tidegate up` does: start everything, say when it is ready, wait, and stop everything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tidegate.contracts.lint.lint import lint
from tidegate.gateway.embedded.runtime import Runtime, Show

_LOOK_SECONDS = 0.5


def serve_contracts(runtime: Runtime, files: Sequence[Path], show: Show) -> None:
    """Start broker, gateway and, if there is a contract, the job, in an entered `runtime`; return when all answer.

    Publishes the contracts of `files`, then enforces every contract that the registry holds. Raises ContractError
    before anything is started when a file is no contract, ConflictError when it changes a published version.
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
    topics = {contract.contract_id: contract.topic for contract in runtime.registry.enforced()}
    if not topics:
        show("job", "no active contract to enforce: stop, and give one (tidegate up contract.yaml)")
        return
    runtime.create_topics(list(topics.values()))
    for stream, topic in topics.items():
        show("stream", f"{stream}: topic {topic}, refused records in {topic}.quarantine")
    runtime.start_job(list(topics))
    runtime.await_job()


def watch(runtime: Runtime) -> None:
    """Wait until a part dies, and raise what `Runtime.check` says of it. An interrupt ends the wait."""
    while True:
        runtime.check()
        time.sleep(_LOOK_SECONDS)
