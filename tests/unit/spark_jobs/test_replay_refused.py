"""What the command says when the registry does not take a request: its reason, and a way out; and what is an outage."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from tests.unit.gateway.quarantine_records import Process, refused
from tidegate.contracts.errors import ConflictError, CredentialsError, NotFoundError, Unavailable
from tidegate.contracts.registry_client.messages import RegistryAnswer
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import MOST_REQUEST_BYTES, digest_of_refusals, runs_of
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.streams.quarantine_index.closures import keep_reasons
from tidegate.spark_jobs.adopt.log import required
from tidegate.spark_jobs.adopt.replay import refused_again_by

STREAM = "hospital.admissions"
PLACES = Positions([(0, 17)])
REGISTRY = httpx.Client(base_url="http://registry:8081")
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture(autouse=True)
def published(factory: Factory, make_contract: Callable[..., bytes]) -> None:
    factory.registry().publish(make_contract(), "contract.json")


def body(**changes: Any) -> bytes:
    topic = changes.get("topic", f"{STREAM}.quarantine")
    digest = digest_of_refusals(topic, PLACES)
    order = {"topic": topic, "topic_id": "id", "positions": runs_of(PLACES), "records": 1, "digest": digest}
    return json.dumps({**order, **changes}).encode()


@pytest.mark.parametrize(
    ("content", "said", "advice"),
    [
        (
            body(topic="other.quarantine"),
            "(409): the refused records of hospital.admissions are in hospital.admissions.quarantine",
            "Look at what the registry has now",
        ),
        (b" " * (MOST_REQUEST_BYTES + 1), "(413): the body is larger than", "--where partition=0"),
        (
            body(records=0),
            "(422): the body is no request to replay records; /records Input should be greater than or equal to 1",
            "Correct what it names",
        ),
    ],
    ids=["409", "413", "422"],
)
def test_what_the_registry_refuses_is_no_outage(client: Any, content: bytes, said: str, advice: str) -> None:
    response = client.post(f"/api/v1/streams/{STREAM}/replays", content)
    answer = RegistryAnswer(response.status_code, response.reason_phrase, response.content)
    with pytest.raises(ConflictError) as found:
        required(REGISTRY, answer, "request a replay")
    text = str(found.value)
    assert text.startswith("the registry at http://registry:8081 refuses to request a replay (")
    assert said in text
    assert "; nothing was changed. " in text
    assert advice in text


@pytest.mark.parametrize(
    ("status", "content", "error", "said"),
    [
        (
            413,
            b"<html>",
            ConflictError,
            "Request Entity Too Large; nothing was changed. Request fewer records",
        ),
        (422, b'{"errors": 7}', ConflictError, "Request Entity Too Large; nothing was changed"),
        (403, b"", CredentialsError, "role approver"),
        (429, b"", Unavailable, "answered 429"),
        (502, b"", Unavailable, "answered 502"),
    ],
)
def test_the_answer_of_something_else_is_told(
    status: int, content: bytes, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        required(REGISTRY, RegistryAnswer(status, "Request Entity Too Large", content), "request a replay")


def test_records_are_chosen_by_what_they_violate_since_a_replay(factory: Factory) -> None:
    """By the registry's index; a code that it does not know chooses nothing."""
    Process(factory, "one", stream=STREAM).ingest(
        [refused(offset, contract=STREAM, topic=STREAM) for offset in range(3)]
    )
    with TestClient(create_app(factory), base_url="http://localhost") as client:
        with pytest.raises(NotFoundError, match="by ward-is-open; no replay has refused a record again"):
            refused_again_by(client, STREAM, "ward-is-open")
        again = {"ward-is-open": Positions([(0, 0), (0, 2)]), "type": Positions([(0, 1)])}
        factory.database.write(lambda stores: keep_reasons(stores, STREAM, again, []))
        assert list(refused_again_by(client, STREAM, "ward-is-open")) == [(0, 0), (0, 2)]
        with pytest.raises(NotFoundError, match="by format; there are: ward-is-open, type"):
            refused_again_by(client, STREAM, "format")


def test_a_registry_that_knows_no_new_reasons_names_no_records() -> None:
    """One of an earlier release would leave the parameter out, and name every refused record."""
    transport = httpx.MockTransport(lambda _: httpx.Response(422, json={"detail": "by is no dimension"}))
    with (
        httpx.Client(transport=transport, base_url="http://registry:8081") as client,
        pytest.raises(ConflictError, match=r"\(422\): by is no dimension.*compare the releases"),
    ):
        refused_again_by(client, STREAM, "ward-is-open")
