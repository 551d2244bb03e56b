"""Records of two compatibility groups in one topic, judged by a job that asks a real registry."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.integration.registry_line import Registry, codes, serve_registry

V1 = {
    "type": "object",
    "required": ["ward"],
    "properties": {"ward": {"type": "string"}, "age": {"type": "integer"}},
}
V2 = {
    "type": "object",
    "required": ["unit"],
    "properties": {"unit": {"type": "string"}, "age": {"type": "integer"}},
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_registry(tmp_path_factory.mktemp("registry")) as served:
        yield served


def register(url: str, topic: str, schema: dict[str, Any], version: str) -> int:
    """Register a JSON Schema in the group of an `app_version`; return its id."""
    body = {
        "schemaType": "JSON",
        "schema": json.dumps(schema),
        "metadata": {"properties": {"app_version": version}},
    }
    answer = httpx.post(f"{url}/subjects/{topic}-value/versions", json=body)
    assert answer.status_code == 200, answer.text
    number: int = answer.json()["id"]
    return number


def group_by_app_version(url: str, topic: str) -> None:
    settings = {"compatibilityGroup": "app_version"}
    assert httpx.put(f"{url}/config/{topic}-value", json=settings).status_code == 200


def framed(number: int, record: dict[str, Any]) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + json.dumps(record).encode()


def test_each_record_is_judged_by_the_newest_version_of_the_group_that_its_schema_names(url: str) -> None:
    group_by_app_version(url, "parallel")
    first = register(url, "parallel", V1, "1")
    second = register(url, "parallel", V2, "2")
    values: list[bytes | None] = [
        framed(first, {"ward": "icu", "age": 63}),
        framed(second, {"unit": "icu", "age": 63}),
        framed(first, {"unit": "icu"}),
        framed(second, {"ward": "icu"}),
        framed(2**31 - 1, {"unit": "icu"}),
    ]
    with Registry(url, "parallel") as registry:
        plan = registry.contract.current()
        expected = ["", "", "required", "required", "frame.unknown-schema"]
        assert codes(plan, values) == expected
        assert codes(pickle.loads(pickle.dumps(plan)), values) == expected  # noqa: S301 - our own
        judged = plan.judge_typed(pa.array(values, pa.binary())).field("columns").to_pylist()
        assert judged == [
            {"unit": None, "age": 63, "ward": "icu"},
            {"unit": "icu", "age": 63, "ward": None},
            None,
            None,
            None,
        ]
        route = plan.route(pa.array(values, pa.binary()))
        assert route is not None
        assert route.contracts.to_pylist() == [
            "parallel@1.0.0",
            "parallel@2.0.0",
            "parallel@1.0.0",
            "parallel@2.0.0",
            "parallel@2.0.0",
        ]
        assert plan.contract.version == "2.0.0"
