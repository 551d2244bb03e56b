"""`tidegate up` as a person runs it: a process that is started, signalled, killed and started again."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import httpx
import psutil
import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from tests.jvm import SHORT_LIVED_JAVA
from tests.postgresql import Postgresql
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.embedded import ports
from tidegate.gateway.embedded.jars import Jars
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics

EXAMPLES = Path(__file__).parents[2] / "schemas" / "examples" / "admissions"
DEADLINE_SECONDS = 240


class Up:
    """One run of `tidegate up`, its output so far, and what it started."""

    def __init__(self, state: Path, *arguments: str, **environment: str) -> None:
        self.state = state
        self.lines: list[str] = []
        self._tokens: set[str] = set()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidegate.gateway.cli.main", "up", "--state", str(state), *arguments],
            env={**os.environ, **SHORT_LIVED_JAVA, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def _output(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def await_line(self, start: str) -> None:
        for line in self._output:
            self.lines.append(line.rstrip())
            if line.startswith(start):
                return
        raise AssertionError("\n".join(self.lines))

    def await_ready(self) -> None:
        self.await_line("ready")
        self._tokens = {json.loads(one.read_bytes())["token"] for one in self.state.glob("run/*.json")}

    def end(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and all that it said."""
        self.lines += [line.rstrip() for line in self._output]
        return self.process.wait(DEADLINE_SECONDS), "\n".join(self.lines)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        return self.end()

    def said(self, pattern: str) -> str:
        """Return the first group of a pattern in its output."""
        found = re.search(pattern, "\n".join(self.lines))
        assert found is not None
        return found[1]

    @property
    def registry(self) -> str:
        return self.said(r"registry +(http://\S+) ready")

    @property
    def bootstrap(self) -> str:
        return self.said(r"broker +KRaft on (\S+) ready")

    def living(self) -> list[str]:
        """Name every process that this run started and that still lives."""
        processes = psutil.process_iter(attrs=["cmdline"])
        return [" ".join(process.info["cmdline"] or []) for process in processes if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            is_dead = process.status() == psutil.STATUS_ZOMBIE
            return not is_dead and process.environ().get("TIDEGATE_PROCESS_TOKEN") in self._tokens
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def clean_up(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self._output.close()
        self.process.wait(DEADLINE_SECONDS)


StartUp = Callable[..., Up]


@pytest.fixture
def up(tmp_path: Path, jars: Jars) -> Iterator[StartUp]:
    """Yield a function that starts `tidegate up` on one state directory; all are stopped at the end."""
    assert jars.broker_dir.is_dir()
    started = []

    def start(*arguments: str, **environment: str) -> Up:
        run = Up(tmp_path / "state", *arguments, **environment)
        started.append(run)
        return run

    yield start
    for run in started:
        run.clean_up()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def require_an_orderly_stop(run: Up, number: signal.Signals) -> None:
    """Send a signal; require that everything ends, and the broker so that its next start needs no recovery."""
    code, _ = run.stop(number)
    assert code == 0
    assert run.living() == []
    assert list((run.state / "run").iterdir()) == []
    assert (run.state / "broker" / "data" / ".kafka_cleanshutdown").exists()


# SIGHUP is sent below to a run that another has tried to join, SIGINT to one with a job.
def test_a_signal_stops_everything_in_order(up: StartUp) -> None:
    run = up()
    run.await_ready()
    assert httpx.get(f"{run.registry}/health/ready").status_code == 200
    assert AdminClient({"bootstrap.servers": run.bootstrap}).list_topics(timeout=30).brokers.keys() == {1}
    assert len(run.living()) == 2
    require_an_orderly_stop(run, signal.SIGTERM)


@pytest.mark.full
def test_a_signal_before_it_is_ready_leaves_nothing(up: StartUp) -> None:
    run = up()
    until((run.state / "run" / "broker.json").exists)
    code, output = run.stop()
    assert code == 130
    assert "ready · Ctrl-C" not in output
    assert list((run.state / "run").iterdir()) == []
    settings = str(run.state / "broker" / "server.properties")
    # With `attrs`, a process that ends while it is looked at is left out.
    processes = psutil.process_iter(attrs=["cmdline"])
    assert [process for process in processes if settings in (process.info["cmdline"] or [])] == []


@pytest.mark.full  # with a job, too, and --fresh: below
def test_after_kill_9_the_next_start_takes_over(up: StartUp) -> None:
    first = up()
    first.await_ready()
    first.process.kill()
    second = up()
    second.await_ready()
    assert first.living() == []
    assert len(second.living()) == 2
    assert second.stop()[0] == 0
    assert second.living() == []


@pytest.mark.full
def test_a_second_run_on_the_same_state_is_refused(up: StartUp) -> None:
    first = up()
    first.await_ready()
    code, output = up().end()
    expected = (
        f"{first.state} is in use by pid {first.process.pid}: stop it, or choose another folder with --state"
    )
    assert (code, output) == (2, f"error: {expected}")
    assert len(first.living()) == 2
    require_an_orderly_stop(first, signal.SIGHUP)


@pytest.mark.full
@pytest.mark.parametrize("option", ["--port", "--broker-port"])
def test_a_port_asked_for_and_in_use_ends_the_run(up: StartUp, option: str) -> None:
    with socket.create_server((ports.HOST, 0)) as server:
        port = server.getsockname()[1]
        run = up(option, str(port))
        code, output = run.end()
    assert code == 2
    assert f"error: port {port} is in use by " in output
    assert not (run.state / "run").exists()


@pytest.mark.full
def test_a_part_that_dies_is_named_with_its_log_and_takes_the_rest_along(up: StartUp) -> None:
    run = up()
    run.await_ready()
    record = json.loads((run.state / "run" / "gateway.json").read_bytes())
    os.kill(record["pid"], signal.SIGKILL)
    code, output = run.end()
    assert code == 3
    assert f"error: the registry ended (exit -9)\nEnd of {run.state}/logs/gateway.log:\n" in output
    assert "registry_listening" in output
    assert run.living() == []


def test_without_java_nothing_is_started(up: StartUp, tmp_path: Path) -> None:
    run = up(PATH=str(tmp_path), JAVA_HOME="")
    code, output = run.end()
    assert code == 2
    assert output.startswith("error: no Java found: JAVA_HOME is not set and PATH has no `java`.")
    assert not run.state.exists()


def test_a_contract_that_does_not_compile_starts_nothing(up: StartUp, tmp_path: Path) -> None:
    broken = tmp_path / "contract.yaml"
    broken.write_text("apiVersion: tidegate/v1\nkind: DataContract\n")
    run = up(str(broken))
    code, output = run.end()
    assert code == 1
    assert str(broken) in output
    assert not (run.state / "run").exists()


def produce(run: Up, *names: str) -> None:
    """Send example records to the topic of the contract."""
    producer = Producer({"bootstrap.servers": run.bootstrap})
    for name in names:
        producer.produce("hospital.admissions", (EXAMPLES / name).read_bytes(), partition=0)
    assert producer.flush(30) == 0


def table_rows(state: Path) -> int:
    """Count the rows of the table, as any other tool would."""
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{state}/warehouse/catalog.db", warehouse=f"file://{state}/warehouse"
    )
    try:
        return len(catalog.load_table("hospital.admissions").scan().to_arrow())
    finally:
        catalog.close()


def committed(run: Up, output: str) -> list[bytes | None]:
    """Read the committed records of an output topic."""
    topic = f"hospital.admissions.{output}"
    end = Topics(KafkaConnection(run.bootstrap)).latest(topic)
    return [message.value() for message in read_committed(KafkaConnection(run.bootstrap), topic, {}, end)]


@pytest.fixture
def usual_ports_in_use() -> Iterator[None]:
    with ExitStack() as stack:
        for port in (ports.REGISTRY_PORT, ports.BROKER_PORT):
            with suppress(OSError):  # another process may use it already
                stack.enter_context(socket.create_server((ports.HOST, port)))
        yield


@pytest.mark.full  # the tutorial starts `up`, and test_faults.py kills each step
@pytest.mark.usefixtures("usual_ports_in_use")
def test_records_are_enforced_across_a_restart_and_a_kill(up: StartUp) -> None:
    """Clients find registry and broker under the ports of the first start, which it chose at random."""
    run = up(str(EXAMPLES / "contract.yaml"), SPARK_HOME="/opt/another-spark")
    run.await_ready()
    produce(run, "same-day.pass.json", "age-is-known.fail.json")
    until(lambda: table_rows(run.state) == 1)
    assert len(committed(run, "quarantine")) == 1
    require_an_orderly_stop(run, signal.SIGINT)

    killed = up()
    killed.await_ready()
    assert (killed.registry, killed.bootstrap) == (run.registry, run.bootstrap)
    produce(killed, "same-day.pass.json", "not-the-epoch.fail.json")
    until(lambda: table_rows(killed.state) == 2)
    assert len(committed(killed, "quarantine")) == 2
    killed.process.kill()

    run = up("--fresh")
    run.await_ready()
    assert killed.living() == []
    assert len(run.living()) == 2
    assert "no active contract to enforce" in "\n".join(run.lines)
    topics = AdminClient({"bootstrap.servers": run.bootstrap}).list_topics(timeout=30).topics
    assert not {*topics} - {"__consumer_offsets"}  # the broker makes it when the job looks for leases
    assert not (run.state / "warehouse").exists()


@pytest.mark.full
def test_a_contract_that_is_published_while_it_runs_is_enforced_without_a_restart(
    up: StartUp, tmp_path: Path
) -> None:
    """The first one starts the job; the next ones find it, and what fails is shown."""
    run = up()
    run.await_ready()
    assert len(run.living()) == 2
    publish = [sys.executable, "-m", "tidegate.gateway.cli.main", "publish", "--registry", run.registry]
    subprocess.run([*publish, str(EXAMPLES / "contract.yaml")], check=True)
    topic = "hospital.admissions"
    until(lambda: topic in AdminClient({"bootstrap.servers": run.bootstrap}).list_topics(timeout=30).topics)
    produce(run, "same-day.pass.json", "age-is-known.fail.json")
    until(lambda: (run.state / "warehouse" / "catalog.db").exists() and rows_if_any(run.state) == 1)
    assert len(committed(run, "quarantine")) == 1

    other = tmp_path / "other.yaml"
    document = {"apiVersion": "tidegate/v1", "kind": "DataContract", "id": "other", "version": "1.0.0"}
    schema = {"type": "json-schema", "definition": {"type": "object"}}
    other.write_text(json.dumps({**document, "topic": "other", "schema": schema, "on_violation": "fail"}))
    subprocess.run([*publish, str(other)], check=True)
    until(lambda: "other" in AdminClient({"bootstrap.servers": run.bootstrap}).list_topics(timeout=30).topics)
    producer = Producer({"bootstrap.servers": run.bootstrap})
    producer.produce("other", b"7")
    assert producer.flush(30) == 0
    job_log = run.state / "logs" / "job.log"
    until(lambda: '"event": "stream_failed"' in job_log.read_text())
    run.await_line("stream     other failed: ")
    produce(run, "same-day.pass.json")
    until(lambda: table_rows(run.state) == 2)

    version = f"{run.registry}/api/v1/contracts/hospital.admissions/versions"
    name = httpx.get(f"{run.registry}/api/v1/contracts/hospital.admissions").json()["versions"][0]["version"]
    httpx.delete(f"{version}/{name}", timeout=DEADLINE_SECONDS).raise_for_status()
    until(lambda: '"event": "stream_ended"' in job_log.read_text())
    code, output = run.stop()
    assert code == 0
    assert "stream     hospital.admissions: topic hospital.admissions" in output
    assert run.living() == []


def rows_if_any(state: Path) -> int:
    """Count the rows of the table; 0 as long as there is none."""
    try:
        return table_rows(state)
    except NoSuchTableError:
        return 0


@pytest.mark.full  # the same with a table is above
def test_records_reach_a_topic_when_asked_and_only_once_across_a_kill(up: StartUp) -> None:
    good, bad = "same-day.pass.json", "age-is-known.fail.json"
    run = up(str(EXAMPLES / "contract.yaml"), "--sink", "kafka")
    run.await_ready()
    produce(run, good, bad)
    # One transaction: when one of them is there, both are.
    until(lambda: len(committed(run, "accepted")) == 1)
    assert committed(run, "quarantine") == [(EXAMPLES / bad).read_bytes()]
    run.process.kill()

    run = up("--sink", "kafka")
    run.await_ready()
    produce(run, good, bad, good)
    until(lambda: len(committed(run, "accepted")) >= 3)
    assert committed(run, "accepted") == [(EXAMPLES / good).read_bytes()] * 3
    assert committed(run, "quarantine") == [(EXAMPLES / bad).read_bytes()] * 2
    assert not (run.state / "warehouse" / "hospital").exists()
    assert run.stop()[0] == 0
    assert run.living() == []


@pytest.mark.full
def test_records_reach_a_delta_table_when_asked(up: StartUp) -> None:
    run = up(str(EXAMPLES / "contract.yaml"), "--sink", "delta")
    run.await_ready()
    produce(run, "same-day.pass.json", "age-is-known.fail.json")
    log = run.state / "warehouse" / "delta" / "hospital" / "admissions" / "_delta_log"

    def added() -> int:
        """Count the rows of the files that the table's log names."""
        actions = [json.loads(line) for file in log.glob("*.json") for line in file.read_text().splitlines()]
        return sum(json.loads(each["add"]["stats"])["numRecords"] for each in actions if "add" in each)

    until(lambda: added() == 1)
    assert len(committed(run, "quarantine")) == 1
    assert run.stop()[0] == 0
    assert run.living() == []


SECRET = "s3cr3t-4711"  # noqa: S105 - it opens nothing
SECRETS = {
    "TIDEGATE_CATALOG_PROPERTIES": json.dumps({"type": "rest", "uri": "http://none", "credential": SECRET}),
    "TIDEGATE_POSTGRESQL_URL": f"postgresql://u:{SECRET}@none/lake",
    "TIDEGATE_MASK_KEY": SECRET * 4,
    "TIDEGATE_REGISTRY_TOKEN": SECRET,
    "TIDEGATE_ALERT_WEBHOOK_URL": f"http://127.0.0.1:9/{SECRET}",
}


def command_lines() -> dict[int, str]:
    """The arguments of every process of this machine, as each user of it can read them."""
    found: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            found[int(path.parent.name)] = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def files_with_secrets(*folders: Path) -> list[str]:
    """The files that hold a secret, with their modes: nothing writes one, so not even of mode 0600."""
    found = []
    for path in (each for folder in folders for each in folder.rglob("*")):
        with suppress(OSError):  # a socket, or gone
            if path.is_file() and SECRET.encode() in path.read_bytes():
                found.append(f"{path} {path.stat().st_mode:o}")
    return found


@pytest.mark.full  # test_secrets_of_a_session.py looks at those of a session in every run
def test_secrets_of_the_environment_are_in_no_list_of_processes_and_no_file(
    up: StartUp, tmp_path: Path, jars: Jars
) -> None:
    """The whole tree of `tidegate up`, then that of `tidegate reconcile`, which starts Java too for a Delta table."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**SECRETS, "TMPDIR": str(scratch)}
    run = up(str(EXAMPLES / "contract.yaml"), "--sink", "delta", **environment)
    run.await_ready()
    produce(run, "same-day.pass.json", "age-is-known.fail.json")
    until(lambda: bool(committed(run, "quarantine")))
    seen = command_lines()
    assert len(run.living()) >= 4, "broker, gateway, job and its Java"
    reconcile = subprocess.Popen(
        [
            sys.executable,
            *["-m", "tidegate.gateway.cli.main", "reconcile", "hospital.admissions", "--sink", "delta"],
        ],
        env={
            **os.environ,
            **SHORT_LIVED_JAVA,
            **environment,
            "TIDEGATE_BOOTSTRAP_SERVERS": run.bootstrap,
            "TIDEGATE_WAREHOUSE": str(run.state / "warehouse"),
            "TIDEGATE_SPARK_JARS": str(jars.spark_dir),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    family: set[int] = set()
    while reconcile.poll() is None:
        with suppress(psutil.Error):
            process = psutil.Process(reconcile.pid)
            family |= {reconcile.pid, *(child.pid for child in process.children(recursive=True))}
        seen |= command_lines()
    said, _ = reconcile.communicate()
    assert reconcile.returncode == 0, said.decode()
    javas = [pid for pid in family if "org.apache.spark.deploy.SparkSubmit" in seen.get(pid, "")]
    assert javas, "its Java process was looked at"
    assert [line for line in seen.values() if SECRET in line] == []
    assert files_with_secrets(run.state, scratch) == []
    assert SECRET not in said.decode()
    code, output = run.stop()
    assert code == 0
    assert SECRET not in output
    assert files_with_secrets(run.state, scratch) == []


@pytest.mark.full
def test_records_reach_postgresql_when_asked_and_its_password_no_command_line(
    up: StartUp, postgresql: Postgresql
) -> None:
    with postgresql.database(template="template0") as url:
        database = url.replace("postgresql+psycopg://", "postgresql://")
        run = up(str(EXAMPLES / "contract.yaml"), "--sink", "postgresql", TIDEGATE_POSTGRESQL_URL=database)
        run.await_ready()
        produce(run, "same-day.pass.json", "age-is-known.fail.json")

        def rows() -> int:
            with psycopg.connect(database) as connection:
                found = connection.execute("SELECT count(*) FROM hospital.admissions").fetchone()
            return found[0] if found else 0

        until(lambda: rows() == 1)
        assert len(committed(run, "quarantine")) == 1
        assert database not in "\n".join(run.living())
        assert run.stop()[0] == 0


def test_postgresql_without_a_database_starts_nothing(up: StartUp) -> None:
    run = up(str(EXAMPLES / "contract.yaml"), "--sink", "postgresql", TIDEGATE_POSTGRESQL_URL="")
    code, output = run.end()
    assert code == 2
    assert "TIDEGATE_POSTGRESQL_URL" in output
    assert not run.state.exists()
