"""Random faults of a line: of its jobs, broker, topics, contract, table and disk."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import httpx
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from psycopg import sql
from pyiceberg.table.snapshots import ancestors_of
from pyspark.sql import SparkSession

from tests.integration.enforce.checker import Topic, outputs, read_topic
from tests.integration.enforce.job import RunningJob
from tests.integration.enforce.line import KNOWN, Line, Sent, row
from tests.integration.enforce.replaying import new_request, post_request, refusals
from tidegate.contracts.stream.evidence import SENT_BACK_HEADER
from tidegate.contracts.stream.ledger import Position, Vector
from tidegate.contracts.stream.output_topics import accepted_topic, quarantine_topic
from tidegate.contracts.stream.replay import Closed
from tidegate.gateway.exits import ExitCode
from tidegate.spark_jobs.kafka.replayed import require_closed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks.delta.table import table_location
from tidegate.spark_jobs.sinks.iceberg.catalogs import open_table
from tidegate.spark_jobs.sinks.iceberg.history import PUBLISHED_TAG
from tidegate.spark_jobs.sinks.postgresql.table import qualified_name

PARTITIONS = 4
MOST_PARTITIONS = 8
RECORDS_PER_SECOND = 100
KEYS = 500
"""The number of keys of a partition if the sink upserts."""
LONGEST_SECONDS = 45.0
"""The longest wait between two steps. A job takes 10 to 20 s to start on a small machine; the rest is for batches."""
AWAY_SECONDS = 10.0
"""The longest outage of the broker, and of the full disk."""
MOST_SLOTS = 3
EVENTS = ("table_compacted", "compaction_conflicted", "orphans_removed", "table_not_maintained")
"""The maintenance events in the logs of jobs that are counted."""
OF_MAINTENANCE = {"OPTIMIZE", "RESTORE", "VACUUM START", "VACUUM END"}
"""Operations of Delta commits that do not change the ledger."""
MENDS_ALL: dict[str, Any] = {
    "fix": "amount",
    "steps": [{"action": "set", "field": "/amount", "value": 901}],
}
"""A fix with which every contract version accepts a record: versions refuse 999 and some amounts below 900."""
_MOST_REPLAYS = 3
_MOST_ROUNDS = 8
OPTIONS = ("--max-offsets", "500", "--trigger-seconds", "0.1")

Fault = Callable[[], None]


@dataclass(frozen=True)
class World:
    """The environment of a line: how its contract changes, and what stops and starts its broker.

    `disk` is a small file system with tables and checkpoints; None without the permission to mount one.
    """

    environment: dict[str, str]
    changes: Mapping[str, object]
    """The members of every contract version besides its rules."""
    stop_broker: Fault
    start_broker: Fault
    disk: Path | None
    session: Callable[[], SparkSession]
    """Returns the session that changes and reads a Delta table; the first call starts it."""


class Chaos:
    """A line, its jobs and their faults. The seed determines all choices."""

    def __init__(self, line: Line, world: World, seed: int) -> None:
        self._line, self._world = line, world
        self._random = random.Random(seed)  # noqa: S311 - chooses faults, guards nothing
        self._numbers = random.Random(seed + 1)  # noqa: S311 - the same
        self._environment = dict(world.environment)
        self._partitions = PARTITIONS
        self._produced: dict[int, int] = defaultdict(int)
        self._turn = 0
        self._version = 0
        self.faults: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.deleted: dict[str, Topic] = {}
        """The deleted records of each topic, which the account needs."""

    def menu(self) -> dict[str, Fault]:
        """Return the faults that this sink can have, by name."""
        faults: list[Fault] = [
            self.kill,
            self.overtake,
            self.crowd,
            self.restart_broker,
            self.add_partition,
            self.publish_version,
            self.change_slots,
            self.replay,
            self.send_back,
            self.discard,
        ]
        settings = self._line.settings
        if settings.sink == "kafka" or settings.write_mode == "upsert":
            faults.append(self.shorten_retention)
        else:  # a table that goes back would need records that retention has deleted
            faults.append(self.restore if settings.sink == "postgresql" else self.roll_back)
        if self._world.disk is not None:
            faults.append(self.fill_disk)
        return {fault.__name__: fault for fault in faults}

    def run(self, seconds: float, only: Sequence[str] = ()) -> None:
        """Run random faults one after the other until the time is over."""
        begun = time.monotonic()
        menu = self.menu()
        # Replays are frequent and take a while, so that later faults occur during a replay.
        names = only or [*menu, *["kill"] * (len(menu) - 4), *["replay"] * 3]
        while time.monotonic() < begun + seconds:
            name = self._random.choice(names)
            print(f"{time.monotonic() - begun:6.0f} s  {name}", flush=True)
            self.faults[name] += 1
            menu[name]()

    def produce(self, stopping: Event) -> None:
        """Produce records until `stopping` is set: one in eight has the amount 999; with upserts, one in twenty is a tombstone."""
        while not stopping.wait(0.2):
            self._line.produce(*(self._record() for _ in range(RECORDS_PER_SECOND // 5)))

    def _record(self) -> Sent:
        """Return the next record. All records of a key are in one partition."""
        is_upsert = self._line.settings.write_mode == "upsert"
        self._turn += 1
        partition = self._turn % self._partitions
        count = self._produced[partition]
        self._produced[partition] += 1
        number = (count % KEYS if is_upsert else count) * MOST_PARTITIONS + partition
        if is_upsert and self._numbers.random() < 1 / 20:
            return Sent(None, f"r{number}".encode(), partition)
        amount = 999 if self._numbers.random() < 1 / 8 else self._numbers.randrange(900)
        sent = row(number, amount)
        return Sent(sent.value, sent.key, partition)

    def finish(self) -> None:
        """Process all records and replays; then replay all refused records."""
        self._catch_up()
        self._request_replay()
        self._catch_up()

    def _catch_up(self) -> None:
        for _ in range(_MOST_ROUNDS):  # a short job may end before it receives a request
            job = self._start("--available-now", "--max-offsets", "10000")
            code = job.process.wait()
            self._end(job)
            assert code == 0, "".join(job.lines[-20:])
            if not self._open_replays():
                return
        raise AssertionError(f"replays do not end: {self._open_replays()}")

    def closed(self) -> Closed:
        """Return the source positions of refused records that replays have written, discarded or sent to the source."""
        return require_closed(self._line.settings.kafka, self._line.ledger())

    def replayed(self, closed: Closed) -> set[Position]:
        """Return the source positions of refused records that must have been written by replays.

        These are all refusals that exist and are not otherwise closed, and those deleted by retention that the ledger
        names as replayed.
        """
        quarantine = quarantine_topic(self._line.topic)
        gone = {source for source, _ in outputs(self._line, quarantine, self.deleted.get(quarantine, {}))}
        kept = {*refusals(self._line).values()} | {each for each in gone if each in closed.replayed}
        return {each for each in kept if each not in closed.discarded and each not in closed.resent}

    def copies(self) -> Counter[Position]:
        """Return how often each refused record was sent to the source, by its source position."""
        topic = self._line.topic
        records = (self.deleted.get(topic, {}) | dict(read_topic(self._line, topic))).values()
        named = [value for read in records for name, value in read.headers if name == SENT_BACK_HEADER]
        places = [(value or b"").decode().rsplit("/", 2) for value in named]
        return Counter((int(partition), int(offset)) for _, partition, offset in places)

    def _start(self, *options: str) -> RunningJob:
        return RunningJob([self._line.contract_id, *OPTIONS, *options], self._environment)

    def _end(self, job: RunningJob) -> None:
        job.end()
        told = [each for each in job.events if each["event"] in EVENTS]
        self.events.update(f"{each['event']} {each.get('error', '')[:200]}".strip() for each in told)

    def _wait(self, longest: float = LONGEST_SECONDS) -> None:
        time.sleep(self._random.uniform(0, longest))

    def _beside_a_job(self, disturb: Fault) -> None:
        """Run a fault while a job runs, and kill the job later."""
        job = self._start()
        self._wait()
        disturb()
        self._wait()
        self._end(job)

    # Faults of jobs.

    def kill(self) -> None:
        """Kill a job at a random time."""
        job = self._start()
        self._wait()
        self._end(job)

    def overtake(self) -> None:
        """Suspend a job, let another one take over, and resume the first as a zombie."""
        zombie = self._start()
        self._wait()
        zombie.process.send_signal(signal.SIGSTOP)
        heir = self._start()
        self._wait()
        zombie.process.send_signal(signal.SIGCONT)
        self._wait()
        self._end(zombie)
        self._end(heir)

    def replay(self) -> None:
        """Request the replay of all refused records while a job runs, and kill the job later."""
        self._request_beside_a_job(rate=self._random.choice((None, 200, 1000)))

    def send_back(self) -> None:
        """Request that refused records are sent to the source while a job runs, and kill the job later."""
        self._request_beside_a_job(most=self._random.randint(1, 500), action="to-source")

    def discard(self) -> None:
        """Request that refused records are discarded while a job runs, and kill the job later."""
        self._request_beside_a_job(
            most=self._random.randint(1, 100), action="discard", reason="chaos", fix=None
        )

    def _request_beside_a_job(self, **request: Any) -> None:
        job = self._start()
        job.await_event("batch_published")  # only then the registry knows the stream
        self._request_replay(**request)
        self._wait()
        self._end(job)

    def _request_replay(self, most: int | None = None, **terms: Any) -> None:
        """Request a replay with `MENDS_ALL` of all refused records, or of some of them.

        Request nothing if there are no refusals, or if `_MOST_REPLAYS` requests are open.
        """
        line = self._line
        topic = quarantine_topic(line.topic)
        if Topics(line.settings.kafka).identity(topic) is None or len(self._open_replays()) >= _MOST_REPLAYS:
            return
        places = sorted(refusals(line))
        if not places:
            return
        if most is not None:
            places = self._random.sample(places, min(most, len(places)))
        asked = new_request(line, places, **{"fix": MENDS_ALL, "allowed": 1.0, **terms})
        post_request(asked, self._environment["TIDEGATE_REGISTRY_URL"])
        self.events[f"{asked.action.value} of {asked.records} records requested"] += 1

    def _open_replays(self) -> list[str]:
        url = f"{self._environment['TIDEGATE_REGISTRY_URL']}/api/v1/streams/{self._line.contract_id}/replays"
        answer = httpx.get(url, timeout=60)
        if answer.status_code == 404:
            return []
        found = answer.raise_for_status().json()["replays"]
        stopped = [each for each in found if each["state"] == "stopped"]
        assert not stopped, stopped
        return [each["id"] for each in found if each["state"] == "open"]

    def crowd(self) -> None:
        """Start two jobs at once."""
        jobs = [self._start(), self._start()]
        self._wait()
        for job in jobs:
            self._end(job)

    # Faults of the environment.

    def restart_broker(self) -> None:
        """Stop the broker for a while, and start it again."""

        def restart() -> None:
            self._world.stop_broker()
            self._wait(AWAY_SECONDS)
            self._world.start_broker()

        self._beside_a_job(restart)

    def add_partition(self) -> None:
        """Add a partition to the source; it receives records at once."""

        def add() -> None:
            line, more = self._line, self._partitions + 1
            if more > MOST_PARTITIONS:
                return
            client = AdminClient({"bootstrap.servers": line.settings.bootstrap_servers})
            client.create_partitions([NewPartitions(line.topic, more)])[line.topic].result(30)
            while len(Topics(line.settings.kafka).latest(line.topic)) < more:  # until it is known
                time.sleep(0.1)
            self._partitions = more

        self._beside_a_job(add)

    def publish_version(self) -> None:
        """Publish a major version of the contract, which may refuse more records than the previous one."""

        def publish() -> None:
            self._version += 1
            refused = [999, *(self._random.randrange(900) for _ in range(self._version % 3 * 50))]
            rules = [{**KNOWN, "values": refused}]
            document = self._line.document(
                version=f"{1 + self._version}.0.0", rules=rules, **self._world.changes
            )
            url = f"{self._environment['TIDEGATE_REGISTRY_URL']}/api/v1/contracts"
            answer = httpx.post(url, json=document, timeout=60)
            assert answer.is_success, answer.text

        self._beside_a_job(publish)

    def change_slots(self) -> None:
        """Change the number of producers of later jobs."""
        slots = str(self._random.randint(1, MOST_SLOTS))
        self._environment["TIDEGATE_QUARANTINE_SLOTS"] = slots
        if self._line.settings.accepted_slots > 1:  # the tasks of the Kafka sink write
            self._environment["TIDEGATE_ACCEPTED_SLOTS"] = str(self._random.randint(2, MOST_SLOTS))
        self.kill()

    def shorten_retention(self) -> None:
        """Delete the records that no start needs: in the source below the ledger's end, in outputs below `scan_from`.

        Only if tasks write the accepted topic, the ledger has a `scan_from` of it.
        """

        def shorten() -> None:
            if self._line.settings.sink == "delta":  # only Spark reads its table
                self._line.spark = self._world.session()
            ledger = self._line.ledger()
            self._delete(self._line.topic, ledger.end)
            for topic in (quarantine_topic(self._line.topic), accepted_topic(self._line.topic)):
                self._delete(topic, ledger.scan_from.get(topic, {}))

        job = self._start()
        job.await_event("batch_published")  # only then there is a ledger
        self._wait()
        shorten()
        self._wait()
        self._end(job)

    def _delete(self, topic: str, before: Vector) -> None:
        """Delete the records below these offsets, as retention does, and add them to `deleted`."""
        first = {p: offset for p, offset in before.items() if offset > 0}
        if not first:  # a table has no accepted topic
            return
        known = self.deleted.setdefault(topic, {})
        known |= {
            place: read for place, read in read_topic(self._line, topic) if place[1] < first.get(place[0], 0)
        }
        client = AdminClient({"bootstrap.servers": self._line.settings.bootstrap_servers})
        places = [TopicPartition(topic, partition, offset) for partition, offset in first.items()]
        for future in client.delete_records(places).values():
            future.result(30)

    def fill_disk(self) -> None:
        """Fill the disk of tables and checkpoints for a while."""
        assert self._world.disk is not None
        ballast = self._world.disk / "ballast"

        def fill() -> None:
            try:
                with ballast.open("wb", buffering=0) as file:
                    while True:
                        file.write(bytes(65536))
            except OSError:
                self._wait(AWAY_SECONDS)
            finally:
                ballast.unlink(missing_ok=True)

        self._beside_a_job(fill)

    def restore(self) -> None:
        """Restore rows and ledger from an older backup (PostgreSQL)."""
        line = self._line
        table, backup = (
            sql.Identifier(*qualified_name(line.contract_id)),
            sql.Identifier("tidegate", "chaos_backup"),
        )
        job = self._start()
        job.await_event("batch_published")
        with line.database() as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.execute(sql.SQL("CREATE TABLE {} AS SELECT * FROM {}").format(backup, table))
            of_stream = "SELECT epoch, n, ledger FROM tidegate.ledger WHERE stream = %s"
            ledger = connection.execute(of_stream, (line.contract_id,)).fetchone()
        self._wait()
        self._end(job)
        with line.database() as connection:
            connection.execute(sql.SQL("DELETE FROM {}").format(table))
            connection.execute(sql.SQL("INSERT INTO {} SELECT * FROM {}").format(table, backup))
            connection.execute(sql.SQL("DROP TABLE {}").format(backup))
            assert ledger is not None
            change = "UPDATE tidegate.ledger SET epoch = %s, n = %s, ledger = %s WHERE stream = %s"
            connection.execute(change, (*ledger, line.contract_id))

    def roll_back(self) -> None:
        """Roll the table back (Iceberg, Delta). The next job stops and names `tidegate adopt --replace`, which is then run."""
        line = self._line
        job = self._start()
        job.await_event("batch_published")
        self._end(job)
        is_delta = line.settings.sink == "delta"
        if not (self._roll_back_delta() if is_delta else self._roll_back_iceberg()):
            print("          there is one version only, and nothing to go back to")
            return
        job = self._start()
        code, told = job.exit_code(), "".join(job.lines[-20:])
        self._end(job)
        assert code == ExitCode.STOPPED, told
        assert f"tidegate adopt {line.contract_id} --replace" in told, told
        adopt = ["adopt", line.contract_id, "--replace", "--yes"]
        adopted = subprocess.run(
            [sys.executable, "-m", "tidegate.gateway.cli.main", *adopt],
            env={**os.environ, **self._environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert adopted.returncode == 0, adopted.stdout + adopted.stderr

    def _roll_back_iceberg(self) -> bool:
        """Move the head to a snapshot before the published one; return False if there is none."""
        table = open_table(self._line.settings, self._line.contract_id)
        published = table.snapshot_by_name(PUBLISHED_TAG)
        _, *earlier = ancestors_of(published, table.metadata) if published else [None]
        if earlier:
            to = self._random.choice(earlier)
            table.manage_snapshots().rollback_to_snapshot(to.snapshot_id).commit()
        return bool(earlier)

    def _roll_back_delta(self) -> bool:
        """Restore a version before the one that last updated the ledger; return False if there is none."""
        spark = self._world.session()
        name = f"delta.`{table_location(self._line.settings.warehouse, self._line.contract_id)}`"
        history = spark.sql(f"DESCRIBE HISTORY {name}").collect()
        _, *earlier = [each.version for each in history if each.operation not in OF_MAINTENANCE]
        if earlier:
            spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {self._random.choice(earlier)}").collect()
        return bool(earlier)
