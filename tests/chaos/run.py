"""Disturb a job at random for as long as asked, while records keep coming; then look at every one of them.

Jobs are killed, stopped, overtaken and crowded; the broker goes away, and the disk is full; the source gets partitions, the
contract versions, the job other slots; refused records are replayed, sent to the source and discarded; records are deleted
by retention, or the table is rolled back (`faults.py`). Prints its seed, which gives the same faults again (at the same
seconds, not at the same records), and each fault. Ends with status 0 only if nothing is lost, doubled, in both, from nowhere
or changed, and if each refused record was written by a replay, sent to the source once, or discarded.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import cast

import httpx
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from tests.chaos.faults import PARTITIONS, Chaos, World
from tests.integration.enforce.checker import CLEAN, account
from tests.integration.enforce.line import Line, environment
from tests.integration.enforce.registry import Registry
from tests.postgresql import Postgresql, for_psycopg
from tidegate.contracts.errors import NotFoundError
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.jars import Jars, ensure_jars
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.embedded.processes import RunDirectory
from tidegate.spark_jobs.session import build_session
from tidegate.spark_jobs.settings import JobSettings

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
MAINTENANCE = {
    "TIDEGATE_MAINTENANCE_SECONDS": "1",
    "TIDEGATE_COMPACTION_MIN_FILES": "5",
    "TIDEGATE_ORPHAN_AGE_SECONDS": "0",
    "TIDEGATE_SNAPSHOTS_KEPT": "20",
    "TIDEGATE_SNAPSHOT_PROTECTED_SECONDS": "30",
}
"""Settings for the most frequent maintenance beside the batches."""
DISK_MEGABYTES = 512
KEYED: dict[str, object] = {"primary_key": ["id"], "tombstones": "delete"}


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
    # Jobs run in their own processes. Only reading a Delta table needs a session, which is started for that.
    return Line(cast("SparkSession", None), settings, topic, "test.chaos")


class _Broker:
    """A broker that keeps its data and its address when it is restarted."""

    def __init__(self, folder: Path, jars: Jars) -> None:
        self._folder, self._jars = folder, jars
        self._port: int | None = None
        self._broker: Broker | None = None

    @property
    def bootstrap(self) -> str:
        """Return the address; `start` must have been called."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        options = BrokerOptions(port=self._port, preferred_port=None, java_options=("-Xms64m", "-Xmx768m"))
        run = RunDirectory(self._folder / "run", self._folder / "logs")
        self._broker = Broker(self._folder / "broker", run, self._jars, find_java(), options)
        self._broker.start()
        self._port = int(self._broker.bootstrap.rpartition(":")[2])

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))  # noqa: S311 - as above
    parser.add_argument("--sink", choices=SINKS, default="iceberg")
    parser.add_argument("--only", metavar="FAULT", action="append", default=[], help="only these faults")
    asked = parser.parse_args()
    print(f"seed {asked.seed}, sink {asked.sink}", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-chaos-")))
        jars = ensure_jars()
        broker = _Broker(folder, jars)
        stack.callback(broker.stop)
        broker.start()
        registry = Registry(folder, 0)
        stack.callback(registry.stop)
        sink = SINKS[asked.sink]
        if sink["sink"] == "postgresql":
            server = stack.enter_context(Postgresql.running())
            database = stack.enter_context(server.database(template="template0"))
            sink = {**sink, "postgresql_url": for_psycopg(database)}
        disk = _small_disk(folder, stack)
        line = _line(broker.bootstrap, disk or folder, sink)
        changes = KEYED if line.settings.write_mode == "upsert" else {}
        document, line.contracts.plan = line.document(**changes), line.plan(**changes)
        httpx.post(f"{registry.url}/api/v1/contracts", json=document, timeout=60).raise_for_status()
        settings = {**environment(line, jars, registry.url), **MAINTENANCE, "TIDEGATE_HEARTBEAT_SECONDS": "1"}

        @cache
        def session() -> SparkSession:
            spark = build_session(line.settings.model_copy(update={"spark_jars": jars.spark_dir}))
            stack.callback(spark.stop)
            return spark

        world = World(settings, changes, broker.stop, broker.start, disk, session)
        chaos = Chaos(line, world, asked.seed)
        stopping = Event()
        producing = Thread(target=chaos.produce, args=(stopping,))
        producing.start()
        try:
            chaos.run(asked.seconds, asked.only)
        finally:
            stopping.set()
            producing.join()
        chaos.finish()
        print(f"maintenance: {dict(sorted(chaos.events.items()))}")
        if line.settings.sink == "delta":
            line.spark = session()
        return report(line, chaos)


def _small_disk(folder: Path, stack: ExitStack) -> Path | None:
    """Mount a small file system and return its folder; `stack` unmounts it. Return None if the user is not root."""
    if os.geteuid() != 0:
        print("the disk is not filled: that needs root")
        return None
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "tmpfs", str(disk)], check=True)
    stack.callback(subprocess.run, ["umount", "--lazy", str(disk)], check=True)
    return disk


def report(line: Line, chaos: Chaos) -> int:
    """Print the account of the records; return the exit status: 0 if nothing is wrong, else 1."""
    faults = chaos.faults
    try:
        closed, copies = chaos.closed(), chaos.copies()
        replayed = chaos.replayed(closed)
        found = account(line, chaos.deleted, replayed=replayed)
        reconciled, ledger = line.reconcile(), line.ledger()
    except NotFoundError as error:
        print(f"nothing was ever published: {error}")
        return 1
    done = ", ".join(f"{count} {name}" for name, count in sorted(faults.items()))
    print(f"faults: {done}; epoch {ledger.epoch}, {ledger.n} batches")
    print(
        f"records: {ledger.totals.offsets:,}, of them {ledger.totals.quarantined:,} quarantined, {len(replayed):,} "
        f"replayed, {len(copies):,} sent back, {len(closed.discarded):,} discarded"
    )
    is_sent_once = copies == Counter({*closed.resent})
    if not is_sent_once:
        wrong = Counter({*closed.resent})
        print(f"sent back, not exactly once: {[*(copies - wrong), *(wrong - copies)][:10]}")
    for name in ("lost", "doubled", "in_both", "from_nowhere", "changed"):
        positions = getattr(found, name)
        print(f"{name.replace('_', ' '):>14} {len(positions):,} {positions[:10] if positions else ''}")
    # Deleted records cannot be proven, but the account includes them.
    holds = reconciled.holds or (bool(chaos.deleted) and reconciled.answer is ReconciliationAnswer.UNPROVEN)
    if reconciled.holds:
        print("reconcile: every offset has one fate")
    elif holds:
        print(
            f"reconcile: {reconciled.past_retention:,} offsets are beyond proof, because retention deleted records"
        )
    else:
        print(f"reconcile: {reconciled}")
    return 0 if found == CLEAN and holds and is_sent_once else 1


if __name__ == "__main__":
    sys.exit(main())
