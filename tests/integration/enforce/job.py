"""`tidegate enforce` in a process of its own, as its log tells of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

DEADLINE_SECONDS = 300.0
Publish = Callable[[dict[str, object]], None]


class RunningJob:
    """A job in a process of its own, and the events that it logs."""

    def __init__(self, arguments: list[str], env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidegate.gateway.cli.main", "enforce", *arguments],
            env={**os.environ, **env},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.events: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._has_ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        try:
            for text in self.process.stderr:
                with self._changed:
                    self.lines.append(text)
                    if text.startswith("{"):
                        self.events.append(json.loads(text))
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

    def await_event(self, name: str, count: int = 1, **fields: object) -> dict[str, Any]:
        """Wait for the `count`-th event of this name with these fields, or until the job has ended without it."""

        def found() -> list[dict[str, Any]]:
            return [e for e in self.events if e["event"] == name and fields.items() <= e.items()]

        with self._changed:
            self._changed.wait_for(lambda: len(found()) >= count or self._has_ended, DEADLINE_SECONDS)
            assert len(found()) >= count, "".join(self.lines)
            return found()[count - 1]

    def stop(self, how: signal.Signals) -> int:
        """Send a signal; give the exit code."""
        self.process.send_signal(how)
        return self.exit_code()

    def end(self) -> None:
        """Kill it, if it has not ended by itself, and let go of its log."""
        self.process.kill()
        self.exit_code()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def exit_code(self) -> int:
        code = self.process.wait(DEADLINE_SECONDS)
        self._reader.join(DEADLINE_SECONDS)
        return code
