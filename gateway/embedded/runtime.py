"""The embedded run: broker, gateway and job as child processes of this one, around one state directory."""

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
"""Settings that a person has made for other brokers; the embedded one needs none."""
_POLL_SECONDS = 0.05
_REACH_SECONDS = 10.0
_CLUSTERS_OWN = -1
"""Replication as the cluster has it by default."""

Show = Callable[[str, str], None]
"""Called with a label of at most ten characters ("broker") and a line about it."""


@dataclass(frozen=True, slots=True)
class OwnKafka:
    """Brokers of the user, instead of one of ours; `config` is a file of client properties."""

    servers: str
    config: Path | None = None

    @property
    def connection(self) -> KafkaConnection:
        """Return the connection. Raises SettingsError for properties that are wrong."""
        return KafkaSettings(kafka_config=self.config).connection_to(self.servers)


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """The options of an embedded run. A port of None means the usual one, or a free one if that is in use.

    `java_options` are given to broker and job in addition to their own. Without `kafka`, a broker is started.
    """

    state: Path = Path(".tidegate")
    fresh: bool = False
    port: int | None = None
    broker_port: int | None = None
    sink: str = "iceberg"
    java_options: tuple[str, ...] = ()
    kafka: OwnKafka | None = None


class Runtime:
    """One embedded run. A context manager: leaving it stops everything that was started, in order.

    `registry` is a client of its registry. `start_*` returns at once, so that starts overlap; `await_*` returns when
    the part answers. If the part has died, it raises Unavailable (StreamStopped for a stream that stopped itself)
    with the end of its log.
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
        """Return the broker's address; known after `start_broker`."""
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
                ports.claim(ports.GATEWAY_PORT, last=self._state.gateway_port)
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
            # What an interrupt caught between its start and our knowing of it, or a second Ctrl-C left.
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
        """Wait until the broker answers a metadata request. Raises Unavailable for brokers of the user that do not."""
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
        """Wait until the gateway and its database serve."""
        deadline = time.monotonic() + _GATEWAY_DEADLINE_SECONDS
        while time.monotonic() < deadline:
            self.check()
            if self.registry.is_ready():
                self._show("registry", f"{self.registry_url} ready in {self._elapsed('gateway')}")
                return
            time.sleep(_POLL_SECONDS)
        raise Unavailable(self._silent("gateway", _GATEWAY_DEADLINE_SECONDS))

    def create_topics(self, topics: Sequence[str], *, partitions: int = 4) -> None:
        """Create the source topics that are not there yet. The job makes its own output topics."""
        client = self._admin()
        replication = 1 if self._options.kafka is None else _CLUSTERS_OWN
        # Who may not create topics may have topics that are there.
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
        """Start the streaming job for these contract ids, or with `--all` for those that the registry has or gets.

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
            *("--trigger-seconds", "0.5"),  # on a terminal
            *options,
        ]
        # Spark would look up the host's own name, which fails on many a laptop, and listen where others can reach it.
        environment = {"TIDEGATE_SPARK_JARS": str(self._jars.spark_dir), "SPARK_LOCAL_IP": ports.HOST}
        environment["TIDEGATE_WATCH_SECONDS"] = "2"  # on a terminal
        # Another Spark of this machine has other connectors.
        environment["SPARK_HOME"] = str(pyspark_home())
        if self._options.java_options:
            environment["JDK_JAVA_OPTIONS"] = " ".join(self._options.java_options)
        self._start("job", arguments, environment)

    def await_job(self) -> None:
        """Wait until all queries of the job run."""
        deadline = time.monotonic() + _JOB_DEADLINE_SECONDS
        while not self._state.ready_file.exists():
            self.check()
            if time.monotonic() > deadline:
                raise Unavailable(self._silent("job", _JOB_DEADLINE_SECONDS))
            time.sleep(_POLL_SECONDS)
        self._show("job", f"enforcing, ready in {self._elapsed('job')} · log {self._children['job'].log}")

    def check(self) -> None:
        """Raise if a part has died, with the end of its log."""
        if self._broker is not None:
            self._broker.check()
        for name, child in self._children.items():
            code = child.exit_code()
            if code is not None:
                error = StreamStopped if code == ExitCode.STOPPED else Unavailable
                raise error(f"the {name} ended (exit {code})\nEnd of {child.log}:\n{child.tail(15)}")

    def _start(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        self._started[name] = time.monotonic()
        # -P: a folder `contracts` where the person happens to stand must not be imported.
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
        self._state.ready_file.unlink(missing_ok=True)  # it says that the job runs
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
        return f"the {name} was not ready within {seconds} s\nEnd of {child.log}:\n{child.tail(15)}"
