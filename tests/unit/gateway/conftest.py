"""The published example, and problem documents of the native API."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tidegate.gateway.http.models.examples import CONTRACT_YAML

CONTRACTS = "/api/v1/contracts"
VERSION = f"{CONTRACTS}/hospital.admissions/versions/1.2.0"
LATEST = f"{CONTRACTS}/hospital.admissions/versions/latest"
# What is refused before anything is stored is refused alike on every database: once is enough.
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def problem(answer: httpx.Response) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document["status"] == answer.status_code
    assert document["type"].startswith("urn:tidegate:problem:")
    return document


@pytest.fixture
def published(client: Any) -> dict[str, Any]:
    """The answer to the publication of the example."""
    answer = client.post(CONTRACTS, CONTRACT_YAML, "application/yaml")
    assert answer.status_code == 201
    body: dict[str, Any] = answer.json()
    return body
