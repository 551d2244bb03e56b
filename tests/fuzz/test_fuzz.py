"""A fixed number of mutated records, documents and requests, in a separate process; `make fuzz` runs longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.marks import examples
from tidegate.gateway.embedded.broker import Broker

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("sort", "inputs"), [("records", examples(50)), ("documents", examples(250))])
def test_nothing_that_arrives_crashes_hangs_or_takes_the_memory(
    tmp_path: Path, sort: str, inputs: int
) -> None:
    fuzz(tmp_path, sort, inputs)


@pytest.mark.full
def test_no_request_fails_or_shows_what_is_another_teams(tmp_path: Path, broker: Broker) -> None:
    fuzz(tmp_path, "requests", examples(1_500), "--bootstrap-servers", broker.bootstrap)


def fuzz(folder: Path, sort: str, inputs: int, *options: str) -> None:
    keep = folder / "input.bin"
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.run", "--only", sort, "--seed", "1"]
    done = subprocess.run(
        [*command, "--inputs", str(inputs), "--keep", str(keep), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    input_in_hand = keep.read_bytes()[:2_000] if keep.exists() else b""
    assert done.returncode == 0, (done.returncode, done.stderr[-4_000:], input_in_hand)


def test_the_bounds_are_held() -> None:
    """Exceeding a limit ends the process; otherwise the fuzzer would not notice it."""
    beginning = "from tests.fuzz.bounds import bound_memory, within\n"
    hang = beginning + "within(0.05, lambda: sum(range(10**12)))"
    greed = beginning + "bound_memory(); bytearray(2**30)"
    assert _status(hang) == -27  # SIGPROF
    assert _status(greed) == 1


def _status(program: str) -> int:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False
    ).returncode
