"""Child processes end with their parent, however it ends; processes of others are not touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from tidegate.gateway.embedded.processes import Child, Command, RunDirectory

DEADLINE_SECONDS = 30

POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(0)))
print("ready", flush=True)
while True: time.sleep(60)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True: time.sleep(60)
"""
# Its own child leaves for a session of its own, as Spark's Python daemon leaves its process group.
PARENT_OF_STUBBORN = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""
# Starts a child by the code under test and says its pid; the test kills this process.
STARTER = """
import sys, time
from pathlib import Path
from tidegate.gateway.embedded.processes import Command, RunDirectory
child = RunDirectory(Path(sys.argv[1]), Path(sys.argv[2])).start(Command("child", [sys.executable, "-c", sys.argv[3]]))
print(child.pid, flush=True)
time.sleep(600)
"""


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def has_ended(child: Child) -> bool:
    return child.exit_code() is not None


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run", tmp_path / "logs")


def start(run: RunDirectory, script: str) -> Child:
    """Start a script and wait for its first line."""
    child = run.start(Command("child", [sys.executable, "-c", script]))
    until(lambda: child.tail() != "")
    return child


def test_a_child_is_asked_to_end_and_its_record_goes(run: RunDirectory, tmp_path: Path) -> None:
    child = start(run, POLITE)
    assert child.exit_code() is None
    assert (tmp_path / "run" / "child.json").exists()
    assert child.stop(deadline_seconds=DEADLINE_SECONDS) == 0
    assert child.tail() == "ready\nbye"
    assert list((tmp_path / "run").iterdir()) == []


def test_a_child_that_does_not_end_is_killed(run: RunDirectory) -> None:
    child = start(run, STUBBORN)
    assert child.stop(deadline_seconds=0.1) == -signal.SIGKILL
    assert not is_running(child.pid)


def test_what_a_child_started_ends_with_it(run: RunDirectory) -> None:
    child = start(run, PARENT_OF_STUBBORN)
    until(lambda: "ready" in child.tail())
    grandchild = int(child.tail().split()[0])
    assert child.stop(deadline_seconds=DEADLINE_SECONDS) == -signal.SIGTERM
    assert not is_running(grandchild)


def test_the_log_of_the_run_before_is_kept(run: RunDirectory, tmp_path: Path) -> None:
    for word in ("first", "second"):
        child = run.start(Command("child", [sys.executable, "-c", f"print({word!r})"]))
        until(partial(has_ended, child))
        assert child.stop(deadline_seconds=DEADLINE_SECONDS) == 0
    assert (tmp_path / "logs" / "child.log").read_text() == "second\n"
    assert (tmp_path / "logs" / "child.log.1").read_text() == "first\n"


def test_a_command_that_does_not_exist_ends_with_an_explanation(run: RunDirectory) -> None:
    child = run.start(Command("child", ["/no/such/program"]))
    until(partial(has_ended, child))
    assert "No such file or directory" in child.tail()


def test_a_child_outlives_the_thread_that_asked_for_it(run: RunDirectory) -> None:
    started: list[Child] = []
    thread = threading.Thread(target=lambda: started.append(start(run, POLITE)))
    thread.start()
    thread.join()
    # A death signal bound to that thread would have been delivered when it ended.
    assert started[0].exit_code() is None
    started[0].stop(deadline_seconds=DEADLINE_SECONDS)
    assert started[0].tail() == "ready\nbye"


def killed_starter(tmp_path: Path, script: str) -> int:
    """Start `script` from another process and kill -9 that one; return the script's pid."""
    arguments = [sys.executable, "-c", STARTER, str(tmp_path / "run"), str(tmp_path / "logs"), script]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        until(lambda: (tmp_path / "logs" / "child.log").read_text() == "ready\n")
        starter.kill()
    return pid


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_killed_parent_takes_its_child_along(tmp_path: Path) -> None:
    pid = killed_starter(tmp_path, POLITE)
    until(lambda: not is_running(pid))
    assert (tmp_path / "logs" / "child.log").read_text() == "ready\nbye\n"


def test_the_next_start_ends_what_a_killed_parent_left(run: RunDirectory, tmp_path: Path) -> None:
    pid = killed_starter(tmp_path, STUBBORN)
    assert is_running(pid)
    assert run.leftovers() == (f"child (pid {pid})",)
    assert run.end_leftovers(grace_seconds=0.1) == (f"child (pid {pid})",)
    assert not is_running(pid)
    assert run.leftovers() == ()
    assert list((tmp_path / "run").iterdir()) == []


def test_an_orphan_of_a_dead_child_is_a_leftover_too(run: RunDirectory) -> None:
    child = start(run, PARENT_OF_STUBBORN)
    until(lambda: "ready" in child.tail())
    grandchild = int(child.tail().split()[0])
    os.kill(child.pid, signal.SIGKILL)
    until(partial(has_ended, child))
    assert run.end_leftovers(grace_seconds=0.1) == (f"child (pid {grandchild})",)
    assert not is_running(grandchild)


def test_a_foreign_process_under_a_recorded_pid_is_not_touched(run: RunDirectory, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as foreign:
        record = {
            "name": "broker",
            "token": "0" * 32,
            "pid": foreign.pid,
            "create_time": psutil.Process(foreign.pid).create_time(),
        }
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "broker.json").write_text(json.dumps(record))
        assert run.end_leftovers(grace_seconds=0.1) == ()
        assert foreign.poll() is None
        foreign.communicate(b"\n")
    assert foreign.returncode == 0


INTERRUPTED = """
import sys, threading
from pathlib import Path
from tidegate.gateway.embedded.processes import Command, RunDirectory

start = threading.Thread.start

def interrupted(thread):
    start(thread)
    raise KeyboardInterrupt

threading.Thread.start = interrupted
folder = Path(sys.argv[1])
RunDirectory(folder / "run", folder / "logs").start(Command("child", [sys.executable, "-c", ""]))
"""


def test_an_interrupted_start_of_a_child_leaves_no_thread_to_wait_for(tmp_path: Path) -> None:
    """A thread that an executor has started, and was interrupted before it took note of it, never ends."""
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED, str(tmp_path)], timeout=60, check=False)
    assert ended.returncode == 0
