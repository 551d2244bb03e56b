"""Selection of refused records, the preview of their replay, and its request; or its run, without a job.

A request has a fixed set of positions in the quarantine topic. The registry stores it, and the job of the stream
processes it under its claim. Without a job, this process claims the stream as a job does, and processes the requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode
from uuid import UUID

import httpx
from pydantic import TypeAdapter

from tidegate.contracts.errors import ConflictError, NotFoundError, SettingsError, StreamStopped, Unavailable
from tidegate.contracts.fix.model import Fix
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import RegistryAnswer, Request, send
from tidegate.contracts.stream.evidence import Evidence, headers_of, read_evidence
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import (
    FEWER_RECORDS,
    MOST_RECORDS,
    ReplayAction,
    ReplayOrder,
    ReplayState,
    ReplayTerms,
    Run,
    StreamReplay,
    digest_of_refusals,
    positions_of,
    runs_of,
)
from tidegate.contracts.stream.replay_preview import ReplayPreview
from tidegate.contracts.words import counted
from tidegate.spark_jobs.adopt.log import required
from tidegate.spark_jobs.adopt.replay_preview import ReplayPreviewer
from tidegate.spark_jobs.contract_source import RegistryContract, mask_key_of, registry_http
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.source_topic import find_source
from tidegate.spark_jobs.kafka.topics import Topics

if TYPE_CHECKING:
    from tidegate.contracts.judge.plan import EnforcementPlan
    from tidegate.spark_jobs.settings import JobSettings

_REGISTRY_SECONDS: Final = 60.0
AGAIN: Final = "again"
WHERE: Final = ("rule", "stage", "version", "partition", AGAIN)
"""Properties that select refused records: violated rule or keyword, stage, contract version, source partition.

`again` is the code that a record violated when a replay refused it again. Only the registry's index has it, not the
topic.
"""

_RUNS: Final = TypeAdapter(dict[int, tuple[Run, ...]])


@dataclass(frozen=True, slots=True)
class ReplayChoice:
    """The refused records to replay: by positions, by a problem of the registry's index, or by properties."""

    positions: Positions | None = None
    problem: str | None = None
    where: Mapping[str, str] | None = None

    def has(self, found: Evidence) -> bool:
        """Return whether a refusal has all of the properties in `where` that its headers can tell."""
        known: dict[str, set[str]] = {
            "rule": {*found.rules},
            "stage": {each.stage.value for each in found.violations},
            "version": {found.contract.rpartition("@")[2]},
            "partition": {str(found.source.partition)},
        }
        return all(value in known[name] for name, value in (self.where or {}).items() if name in known)


def read_positions(text: str) -> Positions:
    """Parse the text of a file of positions: lines `partition/offset`, or JSON with `partitions`.

    The registry exports positions in the JSON form. Raises SettingsError.
    """
    try:
        if text.lstrip()[:1] == "{":
            return positions_of(_RUNS.validate_python(json.loads(text)["partitions"]))
        places = [line.split("/") for line in text.split() if line]
        return Positions(sorted({(int(partition), int(offset)) for partition, offset in places}))
    except (ValueError, KeyError, TypeError, StreamStopped) as error:
        no_position = isinstance(error, StreamStopped)
        reason = "no topic has such a position" if no_position else str(error).partition("\n")[0]
        raise SettingsError(
            "--positions: give lines partition/offset of the quarantine topic, or the JSON of the registry's positions "
            f"({reason})"
        ) from error


@contextmanager
def replays(settings: JobSettings, stream: str) -> Iterator[ReplayPlanner]:
    """Open a planner of replays. Raises NotFoundError for a stream without a contract, SettingsError, Unavailable."""
    with registry_http(settings, settings.registry_url, _REGISTRY_SECONDS) as client:
        plan = RegistryContract(client, stream, 0.0, Event(), mask_key_of(settings)).current()
        yield ReplayPlanner(settings, plan, client)


class ReplayPlanner:
    """Planner of the replays of one stream."""

    def __init__(self, settings: JobSettings, plan: EnforcementPlan, client: httpx.Client) -> None:
        self._settings = settings
        self._kafka = settings.kafka
        self._plan = plan
        self._client = client
        self._stream = plan.contract.id
        self._topics = Topics(settings.kafka)
        self._source = find_source(self._topics, plan)
        self._topic = quarantine_topic(self._source.name)

    def freeze(self, choice: ReplayChoice) -> Positions:
        """Return the present positions of the chosen refusals.

        Raises NotFoundError if there are none, SettingsError if there are more than a request may have.
        """
        if choice.positions is not None:
            found = choice.positions
        elif choice.problem is not None:
            found = indexed(self._client, self._stream, problem=choice.problem)
        else:
            found = self._having(choice)
        if not found:
            raise NotFoundError(f"{self._topic} holds no such record")
        if len(found) > MOST_RECORDS:
            raise SettingsError(
                f"{len(found):,} refused records are chosen, and a request has {MOST_RECORDS:,} at most: {FEWER_RECORDS}"
            )
        return found

    def preview(self, positions: Positions, fix: Fix | None, terms: ReplayTerms) -> ReplayPreview:
        """Return the preview of a replay; nothing is changed.

        Raises NotFoundError for a stream without a ledger, ConflictError for a request that the job would stop.
        """
        return self._previewer().preview(positions, fix, terms)

    def order(self, positions: Positions, fix: Fix | None, **options: Any) -> StreamReplay:
        """Request a replay from the registry and return it as stored. `options` are further fields of `ReplayOrder`.

        The request is for the ledger of these settings. Raises NotFoundError without one or without a quarantine topic,
        and the errors of `required`.
        """
        identity = self._topics.identity(self._topic)
        if identity is None:
            raise NotFoundError(f"there is no topic {self._topic}")
        order = ReplayOrder(
            topic=self._topic,
            topic_id=identity[0],
            positions=runs_of(positions),
            records=len(positions),
            digest=digest_of_refusals(self._topic, positions),
            fix=None if fix is None else fix.text,
            fingerprint=None if fix is None else fix.fingerprint,
            ledger=self._previewer().ledger().name,
            **options,
        )
        answer = self._ask(requests.post(requests.stream_path(self._stream, "replays"), order))
        required(self._client, answer, "request a replay")
        return answer.read(StreamReplay)

    def find(self, replay: UUID) -> StreamReplay:
        """Return a request as the registry has it now. Raises NotFoundError, and the errors of `required`."""
        answer = self._ask(Request("GET", requests.stream_path(self._stream, "replays", str(replay))))
        if answer.is_missing:
            raise NotFoundError(f"the registry knows no request {replay} of {self._stream}")
        required(self._client, answer, "tell of a replay")
        return answer.read(StreamReplay)

    def require_own(self, replay: StreamReplay) -> None:
        """Require that a request is for the ledger of these settings.

        Raises NotFoundError for a stream without a ledger, ConflictError for a request for another one.
        """
        held = self._previewer().ledger()
        if replay.ledger not in {None, held.name}:
            raise ConflictError(
                f"the request {replay.id} is for refusals of the ledger {replay.ledger}, and these settings have {held.name}: "
                "nothing was processed. Give --sink, and --warehouse or the other options of the table, as its job has them"
            )

    def run(self, replay: UUID) -> StreamReplay:
        """Claim the stream and process an open request, as its job does; return its resulting state."""
        from tidegate.spark_jobs.job.control import RegistryControl  # noqa: PLC0415 - loads Spark
        from tidegate.spark_jobs.job.reports import RegistryReporter  # noqa: PLC0415 - the same
        from tidegate.spark_jobs.job.stream import Job, StreamAttempt  # noqa: PLC0415 - the same
        from tidegate.spark_jobs.session import build_session  # noqa: PLC0415 - the same
        from tidegate.spark_jobs.steps import ignore_steps  # noqa: PLC0415 - the same

        stopping = Event()
        control = RegistryControl(self._client, self._stream, stopping)
        control.replays.name(replay)
        contracts = RegistryContract(self._client, self._stream, 0.0, stopping, mask_key_of(self._settings))
        spark = build_session(self._settings)
        reporter = RegistryReporter(self._client)
        try:
            job = Job(spark, self._settings, self._topics, reporter, ignore_steps)
            StreamAttempt(job, self._stream, contracts, control).run_replays(stopping)
        finally:
            reporter.close()
            spark.stop()
        return self.find(replay)

    def _having(self, choice: ReplayChoice) -> Positions:
        again = (choice.where or {}).get(AGAIN)
        within = None if again is None else refused_again_by(self._client, self._stream, again)
        found = Positions.of({})
        for message in read_committed(self._kafka, self._topic, {}, self._latest()):
            evidence, place = (
                read_evidence(headers_of(message)),
                (message.partition() or 0, message.offset() or 0),
            )
            if evidence is not None and choice.has(evidence) and (within is None or place in within):
                found.add(*place)
        return found

    def _previewer(self) -> ReplayPreviewer:
        return ReplayPreviewer(self._settings, self._plan, self._topics, self._topic)

    def _latest(self) -> dict[int, int]:
        return self._topics.latest(self._topic) if self._topics.identity(self._topic) is not None else {}

    def _ask(self, request: Request) -> RegistryAnswer:
        return _asked(self._client, request)


def indexed(client: httpx.Client, stream: str, **wanted: str) -> Positions:
    """Return the positions of refused records from the registry's index; `wanted` are the query parameters.

    Raises NotFoundError, Unavailable.
    """
    path = requests.stream_path(stream, "quarantine", "positions")
    answer = _asked(client, Request("GET", f"{path}?{urlencode(wanted)}"))
    if answer.is_missing:
        raise NotFoundError(f"the registry knows no {' '.join(*wanted.items())} of {stream}")
    required(client, answer, "list refused records")
    return read_positions(answer.content.decode())


def refused_again_by(client: httpx.Client, stream: str, code: str) -> Positions:
    """Return the positions of records that a replay refused again with a code. Raises NotFoundError, Unavailable.

    The codes are requested first: a registry of an earlier release ignores this filter, and would return every refused
    record.
    """
    path = requests.stream_path(stream, "quarantine", "breakdown")
    answer = _asked(client, Request("GET", f"{path}?by={AGAIN}"))
    required(client, answer, "count what replays refused again")
    codes = [each["value"] for each in answer.document["groups"]]
    if code not in codes:
        known = f"there are: {', '.join(codes)}" if codes else "no replay has refused a record again"
        raise NotFoundError(f"no record of {stream} was refused again by {code}; {known}")
    return indexed(client, stream, **{AGAIN: code})


def _asked(client: httpx.Client, request: Request) -> RegistryAnswer:
    try:
        return send(client, request)
    except httpx.HTTPError as error:
        raise Unavailable(
            f"the registry at {client.base_url} does not answer ({error}); nothing was changed"
        ) from error


def parse_where(texts: Iterable[str]) -> dict[str, str]:
    """Parse selectors such as `rule=age-is-known` into a dictionary. Raises SettingsError."""
    found = {}
    for text in texts:
        name, is_given, value = text.partition("=")
        if name not in WHERE or not is_given or not value:
            raise SettingsError(f"--where {text}: give one of {', '.join(f'{each}=...' for each in WHERE)}")
        found[name] = value
    return found


_STATES: Final = {
    ReplayState.PROPOSED: "waits for the approval of another person",
    ReplayState.OPEN: "waits for the job",
}


def replay_text(replay: StreamReplay) -> str:
    """Return the state of a replay as a sentence."""
    report, noun = replay.report, "discard" if replay.action is ReplayAction.DISCARD else "replay"
    request = f"{noun} {replay.id} of {counted(replay.records, 'record')} of {replay.stream}"
    if report is None:
        state = _STATES.get(replay.state, f"is {replay.state}")
        return f"{request} {state}"
    match replay.action:
        case ReplayAction.REPLAY:
            done = f"{report.written:,} written, {report.refused:,} refused again"
        case ReplayAction.DISCARD:
            done = f"{report.closed:,} discarded"
        case ReplayAction.TO_SOURCE:
            done = f"{report.closed:,} sent to the source topic, {report.refused:,} refused again"
    counts = f"{done}, {report.left:,} left"
    message = f". {report.message}" if report.message else ""
    return f"{request} is {replay.state}: {counts}{message}"
