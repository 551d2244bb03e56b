"""What `tidegate publish` says about enforcement, against a registry that listens on a socket."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Ran, Run
from tidegate.gateway.factory import Factory

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

STREAM = "hospital.admissions"


def lines(ran: Ran) -> list[str]:
    """What the command said: the registry, in this process too, logs before it."""
    assert ran.returncode == 0
    return [line for line in ran.stdout.decode().splitlines() if STREAM in line or "enforces" in line][-2:]


@pytest.mark.usefixtures("registry")
def test_it_says_whether_a_job_enforces_the_contract(tidegate: Run, contract: Path, factory: Factory) -> None:
    hint = (
        f"  no job enforces it (no heartbeat yet): run `tidegate enforce {STREAM}`; a job with --all, or with a "
        "--prefix or --domain that fits, starts its stream by itself"
    )
    assert lines(tidegate("publish", contract)) == [f"{STREAM} 1.2.0 unchanged", hint]
    factory.stream_controls().beat(STREAM)
    heard = factory.database.read(lambda stores: stores.controls.heartbeat(STREAM))
    assert heard is not None
    assert lines(tidegate("publish", contract)) == [
        f"{STREAM} 1.2.0 unchanged",
        f"  a job enforces it (last heartbeat {heard.at:%Y-%m-%d %H:%M:%S} UTC)",
    ]


@pytest.mark.usefixtures("registry")
def test_it_says_nothing_of_a_draft(tidegate: Run, contract: Path) -> None:
    contract.write_text(contract.read_text().replace("version: 1.2.0", "version: 1.3.0\nstatus: draft"))
    assert not any("enforces" in line for line in lines(tidegate("publish", contract)))
