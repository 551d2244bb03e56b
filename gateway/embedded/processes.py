"""Child processes that do not outlive this process.

Children are ended in three ways. The first is an orderly stop. On Linux, the kernel ends a child when its parent dies
(`child_process.py`). The run directory has a record of every child, so the next start ends those that a killed run
left. A random token in the environment identifies a child and its descendants. So a reused process id is never taken
for a child.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

_TOKEN = "TIDEGATE_PROCESS_TOKEN"  # noqa: S105 - the name of a variable; its value is an identity, no secret
_CHILD_PROCESS = Path(__file__).with_name("child_process.py")

# The kernel binds a child to the thread that started it, so this thread must live as long as the process.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")
# Start the thread now. An exception from a signal handler during a later `submit` could leave a thread unknown to the
# executor, and the process would wait for it at exit.
_SPAWNER.submit(os.getpid)


@dataclass(frozen=True, slots=True)
class Command:
    """A process to run: a name for messages and files, its arguments, and additional environment variables."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


class _Record(BaseModel):
    """One child in the run directory. Written before the child starts (`pid` None) and again after."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    token: str
    pid: int | None = None
    create_time: float | None = None


class Child:
    """A child process, created by `RunDirectory.start`."""

    def __init__(
        self, record: _Record, process: subprocess.Popen[bytes], record_file: Path, log: Path
    ) -> None:
        self.name = record.name
        self.log = log
        self._record = record
        self._process = process
        self._record_file = record_file

    @property
    def pid(self) -> int:
        """Return its process id, which is also its session id."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return its exit code (negative: the signal); None while it runs."""
        return self._process.poll()

    def stop(self, *, deadline_seconds: float) -> int:
        """Stop the process (SIGTERM; SIGKILL after the deadline), then kill its descendants; return its exit code."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            code = self._process.wait(timeout=deadline_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        _end(_processes_of(self._record), grace_seconds=0)
        self._record_file.unlink(missing_ok=True)
        return code

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of its log; "" without a log."""
        return tail(self.log, lines)


class RunDirectory:
    """The folder with the records of a state directory's children, and the folder of their logs."""

    def __init__(self, path: Path, logs: Path) -> None:
        self._path = path
        self._logs = logs

    def start(self, command: Command) -> Child:
        """Start a child in its own session, with its output in `<name>.log`; the previous log becomes `.log.1`."""
        self._path.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{command.name}.log"
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        record_file = self._path / f"{command.name}.json"
        record = _Record(name=command.name, token=uuid.uuid4().hex)
        _write(record_file, record)
        starting = _SPAWNER.submit(_spawn, command, record.token, log)
        try:
            process = starting.result()
        except KeyboardInterrupt:
            # The other thread still starts the process, which would stay unknown.
            starting.result().kill()
            raise
        record = record.model_copy(update={"pid": process.pid, "create_time": _create_time(process.pid)})
        _write(record_file, record)
        return Child(record, process, record_file, log)

    def leftovers(self) -> tuple[str, ...]:
        """Return `name (pid N)` for every living process on record."""
        return tuple(
            f"{record.name} (pid {process.pid})"
            for record in self._records()
            for process in _processes_of(record)
        )

    def end_leftovers(self, *, grace_seconds: float = 10) -> tuple[str, ...]:
        """Stop the living processes on record and delete the records; return the names from `leftovers`.

        Call it only while no other run uses this directory (see `StateDirectory`).
        """
        named = self.leftovers()
        _end([p for record in self._records() for p in _processes_of(record)], grace_seconds=grace_seconds)
        for record_file in self._path.glob("*.json"):
            record_file.unlink()
        return named

    def _records(self) -> list[_Record]:
        return [_Record.model_validate_json(path.read_bytes()) for path in sorted(self._path.glob("*.json"))]


def tail(log: Path, lines: int = 20) -> str:
    """Return the last lines of a text file; "" if there is none."""
    if not log.exists():
        return ""
    with log.open(encoding="utf-8", errors="replace") as handle:
        return "".join(deque(handle, maxlen=lines)).rstrip()


def _spawn(command: Command, token: str, log: Path) -> subprocess.Popen[bytes]:
    guarded = [sys.executable, "-I", "-S", str(_CHILD_PROCESS), str(os.getpid())]
    with log.open("wb") as output:
        return subprocess.Popen(
            [*guarded, *command.arguments],
            env={**os.environ, **command.environment, _TOKEN: token},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _write(path: Path, record: _Record) -> None:
    scratch = path.with_suffix(".tmp")
    scratch.write_text(record.model_dump_json())
    scratch.replace(path)


def _create_time(pid: int) -> float | None:
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return None


def _processes_of(record: _Record) -> list[psutil.Process]:
    """Return the living processes of a record: the child and its descendants, including orphans."""
    return [process for process in psutil.process_iter() if _belongs(process, record)]


def _belongs(process: psutil.Process, record: _Record) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return process.environ().get(_TOKEN) == record.token
    except psutil.AccessDenied:
        # A process of another user, or a system that hides environments.
        return process.pid == record.pid and _create_time(process.pid) == record.create_time
    except psutil.NoSuchProcess:
        return False


def _end(processes: list[psutil.Process], *, grace_seconds: float) -> None:
    if grace_seconds:
        _signal(processes, signal.SIGTERM)
        _, processes = psutil.wait_procs(processes, timeout=grace_seconds)
    _signal(processes, signal.SIGKILL)
    psutil.wait_procs(processes, timeout=10)


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue
