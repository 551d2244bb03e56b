"""Check this machine, and report problems with advice."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.output_topics import LEDGER_PARTITIONS, LEDGER_TOPIC, is_enough, least_settings
from tidegate.gateway.embedded import ports
from tidegate.gateway.embedded.broker import BrokerOptions
from tidegate.gateway.embedded.jars import default_cache
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.embedded.processes import RunDirectory
from tidegate.gateway.topics.cluster import Cluster

_PYSPARK = "4.1.3"
_PYTHONS = ((3, 11), (3, 13))
_MEMORY_BYTES = 4 * 2**30
_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check: what was found, and the advice if it is a problem."""

    name: str
    found: str
    advice: str | None = None

    @property
    def is_ok(self) -> bool:
        """Return whether the check found no problem."""
        return self.advice is None


def examine(state: Path) -> tuple[CheckResult, ...]:
    """Check this machine and the state directory `state`, which need not exist. Changes nothing."""
    looks: tuple[Callable[[], CheckResult], ...] = (
        _tidegate,
        _python,
        _pyspark,
        _spark_home,
        _worker_python,
        _java,
        _jars,
        lambda: _port("registry port", ports.REGISTRY_PORT),
        lambda: _port("broker port", ports.BROKER_PORT),
        lambda: _disk(state),
        _memory,
        lambda: _leftovers(state),
    )
    return tuple(look() for look in looks)


def examine_topics(kafka: KafkaConnection) -> tuple[CheckResult, ...]:
    """Check whether the output topics and the ledger topic of a cluster keep what a restart needs.

    Raises Unavailable if no broker answers. Changes nothing.
    """
    cluster = Cluster(kafka)
    needs = {name: needed for name in cluster.names() if (needed := least_settings(name)) is not None}
    topics = sorted(cluster.topics(needs).items())
    return tuple(
        _few_partitions(topic.partitions)
        if name == LEDGER_TOPIC and topic.partitions < LEDGER_PARTITIONS
        else _output_topic(name, topic.config, needs[name])
        for name, topic in topics
    )


def _few_partitions(partitions: int) -> CheckResult:
    return CheckResult(
        LEDGER_TOPIC,
        f"{partitions} of {LEDGER_PARTITIONS} partitions",
        f"a job that writes this topic refuses to start: kafka-topics.sh --alter --topic {LEDGER_TOPIC} "
        f"--partitions {LEDGER_PARTITIONS}",
    )


def _output_topic(name: str, config: Mapping[str, str], needed: Mapping[str, str]) -> CheckResult:
    found = f"{config['cleanup.policy']}, {_kept(config)}"
    wrong = [key for key, value in needed.items() if not is_enough(key, config[key], value)]
    if not wrong:
        return CheckResult(name, found)
    settings = ",".join(f"{key}={needed[key]}" for key in wrong)
    actual = ", ".join(f"{key}={config[key]}" for key in wrong)
    command = f"kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config {settings}"
    return CheckResult(
        name, f"{found} ({actual})", f"a job that writes this topic refuses to start: {command}"
    )


def _kept(config: Mapping[str, str]) -> str:
    """Return which records a topic keeps, in words."""
    if config["cleanup.policy"] == "compact":  # the retention does not apply
        return "keeps the newest record of each key"
    days = int(config["retention.ms"]) / _DAY_MS
    kept = "for ever" if days < 0 else f"for {days:g} days" + ("" if days >= 1 else ", less than 1")
    return f"keeps records {kept}"


def _tidegate() -> CheckResult:
    return CheckResult("tidegate", version("tidegate"))


def _python() -> CheckResult:
    found = f"{platform.python_version()} ({sys.executable})"
    oldest, newest = _PYTHONS
    if oldest <= sys.version_info[:2] <= newest:
        return CheckResult("python", found)
    return CheckResult("python", found, "install Python 3.11, 3.12 or 3.13, and create the environment again")


def _pyspark() -> CheckResult:
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return CheckResult("pyspark", "not installed", "run make setup, or pip install 'tidegate[spark]'")
    if found == _PYSPARK:
        return CheckResult("pyspark", found)
    return CheckResult("pyspark", found, f"install pyspark=={_PYSPARK}: the locked connectors belong to it")


def _spark_home() -> CheckResult:
    """Check SPARK_HOME: if set, PySpark starts that Spark, with its jars, instead of its own."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return CheckResult("SPARK_HOME", "not set, PySpark's own Spark is used")
    return CheckResult("SPARK_HOME", home, "unset it: the job needs the Spark inside PySpark")


def _worker_python() -> CheckResult:
    """Check the Python interpreter of Spark's workers, which the job sets itself."""
    asked = os.environ.get("PYSPARK_PYTHON")
    ignored = f" (PYSPARK_PYTHON={asked} is ignored)" if asked else ""
    return CheckResult("worker python", sys.executable + ignored)


def _java() -> CheckResult:
    try:
        java = find_java()
    except SettingsError as error:
        return CheckResult("java", "missing or unfit", str(error))
    return CheckResult("java", f"{java.version} ({java.path})")


def _jars() -> CheckResult:
    cache = default_cache()
    if not cache.folder.is_dir():
        return CheckResult("jars", f"not installed in {cache.folder.parent}", "install them: tidegate jars")
    damage = cache.damage()
    if damage:
        return CheckResult("jars", "; ".join(damage), "install them again: tidegate jars")
    return CheckResult("jars", f"{len(cache.lock)} verified in {cache.folder}")


def _port(name: str, port: int) -> CheckResult:
    """Check a preferred port. A port in use is not a problem, because another is chosen."""
    if ports.is_free(port):
        return CheckResult(name, f"{port} free")
    return CheckResult(
        name, f"{port} in use by {ports.holder(port) or 'another process'}; another will be picked"
    )


def _disk(state: Path) -> CheckResult:
    folder = next(parent for parent in (state.absolute(), *state.absolute().parents) if parent.is_dir())
    free = shutil.disk_usage(folder).free
    found = f"{free / 2**30:.1f} GiB free in {folder}"
    if not os.access(folder, os.W_OK):
        return CheckResult("disk", f"{folder} cannot be written to", "choose another folder with --state")
    if free < BrokerOptions().minimum_free_bytes:
        return CheckResult("disk", found, "free some space, or choose another folder with --state")
    return CheckResult("disk", found)


def _memory() -> CheckResult:
    memory = psutil.virtual_memory()
    found = f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB available"
    if memory.available < _MEMORY_BYTES:
        return CheckResult(
            "memory",
            found,
            f"broker, job and registry need {_MEMORY_BYTES // 2**30} GiB: stop other programs",
        )
    return CheckResult("memory", found)


def _leftovers(state: Path) -> CheckResult:
    living = RunDirectory(state.absolute() / "run", state.absolute() / "logs").leftovers()
    return CheckResult(
        "state", f"{state}: " + (f"running {', '.join(living)}" if living else "nothing is running")
    )
