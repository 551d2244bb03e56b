"""Walk the first two lessons in an empty folder as a reader does, with their exact commands, and print how long each takes.

`.venv/bin/python -m tests.docs.first_steps` starts brokers that stand for the reader's own, and fails if a lesson takes
longer than it promises. The records in the topic stand for those of the reader's producers.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.docs.console import Command, Terminal, steps
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.jars import default_cache
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.embedded.processes import RunDirectory

LESSONS: Final = Path(__file__).parents[2] / "docs" / "tutorial"
VERDICT_SECONDS: Final = 300
QUARANTINE_SECONDS: Final = 600
_TOPIC: Final = "stays"
_PAGES_BROKERS: Final = "kafka:9092"
_PAGES_REGISTRY: Final = "http://127.0.0.1:8081"
_DEADLINE_SECONDS: Final = 240


def walk_first_verdict(folder: Path) -> float:
    """Carry out the lesson in a folder; return its seconds."""
    began = time.monotonic()
    terminal = Terminal(folder)
    for step in steps(LESSONS / "first-verdict.md"):
        terminal.do(step)
    return time.monotonic() - began


def walk_first_quarantine(folder: Path, brokers: str) -> float:
    """Carry out the lesson in a folder, on brokers that have the topic; return its seconds, without Ctrl-C."""
    began = time.monotonic()
    terminal = Terminal(folder, {_PAGES_BROKERS: brokers})
    lesson = list(steps(LESSONS / "first-quarantine.md"))
    start = next(step for step in lesson if isinstance(step, Command) and " up " in step.line)
    for step in lesson[: lesson.index(start)]:
        terminal.do(step)
    with _left_running(terminal, start) as registry:
        # What the page says to do when port 8081 is in use.
        terminal.environment["TIDEGATE_REGISTRY_URL"] = registry
        for step in lesson[lesson.index(start) + 1 :]:
            terminal.do(step, within_seconds=_DEADLINE_SECONDS)
        return time.monotonic() - began


@contextmanager
def _left_running(terminal: Terminal, step: Command) -> Iterator[str]:
    """Run the command that the page leaves running in the first terminal; yield the address of its registry."""
    with subprocess.Popen(
        ["bash", "-c", f"exec {terminal.translated(step.line)}"],
        cwd=terminal.folder,
        env=terminal.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            lines = []
            for line in process.stdout:
                lines.append(line.rstrip())
                if line.startswith("ready"):
                    break
            printed = "\n".join(lines).replace(f"{terminal.folder}/", "")
            found = re.search(r"registry +(http://\S+) ready", printed)
            assert found, printed
            said = printed.replace(found[1], _PAGES_REGISTRY)
            said = said.replace(terminal.translated(_PAGES_BROKERS), _PAGES_BROKERS)
            assert step.pattern.fullmatch(said), said
            yield found[1]
        finally:
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            assert process.wait(_DEADLINE_SECONDS) == 0


def fill_topic(folder: Path, brokers: str) -> None:
    """Produce the records of the first lesson to the topic of the second one."""
    terminal = Terminal(folder)
    for step in steps(LESSONS / "first-verdict.md"):
        terminal.do(step)
        if isinstance(step, Command):  # the one that makes the records
            break
    client = AdminClient({"bootstrap.servers": brokers})
    client.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(30)
    producer = Producer({"bootstrap.servers": brokers})
    for line in (folder / "stays.jsonl").read_bytes().splitlines():
        producer.produce(_TOPIC, line)
    assert producer.flush(30) == 0


def show(what: str, seconds: float, promised: int) -> None:
    """Print the time of a lesson."""
    sys.stdout.write(f"{what}: {seconds:.0f} s of {promised}\n")
    sys.stdout.flush()


def main() -> None:
    """Walk both lessons."""
    with TemporaryDirectory() as name:
        root = Path(name)
        folders = [root / each for each in ("verdict", "quarantine", "producers")]
        for folder in folders:
            folder.mkdir()
        seconds = walk_first_verdict(folders[0])
        show("own data to first verdict", seconds, VERDICT_SECONDS)
        run = RunDirectory(root / "run", root / "logs")
        options = BrokerOptions(preferred_port=None)
        with Broker(root / "broker", run, default_cache().ensure(None), find_java(), options) as broker:
            fill_topic(folders[2], broker.bootstrap)
            other = walk_first_quarantine(folders[1], broker.bootstrap)
        show("own Kafka to first quarantined record", other, QUARANTINE_SECONDS)
    sys.exit(seconds > VERDICT_SECONDS or other > QUARANTINE_SECONDS)


if __name__ == "__main__":
    main()
