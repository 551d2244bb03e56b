"""Measure what an operator waits for: records that come slowly, and a job that was killed.

The job is `tidegate enforce` in a process of its own, with a real broker, a real registry and default settings.
*Latency*: records are produced at a steady rate; a record's time ends when the job logs that its batch is published. It is
measured with the default sink and a trigger of 0.5 s, and with the Kafka sink. *Restart*: from kill -9 to the first batch
that the next process publishes, while records arrive. *Archived*: the same from an archive of Java's classes, as
how-to/run-the-job.md describes. *Takeover*: the same with a standby, whose wait for the lease (10 s) is included.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.admissions_data import contract, values
from benchmarks.figures import Figure, benchmark_parser, report_figures
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.jars import ensure_jars
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.embedded.processes import RunDirectory

RATE: Final = 1_000
MEDIAN_BOUND: Final = 0.9
KAFKA_MEDIAN_BOUND: Final = 0.5
P99_BOUND: Final = 2.5
RESTART_BOUND: Final = 12.0
TAKEOVER_BOUND: Final = 15.0
"""The length of the lease plus five seconds."""
_DEADLINE: Final = 180.0


@dataclass
class Job:
    """The process of a job, and the events of its log."""

    process: subprocess.Popen[str]
    published: list[tuple[float, int]] = field(default_factory=list)
    """The time of the log event (`time.time`) and the number of records of each published batch."""
    is_waiting: bool = False
    """Whether it has reported that it is a standby."""

    def read(self) -> None:
        """Read the log until the process ends."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            event: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "batch_published":
                self.published.append((time.time(), event["records"]))
            self.is_waiting |= event.get("event") == "stream_standing_by"

    @property
    def records(self) -> int:
        """Return the number of records that this process has published."""
        return sum(records for _, records in self.published)


class Feed:
    """A producer of records at RATE to one partition; `sent` has the time of each record."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._values = values(20_000)
        self.sent: list[float] = []

    def run(self, stopping: threading.Event) -> None:
        """Produce until `stopping` is set."""
        begun = time.time()
        while not stopping.wait(0.01):
            due = int((time.time() - begun) * RATE)
            while len(self.sent) < due:
                self._producer.produce(
                    self._topic, self._values[len(self.sent) % len(self._values)], partition=0
                )
                self.sent.append(time.time())
            self._producer.poll(0)
        assert not self._producer.flush(60)


class Line:
    """A topic with a contract, and jobs that enforce it and write to `sink`."""

    def __init__(self, folder: Path, bootstrap: str, registry: str, sink: str = "iceberg") -> None:
        self.bootstrap = bootstrap
        self.topic = f"bench.{sink}.admissions"
        self._folder = folder
        self._environment = {
            **os.environ,
            "TIDEGATE_BOOTSTRAP_SERVERS": bootstrap,
            "TIDEGATE_REGISTRY_URL": registry,
            "TIDEGATE_SINK": sink,
            **({} if sink == "kafka" else {"TIDEGATE_TRIGGER_SECONDS": "0.5"}),  # the default for topics
            "TIDEGATE_WAREHOUSE": str(folder / "warehouse"),
            "TIDEGATE_CHECKPOINTS": str(folder / "checkpoints"),
            "TIDEGATE_SPARK_JARS": str(_own_jars(folder)),
        }
        client = AdminClient({"bootstrap.servers": bootstrap})
        client.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result(30)
        # No budget, because replay_beside_live refuses all records of its source.
        names = {"id": f"bench.{sink}", "topic": self.topic, "error_budget": None}
        governing = contract().model_copy(update=names)
        self.stream = governing.id
        document = governing.model_dump(mode="json", by_alias=True, exclude_none=True)
        httpx.post(f"{registry}/api/v1/contracts", json=document).raise_for_status()

    @contextmanager
    def feed(self) -> Iterator[Feed]:
        """Run a feed during the context."""
        feed, stopping = Feed(self.bootstrap, self.topic), threading.Event()
        thread = threading.Thread(target=feed.run, args=(stopping,))
        thread.start()
        try:
            yield feed
        finally:
            stopping.set()
            thread.join()

    def archive_classes(self) -> None:
        """End a job in order: it writes the archive of Java classes from which later jobs start."""
        with self.job() as job:
            wait_until(lambda: bool(job.published))
            job.process.terminate()
            job.process.wait(_DEADLINE)
        assert any(self._folder.glob("classes-*.jsa"))

    @contextmanager
    def job(self) -> Iterator[Job]:
        """Run a job, and kill it at the end."""
        command = [sys.executable, "-m", "tidegate.gateway.cli.main", "enforce", self.stream]
        process = subprocess.Popen(command, env=self._environment, stderr=subprocess.PIPE, text=True)
        job = Job(process)
        reader = threading.Thread(target=job.read)
        reader.start()
        try:
            yield job
        finally:
            process.kill()
            process.wait()
            reader.join()


def _own_jars(folder: Path) -> Path:
    """Return a link in `folder` to the jars. Jobs write their archive of classes beside it, so none exists at first."""
    jars = folder / "spark"
    if not jars.exists():
        jars.symlink_to(ensure_jars().spark_dir)
    return jars


def main() -> None:
    """Start broker and registry, measure, write the figures."""
    arguments = benchmark_parser(__doc__).parse_args()
    warm, measured, restarts = (2, 5, 1) if arguments.smoke else (30, 60, 3)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-operations-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        run = RunDirectory(folder / "run", folder / "logs")
        broker = stack.enter_context(
            Broker(folder / "broker", run, ensure_jars(), find_java(), BrokerOptions())
        )
        address = stack.enter_context(registry(folder))
        line = Line(folder, broker.bootstrap, address)
        with line.feed() as feed:
            to_table = sorted(measure_latency(line, feed, warm, measured))
            restart = statistics.median(measure_restart(line) for _ in range(restarts))
            takeover = statistics.median(measure_takeover(line) for _ in range(restarts))
            line.archive_classes()
            archived = statistics.median(measure_restart(line) for _ in range(restarts))
        line = Line(folder, broker.bootstrap, address, "kafka")
        with line.feed() as feed:
            to_topic = sorted(measure_latency(line, feed, warm, measured))
    figures = [
        Figure.of("latency_median", percentile(to_table, 50), "s", MEDIAN_BOUND),
        Figure.of("latency_p99", percentile(to_table, 99), "s", P99_BOUND),
        Figure.of("latency_median_kafka", percentile(to_topic, 50), "s", KAFKA_MEDIAN_BOUND),
        Figure.of("latency_p99_kafka", percentile(to_topic, 99), "s", P99_BOUND),
        Figure.of("restart_after_kill", restart, "s", RESTART_BOUND),
        Figure.of("restart_after_kill_archived", archived, "s", restart),
        Figure.of("takeover_after_kill", takeover, "s", TAKEOVER_BOUND),
    ]
    report_figures(figures, arguments.out)


def measure_latency(line: Line, feed: Feed, warm: float, measured: float) -> list[float]:
    """Return the latencies of the records of `measured` seconds, after `warm` seconds."""
    with line.job() as job:
        wait_until(lambda: bool(job.published) and job.records > len(feed.sent) - RATE)
        time.sleep(warm)
        first = len(feed.sent)
        time.sleep(measured)
        last = len(feed.sent)
        return latencies(job, feed, first, last)


def latencies(job: Job, feed: Feed, first: int, last: int) -> list[float]:
    """Wait until the records `first` to `last` are published; return the seconds from produce to publication of each.

    The job must have published all records of the feed from the first.
    """
    wait_until(lambda: job.records >= last)
    told, counts = zip(*job.published, strict=True)
    ends = list(accumulate(counts))
    found, batch = [], 0
    for index in range(first, last):
        while ends[batch] <= index:
            batch += 1
        found.append(told[batch] - feed.sent[index])
    return found


def percentile(ascending: list[float], percent: int) -> float:
    """Return a percentile of values in ascending order."""
    return ascending[len(ascending) * percent // 100]


def measure_restart(line: Line) -> float:
    """Return the seconds from the end of a killed job to the first batch of the next."""
    with line.job() as job:
        wait_until(lambda: bool(job.published))
        job.process.send_signal(signal.SIGKILL)
    begun = time.time()
    with line.job() as job:
        wait_until(lambda: bool(job.published))
        return job.published[0][0] - begun


def measure_takeover(line: Line) -> float:
    """Return the seconds from the end of a killed job to the first batch of its standby."""
    with line.job() as first, line.job() as standby:
        wait_until(lambda: bool(first.published or standby.published))
        wait_until(lambda: first.is_waiting or standby.is_waiting)
        killed, heir = (standby, first) if first.is_waiting else (first, standby)
        # No wait for the end of the process: the lease of a process that does not exist on this machine ends at once.
        killed.process.send_signal(signal.SIGKILL)
        begun = time.time()
        wait_until(lambda: bool(heir.published))
        return heir.published[0][0] - begun


def wait_until(is_so: Callable[[], bool], seconds: float = _DEADLINE) -> None:
    """Wait until `is_so` returns True. Raise TimeoutError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError("the job did not get there")
        time.sleep(0.05)


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run a registry, and yield its address."""
    command = [sys.executable, "-m", "tidegate.gateway.cli.main", "serve", "--port", "0"]
    command += ["--database-url", f"sqlite:///{folder}/registry.db"]
    with (folder / "registry.log").open("w") as log:
        process = subprocess.Popen(command, stderr=log)
        try:
            yield f"http://127.0.0.1:{_port(folder / 'registry.log')}"
        finally:
            process.terminate()
            process.wait(30)


def _port(log: Path) -> int:
    def found() -> list[dict[str, Any]]:
        events = [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line[-1] == "\n"]
        return [event for event in events if event["event"] == "registry_listening"]

    wait_until(lambda: bool(found()))
    return int(found()[0]["port"])


if __name__ == "__main__":
    main()
