"""Two wheels meet: this release and the next one, as job and gateway, and as readers of one ledger.

The next release is this tree with the patch below: new fields everywhere, a decision that a job must be able to obey, and
a ledger of the next format. It follows the rules of docs/how-to/upgrade.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.archives import unpack
from tests.integration.registry_process import Server
from tests.ledgers import LEDGER
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import digest_of_refusals, runs_of
from tidegate.gateway.http.models.examples import CONTRACT

ROOT = Path(__file__).parents[2]
STREAM = "hospital.admissions"
NEXT: Final = {
    "pyproject.toml": {'version = "0.1.0"': 'version = "0.2.0"'},
    "contracts/stream/versions.py": {
        "LEDGER_FORMAT: Final = 1": "LEDGER_FORMAT: Final = 2",
        "] = frozenset()": '] = frozenset({"drain"})',
    },
    "contracts/stream/ledger.py": {
        "    slots: int = Field(ge=1)\n": (
            "    slots: int = Field(ge=1)\n"
            '    release: str = Field(default="", exclude_if=not_)\n    region: str = Field(default="", exclude_if=not_)\n'
        ),
        '            "epoch": self.epoch + 1,\n': '            "format": 2, "release": "0.2", "region": "eu", "epoch": self.epoch + 1,\n',
    },
    "contracts/stream/control.py": {
        "    shadow: str | None = Field(": "    drain: bool = False\n    shadow: str | None = Field(",
        "reason=reason[:1000], by=by, at=at)": 'reason=reason[:1000], by=by, at=at, requires=("drain",), drain=True)',
        "    kind: EventKind\n": '    kind: EventKind\n    host: str = "node-1"\n',
    },
    "contracts/stream/report.py": {"    records: Count\n": "    records: Count\n    compressed: Count = 7\n"},
    "contracts/stream/replay.py": {
        "    stream: StreamText\n\n    @property\n": "    stream: StreamText\n    weight: int = 3\n\n    @property\n",
        "    records: Count\n    written: Count\n": "    records: Count\n    seconds: Count = 9\n    written: Count\n",
        "    allowed: float\n": "    allowed: float\n    weight: int = 3\n",
    },
    "contracts/stream/reconciliation.py": {
        "    reconciliation: ReconciliationRequest | None = None\n": (
            "    reconciliation: ReconciliationRequest | None = None\n    nap_seconds: int = 3\n"
        )
    },
}
"""The patch: file to text and what it becomes."""

JOB = """\
import json, sys
from datetime import UTC, datetime
from importlib.metadata import version
from threading import Event
import httpx
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.registry_client import messages, requests
from tidegate.contracts.stream.control import EventKind, Heartbeat
from tidegate.contracts.stream.replay import ReplayReport, ReplayState
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.http.models.examples import REPORT
from tidegate.spark_jobs.job.control import RegistryControl, require_running

stream = REPORT["stream"]
with httpx.Client(base_url=sys.argv[1], timeout=60) as client:
    control = RegistryControl(client, stream, Event())
    control.report_event(EventKind.STARTED)
    asked = control.beat(Heartbeat(lag_records=1))
    replay, is_replay_told = control.replays.current(), None
    if replay is not None:
        counts = {"records": replay.records, "written": len(replay.refusals()), "refused": 0, "left": 0}
        done = {"request": replay.id, "stream": stream, "at": datetime.now(UTC), "state": ReplayState.DONE, **counts}
        is_replay_told = control.replays.report(ReplayReport.model_validate(done))
    told = {}
    for n in (int(sys.argv[2]), int(sys.argv[2]) + 1):
        report = BatchReport.model_validate(REPORT | {"n": n})
        told[n] = messages.send(client, requests.report(report)).status
    kept = requests.read_batches(messages.send(client, requests.Request("GET", sys.argv[3])))
    try:
        require_running(control.current())
        state = "running"
    except StreamStopped as error:
        state = f"{type(error).__name__}: {error}"
    print(json.dumps({"version": version("tidegate"), "asked": None if asked is None else str(asked.by), "told": told,
                      "kept": len(kept), "state": state, "replay": is_replay_told}))
"""
PLACES: Final = Positions([(0, 17), (0, 18), (1, 4)])
REPLAY: Final = {
    "topic": quarantine_topic(STREAM),
    "topic_id": "5t4MBcagRK+ZidN418oVQQ",
    "positions": runs_of(PLACES),
    "records": len(PLACES),
    "digest": digest_of_refusals(quarantine_topic(STREAM), PLACES),
}
"""A request to replay three refused records as they are."""
LEDGERS = """\
import json, sys
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.ledger import Ledger
try:
    print(Ledger.parse(sys.stdin.read()).claim(1).text)
except StreamStopped as error:
    print(f"stopped: {error}")
"""


def build(tree: Path, kind: str, to: Path) -> Path:
    """Build an sdist or a wheel from a tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", to]
    subprocess.run(command, cwd=tree, check=True, timeout=300)
    (made,) = to.iterdir()
    return made


class Release:
    """A built wheel, unpacked where only its own processes look; everything else comes from this environment."""

    def __init__(self, tree: Path, folder: Path) -> None:
        wheel = build(tree, "wheel", folder / "wheel")
        self.place = folder / "site"
        shutil.unpack_archive(wheel, self.place, "zip")
        # Without the safe path, `-m` and `-c` would import the tree that the tests run in.
        self.environment = {"PYTHONPATH": str(self.place), "PYTHONSAFEPATH": "1"}

    def run(self, code: str, *arguments: str, told: str = "") -> str:
        ran = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            input=told,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Release]:
    """This release and the next one. Both are built from the sdist: a clone without history has no earlier commit."""
    folder = tmp_path_factory.mktemp("releases")
    unpack(build(ROOT, "sdist", folder / "sdist"), folder / "tree")
    (tree,) = (folder / "tree").iterdir()
    this = Release(tree, folder / "this")
    for name, changes in NEXT.items():
        path = tree / ("tidegate" if name.endswith(".py") else ".") / name
        text = path.read_text()
        for before, after in changes.items():
            assert text.count(before) == 1, (name, before)
            text = text.replace(before, after)
        path.write_text(text)
    return {"this": this, "next": Release(tree, folder / "next")}


@pytest.mark.parametrize("of", ["this", "next"])
def test_each_process_runs_its_own_wheel(releases: dict[str, Release], of: str) -> None:
    place = releases[of].run("import tidegate.contracts.stream.ledger as it; print(it.__file__)")
    assert Path(place).is_relative_to(releases[of].place)


@pytest.mark.parametrize(
    ("job", "gateway"),
    [
        ("this", "next"),
        *(pytest.param(*pair, marks=pytest.mark.full) for pair in (("next", "this"), ("next", "next"))),
    ],
)
def test_a_job_and_a_gateway_of_neighbouring_releases_work_together(
    releases: dict[str, Release], tmp_path: Path, job: str, gateway: str
) -> None:
    batches = f"/api/v1/streams/{STREAM}/batches?since=2026-01-01T00:00:00Z&until=2027-01-01T00:00:00Z"
    with Server(f"sqlite:///{tmp_path}/registry.db", releases[gateway].environment) as server:
        assert server.publish(json.dumps(CONTRACT)).is_success
        replays = f"/api/v1/streams/{STREAM}/replays"
        for path, body in ((f"/api/v1/streams/{STREAM}/reconciliations", None), (replays, REPLAY)):
            asked = server.http.post(path, json=body)
            assert asked.is_success, asked.text

        def meet(n: int) -> dict[str, Any]:
            met: dict[str, Any] = json.loads(releases[job].run(JOB, server.url, str(n), batches))
            assert met["version"] == {"this": "0.1.0", "next": "0.2.0"}[job]
            return met

        first = meet(1)
        assert first["told"] == {"1": 201, "2": 201}
        assert (first["kept"], first["state"], first["asked"]) == (2, "running", "anonymous")
        assert first["replay"] is True
        (replay,) = server.http.get(replays).json()["replays"]
        assert (replay["state"], replay["report"]["written"]) == ("done", 3)
        assert ("weight" in replay) == (gateway == "next")
        server.http.post(f"/api/v1/streams/{STREAM}/pause", json={"reason": "tests"}).raise_for_status()
        state = meet(3)["state"]
    if (job, gateway) == ("this", "next"):
        assert state.startswith(
            "StreamStopped: the registry requires of the job of hospital.admissions what this"
        )
        assert "(drain): upgrade the job" in state
    else:
        assert state.startswith("StreamPaused: hospital.admissions is paused (tests")


def test_the_next_release_continues_from_this_ledger_and_this_one_refuses_the_next(
    releases: dict[str, Release],
) -> None:
    mine = releases["this"].run(LEDGERS, told=LEDGER.text)
    assert mine == LEDGER.claim(1).text
    theirs = releases["next"].run(LEDGERS, told=mine)
    assert json.loads(theirs).items() >= {"epoch": 5, "format": 2, "release": "0.2", "region": "eu"}.items()
    refused = releases["this"].run(LEDGERS, told=theirs)
    assert refused.startswith(
        "stopped: the stored ledger cannot be read by this version: it was written by Tidegate 0.2 in format 2"
    )
