"""Run the demo: start all processes, send both streams, wait until all records are judged, and check the counts.

The streams are generated while the broker starts, and sent while Spark starts.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Protocol

import psutil

from tidegate.contracts.document.load import LoadedContract, load_contract
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.embedded.demo import admissions, flights
from tidegate.gateway.embedded.demo.feed import send
from tidegate.gateway.embedded.demo.figures import DemoReport, StreamResult, settle
from tidegate.gateway.embedded.demo.outcome import StreamOutcome, read_outcome
from tidegate.gateway.embedded.demo.stays import STAY_COLUMNS, Stays, stays_as_arrived, stays_in_table
from tidegate.gateway.embedded.demo.stream import PARTITIONS, DemoStream
from tidegate.gateway.embedded.runtime import Runtime

_CONTRACT_FILES = (flights.CONTRACT_FILE, admissions.CONTRACT_FILE)
_COLUMNS = {admissions.NAME: STAY_COLUMNS}
_BATCH_RECORDS = 80_000
_LOOK_SECONDS = 0.2
_QUIET_SECONDS = 180


class Screen(Protocol):
    """A display of the demo's progress."""

    def say(self, label: str, line: str) -> None:
        """Show a line with a label."""

    def expect(self, stream: str, records: int) -> None:
        """Start to show the progress of a stream with this number of records."""

    def advance(self, stream: str, batches: Sequence[BatchReport]) -> None:
        """Show the progress of a stream; `batches` are all its reports so far, at least one."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished demo. `arrived` and `kept` are the stays without and with the contract.

    `replay` is a command that corrects refused records, while the demo runs.
    """

    report: DemoReport
    results: Mapping[str, StreamResult]
    contracts: Mapping[str, DataContract]
    arrived: Stays
    kept: Stays
    desk: str
    replay: str

    @property
    def problems(self) -> tuple[str, ...]:
        """Return a sentence for each wrong count, with its stream."""
        return tuple(
            f"{name}: {problem}" for name, result in self.results.items() for problem in result.problems
        )


def run_demo(runtime: Runtime, screen: Screen, limit: int | None = None) -> Finished:
    """Run the demo with at most `limit` records of each stream. `runtime` must be entered, with fresh state.

    Raises Unavailable or StreamStopped if a process ends, and Unavailable if the job sends no reports for three minutes.
    """
    loaded = [load_contract(file) for file in _CONTRACT_FILES]
    contracts = {one.contract.id: one.contract for one in loaded}
    with _workers() as (pool, stopping):
        making = [pool.submit(make, limit) for make in (flights.flights_stream, admissions.admissions_stream)]
        _start(runtime, loaded, screen)
        streams = [future.result() for future in making]
        sending = [pool.submit(send, stream, runtime.bootstrap, stopping) for stream in streams]
        values = next(stream.records["value"] for stream in streams if stream.name == admissions.NAME)
        arrived = pool.submit(stays_as_arrived, values)
        batches = _follow(runtime, streams, sending, screen)
        outcomes = {stream.name: _read(runtime, stream) for stream in streams}
        results = {
            stream.name: settle(stream, outcomes[stream.name], batches[stream.name]) for stream in streams
        }
        return Finished(
            report=_report(results, batches),
            results=results,
            contracts=contracts,
            arrived=arrived.result(),
            kept=stays_in_table(outcomes[admissions.NAME].table),
            desk=f"{runtime.registry_url}/desk",
            replay=_replay(runtime),
        )


@contextmanager
def _workers() -> Iterator[tuple[ThreadPoolExecutor, Event]]:
    """Yield a thread pool, and an event that stops the sending threads. It is set when the block ends."""
    stopping = Event()
    with ThreadPoolExecutor(thread_name_prefix="demo") as pool:
        try:
            yield pool, stopping
        finally:
            stopping.set()


def _start(runtime: Runtime, loaded: Sequence[LoadedContract], screen: Screen) -> None:
    """Start broker, registry and job; return when records can be sent. The job may not be ready yet."""
    runtime.start_broker()
    runtime.start_gateway()
    runtime.await_gateway()
    contracts = [one.contract for one in loaded]
    for one in loaded:
        runtime.registry.publish(one)
    runtime.start_job([contract.id for contract in contracts], ["--max-offsets", str(_BATCH_RECORDS)])
    runtime.await_broker()
    runtime.create_topics([contract.topic for contract in contracts], partitions=PARTITIONS)
    screen.say("contracts", " · ".join(f"{one.id} {one.version}" for one in contracts))


def _follow(
    runtime: Runtime, streams: Sequence[DemoStream], sending: Sequence[Future[None]], screen: Screen
) -> dict[str, tuple[BatchReport, ...]]:
    """Show the progress that the job reports, until it has reported all records; return all reports."""
    for stream in streams:
        screen.expect(stream.name, stream.records.num_rows)
    reported: dict[str, tuple[BatchReport, ...]] = {stream.name: () for stream in streams}
    last_news = time.monotonic()
    while any(_judged(reported[stream.name]) < stream.records.num_rows for stream in streams):
        if time.monotonic() - last_news > _QUIET_SECONDS:
            log = runtime.logs / "job.log"
            raise Unavailable(f"the job reported nothing for {_QUIET_SECONDS} s; {log} says why")
        time.sleep(_LOOK_SECONDS)
        runtime.check()
        for sent in sending:
            if sent.done():
                sent.result()
        for name, known in reported.items():
            batches = runtime.registry.batches(name)
            if len(batches) > len(known):
                reported[name] = batches
                last_news = time.monotonic()
                screen.advance(name, batches)
    return reported


def _judged(batches: Sequence[BatchReport]) -> int:
    return sum(batch.records for batch in batches)


def _read(runtime: Runtime, stream: DemoStream) -> StreamOutcome:
    return read_outcome(runtime.bootstrap, runtime.warehouse, stream.name, _COLUMNS.get(stream.name, ()))


def _replay(runtime: Runtime) -> str:
    """Write a fix for ages that are texts; return a command that shows what a replay with it would write."""
    fix = runtime.warehouse.parent / "fix.yaml"
    fix.write_text(admissions.FIX)
    options = {
        "--fix": shown_path(fix),
        "--registry": runtime.registry_url,
        "--bootstrap-servers": runtime.bootstrap,
        "--warehouse": shown_path(runtime.warehouse),
    }
    given = " ".join(f"{name} {value}" for name, value in options.items())
    return f"{own_command()} replay {admissions.NAME} --where rule=type {given} --dry-run"


def own_command() -> str:
    """Return the shell command of this installation: `tidegate` if PATH finds it, otherwise its path."""
    own, found = Path(sys.executable).with_name("tidegate"), shutil.which("tidegate")
    is_found = found is not None and (not own.exists() or own.samefile(found))
    return "tidegate" if is_found else shown_path(own)


def shown_path(path: Path) -> str:
    """Return a path for a shell, relative to the current folder if it is below it."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _report(results: Mapping[str, StreamResult], batches: Mapping[str, Sequence[BatchReport]]) -> DemoReport:
    begun = datetime.fromtimestamp(psutil.Process().create_time(), UTC)
    first_verdict = min(batch.committed_at for reports in batches.values() for batch in reports)
    return DemoReport(
        streams={name: result.figures for name, result in results.items()},
        seconds_to_first_verdict=round((first_verdict - begun).total_seconds(), 1),
        seconds=round((datetime.now(UTC) - begun).total_seconds(), 1),
    )
