"""Kill, stop and crowd a job at random for as long as asked, while records keep coming; then look at every one of them.

Prints its seed, which gives the same faults again (at the same seconds, not at the same records), and ends with status 0
only if nothing is lost, doubled, in both, from nowhere or changed.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import cast

import httpx
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from tests.integration.enforce.checker import CLEAN, account
from tests.integration.enforce.job import RunningJob
from tests.integration.enforce.line import Line, Sent, environment, row
from tests.integration.enforce.registry import Registry
from tests.postgresql import Postgresql, for_psycopg
from tidegate.contracts.errors import NotFoundError
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.jars import Jars, ensure_jars
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.embedded.processes import RunDirectory
from tidegate.spark_jobs.session import build_session
from tidegate.spark_jobs.settings import JobSettings

PARTITIONS = 4
RECORDS_PER_SECOND = 100
KEYS = 500 * PARTITIONS
"""So many keys take turns where the newest of each is kept; one key is always in one partition."""
LONGEST_SECONDS = 45.0
"""A job takes 10 to 20 of them to start on a small machine, and then has some for batches."""
OPTIONS = ("--max-offsets", "500", "--trigger-seconds", "0.1")
SINKS: dict[str, dict[str, object]] = {
    "iceberg": {"sink": "iceberg"},
    "iceberg-upsert": {"sink": "iceberg", "write_mode": "upsert"},
    "delta": {"sink": "delta"},
    "delta-upsert": {"sink": "delta", "write_mode": "upsert"},
    "kafka": {"sink": "kafka"},
    "kafka-tasks": {"sink": "kafka", "accepted_slots": 2},
    "postgresql": {"sink": "postgresql"},
    "postgresql-upsert": {"sink": "postgresql", "write_mode": "upsert"},
}
KEYED: dict[str, object] = {"primary_key": ["id"], "tombstones": "delete"}


class Chaos:
    """A line, its jobs, and what is done to them."""

    def __init__(self, line: Line, registry_url: str, jars: Jars, seed: int) -> None:
        self._line = line
        self._environment = environment(line, jars, registry_url)
        self._random = random.Random(seed)  # noqa: S311 - chooses faults, guards nothing
        self._numbers = random.Random(seed + 1)  # noqa: S311 - the same
        self._produced = 0
        self.faults: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        """Do one fault after the other until the time is over."""
        deadline = time.monotonic() + seconds
        faults: tuple[Callable[[], None], ...] = (
            self._kill,
            self._kill,
            self._kill,
            self._overtake,
            self._crowd,
        )
        while time.monotonic() < deadline:
            fault = self._random.choice(faults)
            self.faults[fault.__name__.removeprefix("_")] += 1
            fault()

    def produce(self, stopping: Event) -> None:
        """Produce records until it is told to stop; one in eight is refused, and one in twenty a tombstone for upserts."""
        while not stopping.wait(0.2):
            self._line.produce(*(self._record() for _ in range(RECORDS_PER_SECOND // 5)))

    def _record(self) -> Sent:
        is_upsert = self._line.settings.write_mode == "upsert"
        number = self._produced % KEYS if is_upsert else self._produced
        partition = self._produced % PARTITIONS
        self._produced += 1
        if is_upsert and self._numbers.random() < 1 / 20:
            return Sent(None, f"r{number}".encode(), partition)
        amount = 999 if self._numbers.random() < 1 / 8 else self._numbers.randrange(900)
        sent = row(number, amount)
        return Sent(sent.value, sent.key, partition)

    def finish(self) -> None:
        """Let one job catch up with all there is."""
        job = self._start("--available-now")
        code = job.process.wait()
        job.end()
        assert code == 0, "".join(job.lines[-20:])

    def _start(self, *options: str) -> RunningJob:
        return RunningJob([self._line.contract_id, *OPTIONS, *options], self._environment)

    def _wait(self) -> None:
        time.sleep(self._random.uniform(0, LONGEST_SECONDS))

    def _kill(self) -> None:
        job = self._start()
        self._wait()
        job.end()

    def _overtake(self) -> None:
        """Stop a job, let another take over, and let the first go on as a zombie."""
        zombie = self._start()
        self._wait()
        zombie.process.send_signal(signal.SIGSTOP)
        heir = self._start()
        self._wait()
        zombie.process.send_signal(signal.SIGCONT)
        self._wait()
        zombie.end()
        heir.end()

    def _crowd(self) -> None:
        """Start two at once."""
        jobs = [self._start(), self._start()]
        self._wait()
        for job in jobs:
            job.end()


def _line(bootstrap: str, folder: Path, sink: dict[str, object]) -> Line:
    known: dict[str, object] = {
        "bootstrap_servers": bootstrap,
        "registry_url": "http://none",
        "warehouse": folder / "warehouse",
        "checkpoints": folder / "checkpoints",
    }
    settings = JobSettings.model_validate(known | sink)
    topic = "chaos"
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    # Its jobs are processes of their own: a session is only needed to look at a table of Delta, and started for that.
    return Line(cast("SparkSession", None), settings, topic, "test.chaos")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))  # noqa: S311 - as above
    parser.add_argument("--sink", choices=SINKS, default="iceberg")
    asked = parser.parse_args()
    print(f"seed {asked.seed}, sink {asked.sink}", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-chaos-")))
        jars = ensure_jars()
        options = BrokerOptions(preferred_port=None, java_options=("-Xms64m", "-Xmx768m"))
        run = RunDirectory(folder / "run", folder / "logs")
        broker = stack.enter_context(Broker(folder / "broker", run, jars, find_java(), options))
        registry = Registry(folder, 0)
        stack.callback(registry.stop)
        sink = SINKS[asked.sink]
        if sink["sink"] == "postgresql":
            server = stack.enter_context(Postgresql.running())
            database = stack.enter_context(server.database(template="template0"))
            sink = {**sink, "postgresql_url": for_psycopg(database)}
        line = _line(broker.bootstrap, folder, sink)
        changes = KEYED if line.settings.write_mode == "upsert" else {}
        document, line.contracts.plan = line.document(**changes), line.plan(**changes)
        httpx.post(f"{registry.url}/api/v1/contracts", json=document).raise_for_status()
        chaos = Chaos(line, registry.url, jars, asked.seed)
        stopping = Event()
        producing = Thread(target=chaos.produce, args=(stopping,))
        producing.start()
        try:
            chaos.run(asked.seconds)
        finally:
            stopping.set()
            producing.join()
        chaos.finish()
        if line.settings.sink == "delta":
            line.spark = build_session(line.settings.model_copy(update={"spark_jars": jars.spark_dir}))
            stack.callback(line.spark.stop)
        return report(line, chaos.faults)


def report(line: Line, faults: Counter[str]) -> int:
    """Print what became of the records; returns the status to end with."""
    try:
        found, reconciled, ledger = account(line), line.reconcile(), line.ledger()
    except NotFoundError as error:
        print(f"nothing was ever published: {error}")
        return 1
    done = ", ".join(f"{count} {name}" for name, count in sorted(faults.items()))
    print(f"faults: {done}; epoch {ledger.epoch}, {ledger.n} batches")
    print(f"records: {ledger.totals.offsets:,}, of them {ledger.totals.quarantined:,} quarantined")
    for name in ("lost", "doubled", "in_both", "from_nowhere", "changed"):
        positions = getattr(found, name)
        print(f"{name.replace('_', ' '):>14} {len(positions):,} {positions[:10] if positions else ''}")
    print(f"reconcile: {'every offset has one fate' if reconciled.holds else reconciled}")
    return 0 if found == CLEAN and reconciled.holds else 1


if __name__ == "__main__":
    sys.exit(main())
