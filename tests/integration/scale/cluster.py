"""A Spark standalone cluster: master and workers as processes of this machine, or of network namespaces on it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tidegate.gateway.embedded import ports
from tidegate.gateway.embedded.ivy import pyspark_home

DEADLINE_SECONDS = 300


class SparkCluster:
    """One master and two workers of one core each, with their logs and working folders in `folder`."""

    def __init__(self, folder: Path, host: str = ports.HOST, within: Sequence[str] = ()) -> None:
        self._folder = folder
        self._host = host
        self._within = within
        claims = [ports.claim() for _ in range(2)]
        self._port, web = (claim.port for claim in claims)
        for claim in claims:
            claim.release()
        self.processes: list[subprocess.Popen[bytes]] = []
        self._start(
            "master",
            "org.apache.spark.deploy.master.Master",
            "--port",
            str(self._port),
            "--webui-port",
            str(web),
        )
        self._await("master", "I have been elected leader")
        for number in (1, 2):
            options = (
                "--cores",
                "1",
                "--memory",
                "1200m",
                "--webui-port",
                "0",
                "--work-dir",
                str(self.work(number)),
            )
            self._start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *options, self.url)
        for number in (1, 2):
            self._await(f"worker-{number}", "Successfully registered with master")

    @property
    def url(self) -> str:
        return f"spark://{self._host}:{self._port}"

    def work(self, number: int) -> Path:
        """The folder under which a worker keeps the logs of its executors."""
        return self._folder / f"work-{number}"

    def executors(self, number: int) -> list[Path]:
        """The logs of the executors that a worker has started."""
        return sorted(self.work(number).glob("app-*/*/stderr"))

    def kill(self, number: int) -> None:
        """End the master (0) or a worker with its executors at once, as a machine that loses its power."""
        if self.processes[number].poll() is None:
            parent = psutil.Process(self.processes[number].pid)
            for process in (*parent.children(recursive=True), parent):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self.processes[number].wait(DEADLINE_SECONDS)

    def stop(self) -> None:
        for number in reversed(range(len(self.processes))):
            self.kill(number)

    def _start(self, name: str, main_class: str, *options: str) -> None:
        command = [
            *self._within,
            str(pyspark_home() / "bin" / "spark-class"),
            main_class,
            "--host",
            self._host,
            *options,
        ]
        env = {
            **os.environ,
            "SPARK_HOME": str(pyspark_home()),
            "SPARK_LOCAL_IP": self._host,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with self._log(name).open("wb") as log:
            self.processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _await(self, name: str, told: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while told not in self._log(name).read_text():
            assert time.monotonic() < deadline, self._log(name).read_text()
            assert all(process.poll() is None for process in self.processes), self._log(name).read_text()
            time.sleep(0.1)
