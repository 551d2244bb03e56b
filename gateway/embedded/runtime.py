"""The embedded run: broker, gateway and job as child processes that share one state directory."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.stream.kafka_connection import KafkaConnection, KafkaSettings
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.embedded import ports
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.ivy import Progress, pyspark_home
from tidegate.gateway.embedded.jars import default_cache
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.embedded.processes import Child, Command
from tidegate.gateway.embedded.state import StateDirectory
from tidegate.gateway.exits import ExitCode

_GATEWAY_DEADLINE_SECONDS = 60
_JOB_DEADLINE_SECONDS = 180
_STOP_SECONDS = {"job": 60, "gateway": 10}
_OF_OTHER_BROKERS = ("TIDEGATE_KAFKA_CONFIG", "TIDEGATE_KAFKA_SASL_USERNAME", "TIDEGATE_KAFKA_SASL_PASSWORD")
"""Variables with settings for other brokers. They are cleared, because the embedded broker needs none."""
_POLL_SECONDS = 0.05
_REACH_SECONDS = 10.0
_CLUSTERS_OWN = -1
"""The value for the cluster's default replication factor."""

Show = Callable[[str, str], None]
"""A function that shows a label of at most ten characters ("broker") and a line of text."""


@dataclass(frozen=True, slots=True)
class OwnKafka:
    """The user's brokers, instead of an embedded one; `config` is a file of client properties."""

    servers: str
    config: Path | None = None

    @property
    def connection(self) -> KafkaConnection:
        """Return the connection. Raises SettingsError for invalid properties."""
        return KafkaSettings(kafka_config=self.config).connection_to(self.servers)


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """The options of an embedded run. For a port of None, the default is used, or a free port if it is in use.

    Broker and job get `java_options` in addition to their own. Without `kafka`, a broker is started.
    """

    state: Path = Path(".tidegate")
    fresh: bool = False
    port: int | None = None
    broker_port: int | None = None
    sink: str = "iceberg"
    java_options: tuple[str, ...] = ()
    kafka: OwnKafka | None = None


class Runtime:
    """An embedded run. A context manager: leaving it stops job, gateway and broker, in this order.

    `registry` is a client of its registry. `start_*` starts a process and returns, so that starts overlap. `await_*`
    returns when the process answers. If it has died, `await_*` raises Unavailable, or StreamStopped for a stream that
    stopped itself, with the end of its log.
    """

    def __init__(self, options: RuntimeOptions, show: Show, progress: Progress | None = None) -> None:
        self._options = options
        self._show = show
        self._progress = progress
        self._state = StateDirectory(options.state, fresh=options.fresh)
        self._broker: Broker | None = None
        self._children: dict[str, Child] = {}
        self._started: dict[str, float] = {}

    @property
    def bootstrap(self) -> str:
        """Return the broker's address. Call it after `start_broker`."""
        own = self._options.kafka
        return self._require_broker().bootstrap if own is None else own.servers

    @property
    def kafka_config(self) -> Path | None:
        """Return the file of client properties for the broker; None without one."""
        own = self._options.kafka
        return None if own is None or own.config is None else own.config.absolute()

    @property
    def registry_url(self) -> str:
        """Return the gateway's address."""
        return f"http://{ports.HOST}:{self._claim.port}"

    @property
    def warehouse(self) -> Path:
        """Return the folder of the Iceberg tables."""
        return self._state.warehouse

    @property
    def logs(self) -> Path:
        """Return the folder of the logs: broker.log, gateway.log, job.log."""
        return self._state.logs

    def __enter__(self) -> Self:
        self._java = find_java()
        port = self._options.port
        with ExitStack() as stack:
            self._claim = (
                ports.claim(ports.REGISTRY_PORT, last=self._state.gateway_port)
                if port is None
                else ports.claim_exactly(port, option="--port")
            )
            stack.callback(self._claim.release)
            stack.enter_context(self._state)
            if port is None:
                ports.keep(self._state.gateway_port, self._claim.port)
            for leftover in self._state.ended:
                self._show("cleanup", f"ended {leftover}, left by an earlier run")
            cache = default_cache()
            self._jars = cache.ensure(self._progress)
            versions = f"python {platform.python_version()} ok · java {self._java.version} ok"
            self._show("setup", f"{versions} · {len(cache.lock)} jars verified")
            self.registry = stack.enter_context(RegistryClient(self.registry_url))
            # Ends children that an interrupt left unknown while they started, or that a second Ctrl-C left.
            stack.callback(self._state.run.end_leftovers, grace_seconds=0)
            stack.callback(self._stop)
            self._held = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def start_broker(self) -> None:
        """Start the broker's process, unless the user has brokers."""
        if self._options.kafka is not None:
            return
        self._started["broker"] = time.monotonic()
        java_options = BrokerOptions().java_options + self._options.java_options
        options = BrokerOptions(port=self._options.broker_port, java_options=java_options)
        self._broker = Broker(self._state.broker, self._state.run, self._jars, self._java, options)
        self._broker.launch()

    def await_broker(self) -> None:
        """Wait until the broker answers a metadata request. Raises Unavailable if it does not."""
        if self._options.kafka is not None:
            self._topics(self._admin())
            self._show("broker", f"your own, at {self.bootstrap}")
            return
        broker = self._require_broker()
        broker.await_ready()
        self._show("broker", f"KRaft on {broker.bootstrap} ready in {self._elapsed('broker')}")

    def start_gateway(self) -> None:
        """Start the gateway's process. The broker must have been started."""
        environment = {
            "TIDEGATE_DATABASE_URL": self._state.database_url,
            "TIDEGATE_HOST": ports.HOST,
            "TIDEGATE_PORT": str(self._claim.port),
            "TIDEGATE_BOOTSTRAP_SERVERS": self.bootstrap,
        }
        self._start("gateway", ["serve"], environment)

    def await_gateway(self) -> None:
        """Wait until the gateway and its database are ready. Raises Unavailable after a deadline."""
        deadline = time.monotonic() + _GATEWAY_DEADLINE_SECONDS
        while time.monotonic() < deadline:
            self.check()
            if self.registry.is_ready():
                self._show("registry", f"{self.registry_url} ready in {self._elapsed('gateway')}")
                return
            time.sleep(_POLL_SECONDS)
        raise Unavailable(self._silent("gateway", _GATEWAY_DEADLINE_SECONDS))

    def create_topics(self, topics: Sequence[str], *, partitions: int = 4) -> None:
        """Create the source topics that do not exist. The job creates its output topics. Raises Unavailable."""
        client = self._admin()
        replication = 1 if self._options.kafka is None else _CLUSTERS_OWN
        # A user without the permission to create topics can use existing ones.
        there = () if self._options.kafka is None else self._topics(client)
        missing = [NewTopic(topic, partitions, replication) for topic in topics if topic not in there]
        futures = client.create_topics(missing) if missing else {}
        for topic, future in futures.items():
            try:
                future.result(30)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise Unavailable(f"topic {topic} could not be made: {error.args[0].str()}") from error

    def _admin(self) -> AdminClient:
        own = self._options.kafka
        settings = {"bootstrap.servers": self.bootstrap} if own is None else own.connection.for_admin()
        return AdminClient({**settings, "log_level": 0})

    def _topics(self, client: AdminClient) -> Collection[str]:
        try:
            return client.list_topics(timeout=_REACH_SECONDS).topics
        except KafkaException as error:
            raise Unavailable(f"no broker answers at {self.bootstrap}: {error.args[0].str()}") from None

    def start_job(self, wanted: Sequence[str], options: Sequence[str] = ()) -> None:
        """Start the streaming job for these contract ids; `--all` means all contracts of the registry, also future ones.

        `options` are further options of `tidegate enforce`.
        """
        self._state.ready_file.unlink(missing_ok=True)
        arguments = [
            *(
                "enforce",
                *wanted,
                "--bootstrap-servers",
                self.bootstrap,
                "--registry",
                self.registry_url,
            ),
            *("--sink", self._options.sink, "--warehouse", str(self._state.warehouse)),
            *("--checkpoints", str(self._state.checkpoints), "--ready-file", str(self._state.ready_file)),
            *("--trigger-seconds", "0.5"),  # a user watches, so short intervals
            *options,
        ]
        # Without SPARK_LOCAL_IP, Spark resolves the host name, which fails on many laptops, and listens on all networks.
        environment = {"TIDEGATE_SPARK_JARS": str(self._jars.spark_dir), "SPARK_LOCAL_IP": ports.HOST}
        environment["TIDEGATE_WATCH_SECONDS"] = "2"  # likewise
        # Another Spark on this machine would have other connectors.
        environment["SPARK_HOME"] = str(pyspark_home())
        if self._options.java_options:
            environment["JDK_JAVA_OPTIONS"] = " ".join(self._options.java_options)
        self._start("job", arguments, environment)

    def await_job(self) -> None:
        """Wait until all queries of the job run. Raises Unavailable after a deadline."""
        deadline = time.monotonic() + _JOB_DEADLINE_SECONDS
        while not self._state.ready_file.exists():
            self.check()
            if time.monotonic() > deadline:
                raise Unavailable(self._silent("job", _JOB_DEADLINE_SECONDS))
            time.sleep(_POLL_SECONDS)
        self._show("job", f"enforcing, ready in {self._elapsed('job')} · log {self._children['job'].log}")

    def check(self) -> None:
        """Raise Unavailable or StreamStopped, with the end of its log, if a child process has ended."""
        if self._broker is not None:
            self._broker.check()
        for name, child in self._children.items():
            code = child.exit_code()
            if code is not None:
                error = StreamStopped if code == ExitCode.STOPPED else Unavailable
                raise error(f"the {_words(name)} ended (exit {code})\nEnd of {child.log}:\n{child.tail(15)}")

    def _start(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        self._started[name] = time.monotonic()
        # -P: do not import a folder `contracts` of the current directory.
        command = [sys.executable, "-P", "-m", "tidegate.gateway.cli.main", *arguments]
        own = self._options.kafka
        environment |= {"PYTHONUNBUFFERED": "1"}
        if own is None:
            environment |= dict.fromkeys(_OF_OTHER_BROKERS, "")
        elif self.kafka_config is not None:
            environment["TIDEGATE_KAFKA_CONFIG"] = str(self.kafka_config)
        self._children[name] = self._state.run.start(Command(name, command, environment))

    def _stop(self) -> None:
        for name in ("job", "gateway"):
            child = self._children.pop(name, None)
            if child is not None:
                child.stop(deadline_seconds=_STOP_SECONDS[name])
        self._state.ready_file.unlink(missing_ok=True)  # the file means that the job runs
        if self._broker is not None:
            self._broker.stop()

    def _require_broker(self) -> Broker:
        if self._broker is None:
            raise RuntimeError("start_broker comes first")
        return self._broker

    def _elapsed(self, name: str) -> str:
        return f"{time.monotonic() - self._started[name]:.1f} s"

    def _silent(self, name: str, seconds: int) -> str:
        child = self._children[name]
        return f"the {_words(name)} was not ready within {seconds} s\nEnd of {child.log}:\n{child.tail(15)}"


def _words(name: str) -> str:
    """Return the name of a process for messages."""
    return "registry" if name == "gateway" else name
