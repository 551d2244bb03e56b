"""Refused records of a line, and requests to replay them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.line import Line, Sent, row
from tests.integration.enforce.test_faults import SINKS
from tests.integration.enforce.test_source_changes import PowerCutError
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.evidence import SENT_BACK_HEADER, headers_of, read_provenance
from tidegate.contracts.stream.ledger import Position
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import (
    ReplayRequest,
    ReplayTerms,
    digest_of_refusals,
    positions_of,
    runs_of,
)
from tidegate.contracts.stream.replay_preview import ReplayPreview
from tidegate.spark_jobs.adopt.replay import ReplayChoice, replays
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.replayed import read_closed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import ReplayStep

MENDED: dict[str, Any] = {
    "fix": "amount-sentinel",
    "steps": [{"action": "map", "field": "/amount", "values": [{"from": 999, "to": 1}]}],
}
"""A fix of the records that `line.row` makes with the amount 999."""

RECORDS = 30
KEYED: dict[str, Any] = {"primary_key": ["id"], "tombstones": "delete"}


def long(*places: tuple[str, ReplayStep]) -> list[Any]:
    """Return sinks and steps that are left to the long run."""
    return [pytest.param(*each, marks=pytest.mark.full) for each in places]


def tombstone(number: int) -> Sent:
    """Return the tombstone of a record of `row`."""
    return Sent(None, f"r{number}".encode(), number % 2)


def changes(line: Line) -> dict[str, Any]:
    """Return what the contract of a table with upserts has beside that of others."""
    return KEYED if line.settings.write_mode == "upsert" else {}


def fill(line: Line, records: int = RECORDS, every: int = 5) -> set[Position]:
    """Produce records, some of them refused, and process them; return the source positions of the refused ones.

    Of a table with upserts, the first of those is deleted since, and the second replaced by a newer record.
    """
    line.produce(*(row(n, 999 if n % every == 0 else 1) for n in range(records)))
    line.enforce()
    if line.settings.write_mode == "upsert":
        line.produce(tombstone(0), row(every))
        line.enforce()
    return {*refusals(line).values()}


def line_of(make_line: Callable[..., Line], request: pytest.FixtureRequest) -> Line:
    """Return a line into the sink of a test's parameter, or into an Iceberg table."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    found = make_line(**SINKS[parameters.get("sink", "iceberg")])
    found.contracts.plan = found.plan(**changes(found))
    return found


def cut_after(step: ReplayStep) -> Callable[[str, object], None]:
    """Return an observer that ends the attempt after a step of a replay."""

    def cut(_stream: str, passed: object) -> None:
        if passed is step:
            raise PowerCutError

    return cut


class Killed(BaseException):
    """The attempt ends here, also between steps whose errors would only stop the request."""


def kill_at(step: ReplayStep) -> Callable[[str, object], None]:
    """Return an observer that ends the attempt after a step, whatever handles errors there."""

    def kill(_stream: str, passed: object) -> None:
        if passed is step:
            raise Killed

    return kill


def sent_back(line: Line) -> list[Any]:
    """Return the records of the source topic that were sent back to it."""
    kafka = line.settings.kafka
    found = read_committed(kafka, line.topic, {}, Topics(kafka).latest(line.topic))
    return [each for each in found if SENT_BACK_HEADER in dict(headers_of(each))]


def refusals(line: Line) -> dict[Position, Position]:
    """Return the place of each refused record in the quarantine topic, and its source position."""
    kafka, topic = line.settings.kafka, quarantine_topic(line.topic)
    found = {}
    for message in read_committed(kafka, topic, {}, Topics(kafka).latest(topic)):
        provenance = read_provenance(headers_of(message))
        assert provenance is not None
        place = (message.partition() or 0, message.offset() or 0)
        found[place] = (provenance.source.partition, provenance.source.offset)
    return found


def closed_by(line: Line, closure: Closure) -> set[Position]:
    """Return the places in the quarantine topic that reports named as closed."""
    return {
        place for told in line.replays.told for place in positions_of(dict(told.closures.get(closure, {})))
    }


def failed_by(line: Line) -> dict[str, set[Position]]:
    """Return the places in the quarantine topic that reports named as refused again, by what they violate."""
    found: dict[str, set[Position]] = {}
    for told in line.replays.told:
        for code, places in told.again.items():
            found.setdefault(code, set()).update(positions_of(dict(places)))
    return found


def require_closed_once(line: Line, *, is_rewound: bool) -> None:
    """Require that no refused record was sent twice, or is written although it was sent or discarded.

    And that all of the source is accounted for; of a stream that was not rewound, by the checker too.
    """
    places = refusals(line)
    origins = [dict(headers_of(each))[SENT_BACK_HEADER] or b"" for each in sent_back(line)]
    sent = Counter((int(p), int(offset)) for _, p, offset in (each.decode().split("/") for each in origins))
    written = Counter(line.positions())
    assert {*sent.values(), *written.values()} <= {1}, (sent, written)
    assert not sent.keys() & written.keys(), f"sent and written: {sent.keys() & written.keys()}"
    ledger = line.ledger()
    assert ledger.end == Topics(line.settings.kafka).latest(line.topic)
    assert {*read_closed(line.settings.kafka, ledger)[Closure.RESENT]} == sent.keys()
    found = line.reconcile()
    assert found.holds, found
    if not is_rewound:
        discarded = {places[place] for place in closed_by(line, Closure.DISCARDED)}
        assert not discarded & written.keys(), f"discarded and written: {discarded & written.keys()}"
        require_exactly_once(line, {*places.values()} & written.keys())


def request(line: Line, places: Any = None, **changes: Any) -> ReplayRequest:
    """Request a replay of all refused records that there are now, or of those at some places, of the job of this process."""
    asked = new_request(line, places, **changes)
    line.replays.open.append(asked)
    return asked


def new_request(line: Line, places: Any = None, **changes: Any) -> ReplayRequest:
    """Return such a request, which is made nowhere yet."""
    topic = quarantine_topic(line.topic)
    identity = Topics(line.settings.kafka).identity(topic)
    assert identity is not None
    positions = Positions(sorted(refusals(line) if places is None else places))
    given = changes.pop("fix", None)
    fix = None if given is None else parse_fix(json.dumps(given), name="fix.json")
    return ReplayRequest.model_validate(
        {
            **changes,
            "id": uuid4(),
            "stream": line.contract_id,
            "topic": topic,
            "topic_id": identity[0],
            "positions": runs_of(positions),
            "records": len(positions),
            "digest": digest_of_refusals(topic, positions),
            "fix": fix and fix.text,
            "fingerprint": fix and fix.fingerprint,
            "append_late": changes.get("append_late", line.settings.sink == "kafka"),
        }
    )


def previewed(line: Line, registry_url: str, **terms: Any) -> ReplayPreview:
    """Return what the command shows of a replay of all refused records, with the fix."""
    settings = line.settings.model_copy(update={"registry_url": registry_url})
    with replays(settings, line.contract_id) as planner:
        fix = parse_fix(json.dumps(MENDED), name="fix.json")
        return planner.preview(planner.freeze(ReplayChoice(where={})), fix, ReplayTerms(**terms))


def post_request(asked: ReplayRequest, registry_url: str) -> UUID:
    """Request it of a registry; return the id that it has there."""
    order = asked.model_dump(mode="json", exclude={"id", "stream"})
    answer = httpx.post(f"{registry_url}/api/v1/streams/{asked.stream}/replays", json=order, timeout=60)
    assert answer.status_code == 201, answer.text
    return UUID(answer.json()["id"])


def ask_of_registry(line: Line, registry_url: str, **changes: Any) -> None:
    """Request the same of the registry, which the next job of another process asks soon, and of the job of this process."""
    asked = new_request(line, **changes)
    line.replays.open = [asked.model_copy(update={"id": post_request(asked, registry_url)})]
    line.settings = line.settings.model_copy(update={"heartbeat_seconds": 1.0})
