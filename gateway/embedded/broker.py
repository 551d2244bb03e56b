"""A real single-node Kafka broker (KRaft) on loopback, from the locked jars."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.gateway.embedded import ports
from tidegate.gateway.embedded.jars import Jars
from tidegate.gateway.embedded.java import Java
from tidegate.gateway.embedded.processes import Child, Command, RunDirectory

_START_DEADLINE_SECONDS = 90
_STOP_DEADLINE_SECONDS = 20
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_CLUSTER_ID = re.compile(r"^cluster\.id=(?P<id>\S+)$", re.MULTILINE)

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    # A mistyped topic name is an error, not a new topic.
    "auto.create.topics.enable": "false",
    "num.partitions": "4",
    # One node holds the only copy of everything; few partitions, so that the first transaction does not wait.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # No other consumer will join, so the first one need not wait.
    "group.initial.rebalance.delay.ms": "0",
    # Timestamps of records may be years old: retention must not delete them.
    "log.retention.ms": "-1",
    "log.message.timestamp.before.max.ms": str(2**63 - 1),
    # Sized for a laptop: the cleaner alone would take 128 MiB.
    "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
    "log.segment.bytes": str(256 * 1024 * 1024),
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}

# Texts in the broker's log, and their meaning for the user.
_DIAGNOSES = (
    ("No space left on device", "the disk of {directory} is full: free some space"),
    ("Address already in use", "another process took its port"),
    ("OutOfMemoryError", "it ran out of memory"),
    ("Permission denied", "it may not write to {directory}"),
)


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The options of a broker.

    `port` is required to be free. If it is None, the port of the last start, `preferred_port` or a random port is used.
    The broker needs `minimum_free_bytes` of free disk space to start. `java_options` precede the class path.
    """

    port: int | None = None
    preferred_port: int | None = ports.BROKER_PORT
    minimum_free_bytes: int = 512 * 1024 * 1024
    java_options: tuple[str, ...] = ("-Xms128m", "-Xmx1g")


class Broker:
    """A broker with its data in `directory`, which restarts keep. A context manager that starts and stops it."""

    def __init__(
        self, directory: Path, run: RunDirectory, jars: Jars, java: Java, options: BrokerOptions | None = None
    ) -> None:
        self._directory = directory
        self._run = run
        self._jars = jars
        self._java = java
        self._options = options or BrokerOptions()
        self._child: Child | None = None
        self._claims: tuple[ports.ClaimedPort, ...] = ()
        self._cluster_id = ""

    @property
    def bootstrap(self) -> str:
        """Return its address, such as 127.0.0.1:19092. Call it after the start."""
        return f"{ports.HOST}:{self._claims[0].port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and return when it answers a metadata request.

        Raises SettingsError if its port is in use or the disk is full. Raises Unavailable, with the end of its log,
        if it does not start.
        """
        try:
            self.launch()
            self.await_ready()
        except BaseException:
            self.stop()
            raise

    def launch(self) -> None:
        """Start its process and return. Raises SettingsError (port, disk), or Unavailable if its storage cannot be formatted."""
        self._require_space()
        self._claim_ports()
        configuration = self._configure()
        self._cluster_id = self._format(configuration)
        arguments = self._java_command(self._options.java_options, "kafka.Kafka", str(configuration))
        self._child = self._run.start(Command("broker", arguments))

    def await_ready(self) -> None:
        """Wait until it answers a metadata request. Raises Unavailable if it ends, or does not answer in time."""
        deadline = time.monotonic() + _START_DEADLINE_SECONDS
        # Without log_level 0, the client logs each refused connection until the broker listens.
        client = AdminClient(
            {"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200}
        )
        while time.monotonic() < deadline:
            self.check()
            try:
                metadata = client.list_topics(timeout=0.5)
            except KafkaException:
                continue
            if metadata.cluster_id != self._cluster_id:
                raise Unavailable(
                    f"another broker answers on {self.bootstrap}: cluster {metadata.cluster_id}"
                )
            if metadata.brokers:
                return
        log = self._child.tail() if self._child else ""
        raise Unavailable(f"the broker did not answer within {_START_DEADLINE_SECONDS} s\n{log}")

    def stop(self) -> None:
        """Stop it cleanly, so that the next start needs no recovery; kill it after a deadline."""
        if self._child is not None:
            self._child.stop(deadline_seconds=_STOP_DEADLINE_SECONDS)
            self._child = None
        for claim in self._claims:
            claim.release()

    def check(self) -> None:
        """Raise Unavailable, with the reason and the end of its log, if its process has ended."""
        if self._child is not None and self._child.exit_code() is not None:
            raise Unavailable(self._post_mortem(self._child))

    def _require_space(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._directory).free
        if free < self._options.minimum_free_bytes:
            needed = self._options.minimum_free_bytes // 2**20
            raise SettingsError(
                f"the disk of {self._directory} is full: {free // 2**20} MiB free, the broker needs {needed} MiB"
            )

    def _claim_ports(self) -> None:
        """Claim a port for clients and one for the controller."""
        port, preferred = self._options.port, self._options.preferred_port
        last = self._directory / "port"
        if port is None:
            first = ports.claim(preferred, last=last)
            ports.keep(last, first.port)
        else:
            first = ports.claim_exactly(port, option="--broker-port")
        self._claims = (first, ports.claim())

    def _configure(self) -> Path:
        controller = f"{ports.HOST}:{self._claims[1].port}"
        settings = _SETTINGS | {
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str((self._directory / "data").absolute()),
        }
        path = self._directory / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path

    def _format(self, configuration: Path) -> str:
        """Format the storage if it is new; return the cluster id. Raises Unavailable, SettingsError."""
        properties = self._directory / "data" / "meta.properties"
        if not properties.exists():
            cluster_id = _new_cluster_id()
            arguments = ("format", "-t", cluster_id, "-c", str(configuration))
            tool = self._java_command(_SHORT_LIVED, "kafka.tools.StorageTool", *arguments)
            answer = subprocess.run(tool, capture_output=True, text=True, check=False)
            if answer.returncode != 0:
                raise Unavailable(
                    f"the broker's storage could not be formatted{self._reason(answer.stdout + answer.stderr)}\n"
                    f"{answer.stderr.strip()}"
                )
        match = _CLUSTER_ID.search(properties.read_text())
        if match is None:
            raise SettingsError(f"{properties} names no cluster: start from scratch with --fresh")
        return match["id"]

    def _java_command(self, options: tuple[str, ...], main_class: str, *arguments: str) -> list[str]:
        logging = Path(__file__).with_name("log4j2.properties")
        return [
            *(str(self._java.path), *options, f"-Dlog4j2.configurationFile={logging}"),
            *("-cp", f"{self._jars.broker_dir}/*", main_class, *arguments),
        ]

    def _post_mortem(self, child: Child) -> str:
        log = child.tail(200)
        last = "\n".join(log.splitlines()[-15:])
        return f"the broker ended (exit {child.exit_code()}){self._reason(log)}\nEnd of {child.log}:\n{last}"

    def _reason(self, log: str) -> str:
        for sign, meaning in _DIAGNOSES:
            if sign in log:
                return f": {meaning.format(directory=self._directory)}"
        return ""


def _new_cluster_id() -> str:
    """Return 22 characters of URL-safe base64 over 16 bytes. Source: org.apache.kafka.common.Uuid.randomUuid."""
    while True:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not cluster_id.startswith("-"):  # an initial hyphen would make it an option on the command line
            return cluster_id
