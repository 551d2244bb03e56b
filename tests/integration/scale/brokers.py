"""A Kafka cluster (KRaft): each node is broker and controller, a process of this machine, on an address of one's choosing."""

from __future__ import annotations

import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.gateway.embedded import ports
from tidegate.gateway.embedded.jars import Jars
from tidegate.gateway.embedded.java import Java

QUICK_JAVA = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
DEADLINE_SECONDS = 300


class KafkaCluster:
    """Some nodes that hold every topic's partitions together, started; `nodes` are their processes."""

    def __init__(self, folder: Path, jars: Jars, java: Java, count: int, host: str = ports.HOST) -> None:
        self._folder = folder
        self._jars = jars
        self._java = java
        claims = [ports.claim() for _ in range(2 * count)]
        found = [claim.port for claim in claims]
        for claim in claims:
            claim.release()
        clients, controllers = found[:count], found[count:]
        self.bootstrap = ",".join(f"{host}:{port}" for port in clients)
        voters = ",".join(f"{number}@{host}:{port}" for number, port in enumerate(controllers, start=1))
        identity = "A" + urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        self.nodes: list[subprocess.Popen[bytes]] = []
        for number, (client, controller) in enumerate(zip(clients, controllers, strict=True), start=1):
            settings = {
                "process.roles": "broker,controller",
                "node.id": str(number),
                "listeners": f"PLAINTEXT://{host}:{client},CONTROLLER://{host}:{controller}",
                "advertised.listeners": f"PLAINTEXT://{host}:{client}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "log.dirs": str(folder / f"data-{number}"),
                "auto.create.topics.enable": "false",
                "default.replication.factor": str(count),
                "min.insync.replicas": str(count - 1 or 1),
                "offsets.topic.num.partitions": "4",
                "offsets.topic.replication.factor": str(count),
                "transaction.state.log.num.partitions": "4",
                "transaction.state.log.replication.factor": str(count),
                "transaction.state.log.min.isr": str(count - 1 or 1),
                # A dead node is missed within seconds, not within half a minute.
                "broker.session.timeout.ms": "6000",
                "broker.heartbeat.interval.ms": "1000",
                "log.retention.ms": "-1",
                "log.message.timestamp.before.max.ms": str(2**63 - 1),
                "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
            }
            properties = folder / f"node-{number}.properties"
            properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            tool = self._command("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(properties))
            subprocess.run(tool, check=True, capture_output=True)
            with (folder / f"node-{number}.log").open("wb") as log:
                command = self._command("kafka.Kafka", str(properties))
                self.nodes.append(subprocess.Popen(command, stdout=log, stderr=log))
        self._await(count)

    def kill(self, number: int) -> None:
        """End a node, 1 or another, as a machine that loses its power."""
        self.nodes[number - 1].kill()
        self.nodes[number - 1].wait(DEADLINE_SECONDS)

    def stop(self) -> None:
        for number in range(1, len(self.nodes) + 1):
            self.kill(number)

    def _await(self, count: int) -> None:
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                if len(client.list_topics(timeout=1).brokers) == count:
                    return
            except KafkaException:
                pass
            assert time.monotonic() < deadline, "the nodes did not find each other"
            assert all(node.poll() is None for node in self.nodes), "a node has ended"
            time.sleep(0.2)

    def _command(self, main_class: str, *arguments: str) -> list[str]:
        logging = Path(ports.__file__).with_name("log4j2.properties")
        return [
            *(str(self._java.path), *QUICK_JAVA, f"-Dlog4j2.configurationFile={logging}"),
            *("-cp", f"{self._jars.broker_dir}/*", main_class, *arguments),
        ]
