"""`tidegate serve` as a process, and many clients at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import httpx
import orjson

from tidegate.gateway.http.models.examples import CONTRACT, REPORT

CONTRACTS = "/api/v1/contracts"
BATCHES = "/api/v1/streams/hospital.admissions/batches"
TIDEGATE = (sys.executable, "-m", "tidegate.gateway.cli.main")


class Server:
    """One `tidegate serve` on a free port; it is ready when this returns."""

    def __init__(self, database_url: str, environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*TIDEGATE, "serve", "--port", "0", "--database-url", database_url],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.log: list[dict[str, object]] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(json.loads(line))
            if self.log[-1]["event"] == "registry_listening":
                break
        self.url = f"http://127.0.0.1:{self.log[-1]['port']}"
        self.http = httpx.Client(base_url=self.url, timeout=60, limits=httpx.Limits(max_connections=64))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()

    def publish(self, document: bytes | str) -> httpx.Response:
        return self.http.post(CONTRACTS, content=document, headers={"Content-Type": "application/yaml"})

    def report(self, n: int) -> httpx.Response:
        return self.http.post(BATCHES, json=REPORT | {"n": n})

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, list[dict[str, object]]]:
        """Send a signal; give the exit code and the rest of the log."""
        self.process.send_signal(how)
        _, rest = self.process.communicate()
        return self.process.returncode, [json.loads(line) for line in rest.splitlines()]


def version(number: int) -> bytes:
    return orjson.dumps(CONTRACT | {"version": f"1.{number}.0"})


def together(count: int, work: Callable[[int], httpx.Response]) -> list[httpx.Response]:
    """Run `work` in `count` threads that begin at the same moment."""
    barrier = threading.Barrier(count)

    def run(number: int) -> httpx.Response:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
