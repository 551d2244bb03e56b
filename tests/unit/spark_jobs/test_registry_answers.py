"""What a command says of an answer of the registry that is not the one it wants."""

from __future__ import annotations

import json

import httpx
import pytest

from tidegate.contracts.errors import ConflictError, CredentialsError, TidegateError, Unavailable
from tidegate.contracts.registry_client.messages import Answer
from tidegate.spark_jobs.adopt.log import required


@pytest.mark.parametrize(
    ("status", "expected", "message"),
    [
        (401, CredentialsError, "set TIDEGATE_REGISTRY_TOKEN"),
        (409, ConflictError, "10 replays wait already; nothing was changed"),
        (413, ConflictError, "10 replays wait already: choose fewer records with --problem or --where"),
        (422, ConflictError, "10 replays wait already; nothing was changed"),
        (503, Unavailable, "answered 503 when asked to request a replay"),
    ],
)
def test_an_answer_is_an_error_with_a_way_on(
    status: int, expected: type[TidegateError], message: str
) -> None:
    content = json.dumps({"detail": "10 replays wait already"}).encode()
    with pytest.raises(expected, match=message), httpx.Client(base_url="http://registry:8081") as client:
        required(client, Answer(status, "", content), "request a replay")
