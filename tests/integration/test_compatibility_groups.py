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
from tidegate.contracts.errors import Unavailable

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


def test_while_the_registry_does_not_answer_the_groups_serve_and_unknown_schemas_wait(url: str) -> None:
    group_by_app_version(url, "away")
    first = register(url, "away", V1, "1")
    second = register(url, "away", V2, "2")
    old, new = framed(first, {"ward": "icu"}), framed(second, {"unit": "icu"})
    with Registry(url, "away") as registry:
        fingerprint = registry.contract.current().fingerprint
        registry.is_away = True
        assert codes(registry.contract.current(), [old, new]) == ["", ""]
        third = framed(register(url, "away", V1 | {"title": "x"}, "3"), {"ward": "icu"})
        with pytest.raises(Unavailable, match="it must answer before"):
            registry.contract.current().judge(pa.array([old, third], pa.binary()))
        registry.is_away = False
        plan = registry.contract.current()
        assert codes(plan, [old, new, third]) == ["", "", ""]
        assert plan.fingerprint != fingerprint
        registry.asked.clear()
        assert registry.contract.current().fingerprint == plan.fingerprint
        assert registry.asked == [
            "/api/v1/contracts/away/versions/latest",
            "/subjects/away-value/versions",
            "/subjects/away-value/versions/3",
            "/api/v1/contracts/away/groups",
        ]


def test_without_the_list_of_groups_no_record_is_judged(url: str) -> None:
    """The newest version alone would refuse the records of the older group."""
    group_by_app_version(url, "cut")
    first = register(url, "cut", V1, "1")
    register(url, "cut", V2, "2")
    with Registry(url, "cut") as registry:
        registry.cut = "/groups"
        registry.stopping.set()
        with pytest.raises(Unavailable, match="stopped while waiting for the registry"):
            registry.contract.current()
        registry.cut = None
        assert codes(registry.contract.current(), [framed(first, {"ward": "icu"})]) == [""]


def test_a_deleted_group_is_not_judged_by_another_one(url: str) -> None:
    group_by_app_version(url, "deleted")
    first = register(url, "deleted", V1, "1")
    second = register(url, "deleted", V2, "2")
    values: list[bytes | None] = [
        framed(first, {"ward": "a"}),
        framed(second, {"unit": "a"}),
        b'{"unit":"a"}',
    ]
    with Registry(url, "deleted") as registry:
        assert codes(registry.contract.current(), values) == ["", "", "frame.group-unnamed"]
        assert httpx.delete(f"{url}/subjects/deleted-value/versions/1").status_code == 200
        assert codes(registry.contract.current(), values) == ["frame.group-not-enforced", "", ""]
