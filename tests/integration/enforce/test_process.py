"""`tidegate enforce` as people run it: its own process, a real registry, signals, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from tests.integration.enforce.job import DEADLINE_SECONDS, Publish, RunningJob
from tests.integration.enforce.line import KNOWN, Line, environment, row
from tests.integration.enforce.registry import Registry
from tests.jvm import JAVA_OPTIONS
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.gateway.embedded.jars import Jars
from tidegate.spark_jobs.kafka.topics import Topics


@pytest.mark.full  # the demo runs two streams
def test_several_streams_in_one_process(
    make_line: Callable[..., Line],
    registry: Registry,
    publish: Publish,
    start: Callable[..., RunningJob],
    tmp_path: Path,
) -> None:
    """One of them must not let its record pass and stops; the other goes on, and ends between two batches."""
    good, bad = make_line(), make_line()
    publish(good.document())
    publish(bad.document(rules=[{**KNOWN, "on_violation": "fail"}]))
    good.produce(row(0), row(1, 999))
    bad.produce(row(0, 999))
    ready = tmp_path / "ready.json"
    job = start(registry.url, [good, bad], "--ready-file", str(ready))
    job.await_event("stream_failed", stream=bad.contract_id, kind="StreamStopped")
    job.await_event("batch_published", stream=good.contract_id, n=1, written=1, quarantined=1)
    assert json.loads(ready.read_text()) == {
        "pid": job.process.pid,
        "streams": [good.contract_id, bad.contract_id],
    }
    good.produce(row(2), row(3))
    job.await_event("batch_published", stream=good.contract_id, n=2)
    assert job.stop(signal.SIGTERM) == 4
    assert "amount-is-known" in job.lines[-1]
    assert good.reconcile().holds
    assert (len(good.rows()), len(good.quarantined())) == (3, 1)
    batches = httpx.get(f"{registry.url}/api/v1/streams/{good.contract_id}/batches").json()
    assert good.ledger().n == len(batches["batches"] if isinstance(batches, dict) else batches)


# SIGTERM also ends the jobs of the other tests, that of test_reconciliation_on_request.py while records keep coming.
@pytest.mark.full
@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_stops_gracefully(
    line: Line,
    registry: Registry,
    publish: Publish,
    start: Callable[..., RunningJob],
    how: signal.Signals,
    code: int,
) -> None:
    publish(line.document())
    job = start(registry.url, [line])
    job.await_event("stream_started")
    line.produce(*(row(n) for n in range(100)))
    job.await_event("batch_published")
    assert job.stop(how) == code
    job.await_event("stream_ended")
    assert line.reconcile().holds


@pytest.mark.full
def test_a_run_writes_the_archive_that_java_reads_its_classes_from_later(
    line: Line,
    registry: Registry,
    publish: Publish,
    jars: Jars,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    publish(line.document())
    line.produce(row(0), row(1, 999))
    (tmp_path / "jars").symlink_to(jars.spark_dir)  # an archive is beside the folder that the settings name
    # Java writes no archive on top of the one that the tests start from.
    own = {"TIDEGATE_SPARK_JARS": str(tmp_path / "jars"), "JDK_JAVA_OPTIONS": JAVA_OPTIONS}
    settings = {**environment(line, jars, registry.url), **own}
    writing = RunningJob([line.contract_id], settings)
    writing.await_event("batch_published")
    assert writing.stop(signal.SIGTERM) == 0
    written = writing.await_event("class_archive_written")
    writing.end()
    assert {each.suffix for each in tmp_path.glob("classes-*")} == {".jsa", ".lock"}
    assert Path(written["file"]).stat().st_size == written["bytes"]
    assert "ynamic dump" not in capfd.readouterr().out
    log = f"-Xlog:class+load:file={tmp_path}/loaded-%p.log"
    line.produce(row(2))
    # With the collector of the job, and not with that of the run that wrote it.
    using = RunningJob([line.contract_id], {**settings, "JDK_JAVA_OPTIONS": log})
    using.await_event("batch_published")
    using.end()
    loaded = "".join(each.read_text() for each in tmp_path.glob("loaded-*.log"))
    for name in ("org.apache.iceberg.BaseTable", "org.apache.spark.sql.kafka010.KafkaSourceProvider"):
        assert re.search(rf"{re.escape(name)} source: shared objects file \(top\)", loaded)
    assert line.reconcile().holds


@pytest.mark.full
def test_a_killed_job_leaves_no_java_process_that_writes_an_archive(
    line: Line, registry: Registry, publish: Publish, jars: Jars, tmp_path: Path
) -> None:
    """It would take 20 s of the processor, beside the start of the next job."""
    publish(line.document())
    line.produce(row(0))
    (tmp_path / "jars").symlink_to(jars.spark_dir)
    own = {"TIDEGATE_SPARK_JARS": str(tmp_path / "jars"), "JDK_JAVA_OPTIONS": JAVA_OPTIONS}
    job = RunningJob([line.contract_id], {**environment(line, jars, registry.url), **own})
    job.await_event("batch_published")
    (java,) = (
        each for each in psutil.Process(job.process.pid).children(recursive=True) if "java" in each.name()
    )
    assert [each.suffix for each in tmp_path.glob("classes-*")] == [".lock"]  # it would write one at its end
    job.end()
    java.wait(DEADLINE_SECONDS)
    assert [each.suffix for each in tmp_path.glob("classes-*")] == [".lock"]


@pytest.mark.full
def test_a_temporary_folder_whose_path_is_too_long_for_sockets(
    line: Line, registry: Registry, publish: Publish, jars: Jars, tmp_path: Path
) -> None:
    """As on YARN: over a Unix socket Spark would not reach its workers, and over TCP it does."""
    folder = tmp_path / ("t" * 100)
    folder.mkdir()
    publish(line.document())
    line.produce(row(0), row(1, 999))
    own = {"JDK_JAVA_OPTIONS": f"{JAVA_OPTIONS} -Djava.io.tmpdir={folder}"}
    job = RunningJob([line.contract_id], {**environment(line, jars, registry.url), **own})
    try:
        job.await_event("batch_published", n=1, written=1, quarantined=1)
        assert job.stop(signal.SIGTERM) == 0
    finally:
        job.end()
    assert line.reconcile().holds


@pytest.mark.full  # test_faults.py has a second instance in the same process, for every sink
def test_a_second_process_takes_over(
    line: Line, registry: Registry, publish: Publish, start: Callable[..., RunningJob]
) -> None:
    """Without a lease, as in a careless deployment: the first one must stop, and not fence the second in turn."""
    publish(line.document())
    first = start(registry.url, [line])
    first.await_event("stream_started")
    line.settings = line.settings.model_copy(update={"lease_seconds": 0})
    second = start(registry.url, [line])
    second.await_event("stream_started", epoch=2)
    line.produce(*(row(n, 999 if n % 2 else 1) for n in range(10)))
    assert first.exit_code() == 5
    second.await_event("batch_published")
    line.produce(row(10))
    assert second.stop(signal.SIGTERM) == 0
    line.enforce()
    assert line.reconcile().holds
    assert (len(line.rows()), len(line.quarantined())) == (6, 5)


def test_settings_that_cannot_work_are_named(start: Callable[..., RunningJob], line: Line) -> None:
    job = start("http://127.0.0.1:9", [line], "--sink", "paper")
    assert job.exit_code() == 2
    assert "sink" in "".join(job.lines)


@pytest.mark.full
def test_a_registry_that_never_answers_is_named_with_what_to_do(
    start: Callable[..., RunningJob], line: Line
) -> None:
    """There is no last good contract to go on with, so nothing of the topic is looked at."""
    line.produce(row(0))
    job = start("http://127.0.0.1:9", [line], "--registry-grace-seconds", "1")
    assert job.exit_code() == 3
    assert job.await_event("registry_away")["serving"] is None
    assert re.fullmatch(
        r"error: the registry at http://127\.0\.0\.1:9/? has not answered for \d+ s \(.*Connection refused\); start it, or "
        r"give the stream more time with --registry-grace-seconds\n",
        job.lines[-1],
    ), job.lines[-1]
    assert Topics(line.settings.kafka).identity(quarantine_topic(line.topic)) is None


SLOW_WARM_UP = """
import sys, threading, time
from tidegate.contracts.errors import TidegateError
from tidegate.spark_jobs import enforce
from tidegate.spark_jobs.settings import JobSettings

warm_up = enforce.warm_up

def outlast(spark):
    while spark.sparkContext._jsc is not None:
        warm_up(spark)
    time.sleep(1)

enforce.warm_up = outlast
try:
    enforce.enforce_contracts(JobSettings(), ("test.unknown",))
except TidegateError:
    sys.exit("warm-up" in [thread.name for thread in threading.enumerate()])
"""


@pytest.mark.full
def test_python_does_not_end_while_the_warm_up_is_in_arrow(
    line: Line, registry: Registry, jars: Jars
) -> None:
    """A stream that ends at its start is faster than the warm-up on a busy machine; Python aborted with SIGABRT."""
    settings = environment(line, jars, registry.url)
    command = [sys.executable, "-c", SLOW_WARM_UP]
    assert subprocess.run(command, env={**os.environ, **settings}, check=False).returncode == 0
