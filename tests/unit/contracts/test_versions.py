"""Neighbouring releases read what each other wrote, or say by name that they cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.adoption import Adoption
from tidegate.contracts.stream.control import Heartbeat, RecordPosition, StreamControl, StreamEvent, Trip
from tidegate.contracts.stream.evidence import EventPointer, Headers, read_evidence, read_provenance
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.reconciliation import HeartbeatAnswer, ReconciliationResult
from tidegate.contracts.stream.replay import ReplayReport, ReplayRequest
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.stream.table_audit import TableAudit
from tidegate.contracts.stream.versions import LEDGER_FORMAT, newer_ledger, not_obeyed

GOLDEN = Path(__file__).parent / "golden"
"""What release 0.1 writes. Every later release reads it: files are added here, and never changed."""

MESSAGES: dict[str, type[BaseModel]] = {
    "control-paused": StreamControl,
    "control-untouched": StreamControl,
    "event": StreamEvent,
    "heartbeat": Heartbeat,
    "heartbeat-answer": HeartbeatAnswer,
    "heartbeat-answer-replay": HeartbeatAnswer,
    "heartbeat-ledger": Heartbeat,
    "heartbeat-table": Heartbeat,
    "reconciliation-result": ReconciliationResult,
    "replay-report": ReplayReport,
    "replay-request": ReplayRequest,
    "replay-request-ledger": ReplayRequest,
    "report": BatchReport,
    "table-audit": TableAudit,
    "trip": Trip,
}
LEDGERS = ("ledger-new", "ledger-published", "ledger-adopted", "ledger-replayed", "ledger-closed")
HEADERS = ("headers-accepted", "headers-quarantined")
LATER = "of_a_later_release"
MAPS = ("again", "closures", "untouched")
"""Fields whose keys are values: a later release adds no field to them."""


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.json").read_text().strip()


def with_later_fields(value: Any) -> Any:
    """Add an unknown field to every object in a JSON value that is no map of partitions, steps or other values."""
    match value:
        case dict() if "judge" in value or all(key.isdigit() for key in value):
            return value
        case dict():
            known = {key: each if key in MAPS else with_later_fields(each) for key, each in value.items()}
            return {**known, LATER: {"deep": [1]}}
        case list():
            return [with_later_fields(each) for each in value]
    return value


def test_every_golden_file_is_read() -> None:
    assert {each.stem for each in GOLDEN.iterdir()} == {*MESSAGES, *LEDGERS, *HEADERS, "adoption"}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_of_the_first_release_are_read(name: str) -> None:
    message = MESSAGES[name].model_validate_json(golden(name))
    written = json.loads(message.model_dump_json())
    assert json.loads(golden(name)).items() <= written.items()


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_of_a_later_release_are_ignored_in_messages(name: str) -> None:
    later = with_later_fields(json.loads(golden(name)))
    assert LATER in later
    read = MESSAGES[name].model_validate_json(json.dumps(later))
    known = MESSAGES[name].model_validate_json(golden(name))
    assert read.model_dump(exclude={LATER}) == known.model_dump()


def test_a_gateway_keeps_what_a_later_release_has_decided() -> None:
    later = {**json.loads(golden("control-untouched")), "requires": ["drain"], "drain": {"until": 5}}
    changed = StreamControl.model_validate(later).with_set_aside(RecordPosition(partition=0, offset=1))
    assert (
        json.loads(changed.model_dump_json()).items()
        >= {"requires": ["drain"], "drain": {"until": 5}}.items()
    )


def test_a_control_without_demands_is_written_as_the_first_release_wrote_it() -> None:
    for name in ("control-untouched", "control-paused"):
        assert StreamControl.model_validate_json(golden(name)).model_dump_json() == golden(name)


def test_an_adoption_that_cannot_be_kept_whole_is_refused() -> None:
    Adoption.model_validate_json(golden("adoption"))
    with pytest.raises(ValidationError, match=LATER):
        Adoption.model_validate_json(json.dumps({**json.loads(golden("adoption")), LATER: 1}))


@pytest.mark.parametrize("name", LEDGERS)
def test_ledgers_of_the_first_release_keep_their_text(name: str) -> None:
    assert Ledger.parse(golden(name)).text == golden(name)


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ("1.4", "Tidegate 1.4"),
        ("1.4.0rc1", "Tidegate 1.4.0rc1"),
        (None, "a newer release of Tidegate"),
        ("1.0\nstart again with --force", "a newer release of Tidegate"),
    ],
)
def test_a_ledger_of_a_newer_format_stops_by_name(release: str | None, told: str) -> None:
    text = json.dumps({"format": 2, "release": release, "positions": "written otherwise"})
    with pytest.raises(StreamStopped) as stopped:
        Ledger.parse(text)
    assert f"cannot be read by this version: it was written by {told} in format 2" in str(stopped.value)
    assert "Start the job with that release or a later one" in str(stopped.value)
    assert "--force" not in str(stopped.value)


@pytest.mark.parametrize(
    ("changes", "named"),
    [({LATER: 1}, f"{LATER}: Extra inputs"), ({"format": 0}, "format: "), ({"epoch": -1}, "epoch: ")],
)
def test_a_ledger_of_this_format_is_read_whole_or_not_at_all(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(StreamStopped, match=named) as stopped:
        Ledger.parse(json.dumps({**json.loads(golden("ledger-published")), **changes}))
    assert "errors.pydantic.dev" not in str(stopped.value)


@pytest.mark.parametrize("text", ["", "[1]", "null", "{", '{"format": "2"}', "[" * 100_000])
def test_a_text_that_is_no_ledger_stops_by_name(text: str) -> None:
    with pytest.raises(StreamStopped, match="cannot be read by this version"):
        Ledger.parse(text)


def headers(name: str) -> list[tuple[str, bytes]]:
    return [(key, value.encode()) for key, value in json.loads(golden(name))]


def with_later_headers(name: str) -> Headers:
    return [("traceparent", b"00"), *headers(name), ("tidegate.of-a-later-release", b"\xff"), ("x", None)]


@pytest.mark.parametrize("name", HEADERS)
def test_headers_of_the_first_release_are_read_among_unknown_ones(name: str) -> None:
    found = read_provenance(with_later_headers(name))
    assert found is not None
    assert (found.source, found.ledger, found.contract) == (EventPointer("t", 1, 7), "s@iceberg:1", "s@1.0.0")
    evidence = read_evidence(with_later_headers(name))
    assert (evidence is None) == (name == "headers-accepted")
    assert evidence is None or (evidence.rules, evidence.refusal is None) == (("age-is-known", "mean"), False)


def test_evidence_of_a_newer_format_is_not_taken_for_what_this_release_knows() -> None:
    newer = [*headers("headers-quarantined"), ("tidegate.format", b"2")]
    assert read_evidence(newer) is None
    assert read_provenance(newer) is not None


@pytest.mark.parametrize("text", [b"2", b"x", b""])
def test_a_format_that_a_producer_sends_does_not_count(text: bytes) -> None:
    forged = [("tidegate.format", text), *headers("headers-quarantined")]
    assert read_evidence(forged) is not None


def test_only_a_higher_format_is_newer() -> None:
    assert newer_ledger(json.dumps({"format": LEDGER_FORMAT, "release": "9.0"})) is None
    assert newer_ledger(json.dumps({"format": LEDGER_FORMAT + 1, "release": "9.0"})) == (
        LEDGER_FORMAT + 1,
        "Tidegate 9.0",
    )


@pytest.mark.parametrize(
    ("control", "unknown"),
    [
        ({}, ()),
        ({"requires": []}, ()),
        ({"requires": "drain"}, ("unknown",)),
        ({"requires": ["nap", "drain"]}, ("drain", "nap")),
        ({"requires": ["drain", 7, "No name"]}, ("drain", "unknown")),
    ],
)
def test_what_a_control_requires_and_no_job_of_this_release_can_do_is_named(
    control: dict[str, Any], unknown: tuple[str, ...]
) -> None:
    assert not_obeyed(control) == unknown
