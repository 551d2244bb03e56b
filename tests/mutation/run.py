"""Change one place of a module at a time, run the tests that cover it, and print the changes that no test has noticed.

Pure modules are tested in forks of this process, all their mutants in minutes. Modules that need Java are tested by a
process for each mutant, as many as the time allows, in an order that the printed seed gives. Ends with status 0 only if
every survivor is explained in `survivors.md`, and every explanation there still names a survivor.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings

from tests.mutation.mutants import ROOT, Mutant, install, mutants

SURVIVORS = Path(__file__).with_name("survivors.md")
MOST_CPU_SECONDS = 30
"""The limit of CPU time of a fork. It detects a mutant that never ends, also on a busy machine."""
LONGEST_JVM_SECONDS = 900
OPTIONS = (
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "pytest_timeout",
    "--no-header",
    "--noconftest",
    "--tb=no",
    "--timeout=120",
)
"""pytest_timeout is named because plug-ins are not loaded automatically. It ends a mutant that waits without an end."""
JVM_OPTIONS = (
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "tests.mutation.plugin",
    "-m",
    "not full",
    "--tb=no",
)
PRELOADED = ("tidegate.contracts.document.load", "tidegate.contracts.judge.plan")
"""Modules without mutants that tests import: loaded once, so that forks need not."""

UNIT, ENFORCE = "tests/unit", "tests/integration/enforce"
_STREAM = "tidegate.contracts.stream"
_SINKS = "tidegate.spark_jobs.sinks"
PURE: dict[str, tuple[str, ...]] = {
    f"{_STREAM}.ledger": (
        f"{UNIT}/contracts/test_ledger.py",
        f"{UNIT}/contracts/test_adoption.py",
        f"{UNIT}/contracts/test_reconcile.py",
        f"{UNIT}/contracts/test_versions.py",
        f"{UNIT}/contracts/test_rewind.py",
        f"{UNIT}/contracts/test_key_marks.py",
    ),
    f"{_STREAM}.segments": (f"{UNIT}/contracts/test_ledger.py",),
    f"{_STREAM}.decide": (
        f"{UNIT}/spark_jobs/test_decide.py",
        f"{UNIT}/contracts/expectations/test_refusal.py",
        f"{UNIT}/contracts/expectations/test_outcome.py",
    ),
    f"{_STREAM}.generations": (f"{UNIT}/contracts/test_rewind.py",),
    f"{_STREAM}.rewind": (f"{UNIT}/contracts/test_rewind.py",),
    f"{_STREAM}.adoption": (f"{UNIT}/contracts/test_adoption.py",),
    f"{_STREAM}.erasure": (f"{UNIT}/contracts/test_erasure.py",),
    f"{_STREAM}.closure": (f"{UNIT}/contracts/test_replay.py", f"{UNIT}/contracts/test_rewind.py"),
    f"{_STREAM}.key_marks": (f"{UNIT}/contracts/test_key_marks.py",),
    f"{_STREAM}.replay_progress": (f"{UNIT}/contracts/test_replay.py",),
    f"{_STREAM}.versions": (f"{UNIT}/contracts/test_versions.py",),
    f"{_STREAM}.positions": (
        f"{UNIT}/contracts/test_dropped.py",
        f"{UNIT}/contracts/test_replay.py",
        "tests/property/test_positions.py",
        f"{UNIT}/contracts/test_positions.py",
    ),
    f"{_STREAM}.history": (f"{UNIT}/contracts/test_history.py",),
    f"{_STREAM}.replay": (f"{UNIT}/contracts/test_replay.py", f"{UNIT}/contracts/test_replay_limits.py"),
    f"{_STREAM}.replayed_chunk": (f"{UNIT}/contracts/test_replay.py",),
    f"{_STREAM}.evidence": (
        f"{UNIT}/contracts/test_evidence.py",
        f"{UNIT}/contracts/test_evidence_headers.py",
        f"{UNIT}/contracts/expectations/test_refusal.py",
        f"{UNIT}/contracts/test_versions.py",
        f"{UNIT}/contracts/test_rewind.py",
        f"{UNIT}/spark_jobs/test_records.py",
        f"{UNIT}/spark_jobs/test_quarantine_rows.py",
        f"{UNIT}/spark_jobs/test_replay_chunk.py",
    ),
    f"{_STREAM}.reconcile": (
        f"{UNIT}/contracts/test_reconcile.py",
        f"{UNIT}/contracts/test_reconcile_upserts.py",
        "tests/property/test_reconcile.py",
        "tests/property/test_replays_reconciled.py",
    ),
    "tidegate.spark_jobs.job.replay_loop": (f"{UNIT}/spark_jobs/test_replay_loop.py",),
    "tidegate.spark_jobs.job.replay_chunk": (f"{UNIT}/spark_jobs/test_replay_chunk.py",),
    "tidegate.spark_jobs.job.batch_limits": (f"{UNIT}/spark_jobs/test_batch_limits.py",),
    "tidegate.spark_jobs.kafka.source_topic": (f"{UNIT}/spark_jobs/test_source_topic.py",),
}
"""Modules that need no Java, and the tests that cover them."""
NEEDS_JVM: dict[str, tuple[str, ...]] = {
    f"{_SINKS}.staged": (
        f"{ENFORCE}/test_schedules.py",
        f"{ENFORCE}/test_protocol_order.py",
        f"{ENFORCE}/test_iceberg_sink.py",
        f"{ENFORCE}/test_missing_ledger.py",
        f"{ENFORCE}/test_slots.py",
        f"{ENFORCE}/test_dropped.py",
        f"{ENFORCE}/test_faults.py",
    ),
    f"{_SINKS}.recovery_scan": (
        f"{ENFORCE}/test_schedules.py",
        f"{ENFORCE}/test_missing_ledger.py",
        f"{ENFORCE}/test_source_changes.py",
        f"{ENFORCE}/test_task_slots.py",
        f"{ENFORCE}/test_kafka_sink.py",
    ),
    f"{_SINKS}.store": (f"{ENFORCE}/test_schedules.py", f"{ENFORCE}/test_iceberg_sink.py"),
    f"{_SINKS}.kafka.sink": (
        f"{ENFORCE}/test_schedules.py",
        f"{ENFORCE}/test_kafka_sink.py",
        f"{ENFORCE}/test_task_slots.py",
        f"{ENFORCE}/test_faults.py",
        f"{ENFORCE}/test_missing_ledger.py",
    ),
    "tidegate.spark_jobs.kafka.outputs": (
        f"{ENFORCE}/test_schedules.py",
        f"{ENFORCE}/test_slots.py",
        f"{ENFORCE}/test_expired_transactions.py",
        f"{ENFORCE}/test_kafka_sink.py",
    ),
    "tidegate.spark_jobs.kafka.kafka_ledger": (
        f"{ENFORCE}/test_schedules.py",
        f"{ENFORCE}/test_kafka_sink.py",
    ),
}
"""Modules of the protocol that are tested only with a real broker and Spark, and their tests."""


@dataclass
class Outcome:
    """The results of the mutants of a module."""

    module: str
    mutants: int
    tried: int = 0
    survivors: tuple[Mutant, ...] = ()

    def __str__(self) -> str:
        killed = self.tried - len(self.survivors)
        return f"{self.module}: {self.mutants} mutants, {self.tried} tried, {killed} noticed"


def run_pure(module: str, only: str = "") -> Outcome:
    """Test the mutants of a module without Java whose key contains `only`. Exit if the tests fail without a mutant."""
    tests = PURE[module]
    if module in sys.modules:
        sys.exit(f"{module} was imported before its mutants: take it out of PRELOADED")
    if not _passes_in_fork(None, tests):
        sys.exit(f"{module}: its tests fail without a mutant")
    every = mutants(module)
    found = [each for each in every if only in each.key]
    outcome = Outcome(module, len(every))
    for mutant in found:
        outcome.tried += 1
        if _passes_in_fork(mutant, tests):
            outcome.survivors += (mutant,)
        if outcome.tried % 20 == 0:
            print(f"  {module}: {outcome.tried} of {len(found)}", flush=True)
    return outcome


def _passes_in_fork(mutant: Mutant | None, tests: Iterable[str]) -> bool:
    """Return whether all test files pass in a fork, one file after the other: most mutants fail in the first file."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        try:
            if mutant is not None:
                install(mutant)
            os._exit(next((code for each in tests if (code := pytest.main([*OPTIONS, each]))), 0))
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return status == 0


def run_with_jvm(module: str, deadline: float, chance: random.Random) -> Outcome:
    """Test mutants of a module that needs Java, in random order, until the deadline (`time.monotonic`)."""
    found = mutants(module)
    outcome = Outcome(module, len(found))
    for number in chance.sample(range(len(found)), len(found)):
        if time.monotonic() >= deadline:
            break
        command = [sys.executable, "-m", "pytest", *JVM_OPTIONS, *NEEDS_JVM[module]]
        survives = _passes_in_time(command, {**os.environ, "MUTANT": f"{module}:{number}"})
        outcome.tried += 1
        print(f"  {'survives' if survives else 'noticed'}: {found[number].key}", flush=True)
        if survives:
            outcome.survivors += (found[number],)
    return outcome


def _passes_in_time(command: list[str], environment: dict[str, str]) -> bool:
    """Return whether a command succeeds within LONGEST_JVM_SECONDS. On a timeout, kill its process group."""
    with subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:  # fmt: skip
        try:
            return process.wait(LONGEST_JVM_SECONDS) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return False


def explained(module: str) -> set[str]:
    """Return the keys of survivors that `survivors.md` explains: headings are modules, list items start with a key."""
    found: set[str] = set()
    heading = ""
    for line in SURVIVORS.read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("* ") and heading == module:
            found.add(line.removeprefix("* ").partition(" | ")[0])
    return found


def report(outcome: Outcome) -> int:
    """Print the results of a module; return the number of unexplained survivors and of stale explanations."""
    known, survived = explained(outcome.module), {each.key for each in outcome.survivors}
    print(f"{outcome}, {len(known & survived)} survive as explained", flush=True)
    unexplained = [each for each in outcome.survivors if each.key not in known]
    for each in unexplained:
        print(f"  survives, line {each.line}: {each.key}")
    stale = sorted(known - survived) if outcome.tried == outcome.mutants else []
    for key in stale:
        print(f"  explained, and does not survive: {key}")
    return len(unexplained) + len(stale)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "modules", nargs="*", choices=[[], *PURE, *NEEDS_JVM], default=[], help="all pure ones if none"
    )
    parser.add_argument("--only", default="", help="mutants of pure modules whose key contains this")
    parser.add_argument(
        "--jvm-seconds", type=float, default=0, help="time for the modules that need Java, together"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))  # noqa: S311 - chooses mutants, guards nothing
    asked = parser.parse_args()
    # No conftest.py is loaded. Without a deadline, a busy machine cannot make a generated case fail like a detected mutant.
    settings.register_profile("mutation", deadline=None)
    settings.load_profile("mutation")
    for name in PRELOADED:
        import_module(name)
    modules = asked.modules or [*PURE, *NEEDS_JVM]
    wrong = 0
    for module in (each for each in modules if each in PURE):
        wrong += report(run_pure(module, asked.only))
    with_jvm = [each for each in modules if each in NEEDS_JVM] if asked.jvm_seconds else []
    if with_jvm:
        print(f"seed {asked.seed}", flush=True)
    chance, begun = random.Random(asked.seed), time.monotonic()  # noqa: S311 - as above
    for number, module in enumerate(with_jvm, start=1):
        deadline = begun + asked.jvm_seconds * number / len(with_jvm)
        wrong += report(run_with_jvm(module, deadline, chance))
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
