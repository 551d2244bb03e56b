"""Records as confluent-kafka's own serializers write them, judged with the schemas that a real registry lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    Rule,
    RuleSet,
    Schema,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
from confluent_kafka.schema_registry.rules.cel.cel_field_executor import CelFieldExecutor
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.integration.registry_line import Registry, codes, serve_registry
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.formats.framing import schema_header


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Admission", "namespace": "hospital", "fields": fields})


AGE = {"name": "age", "type": "int"}
OLD = record(AGE)
WARD = {"name": "ward", "type": "string", "default": "unknown"}
NEW = record(WARD, {**AGE, "type": "long"})
JSON = '{"type":"object","title":"Admission","properties":{"age":{"type":"integer"}}}'


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_registry(tmp_path_factory.mktemp("registry")) as served:
        yield served


@pytest.fixture
def client(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url}) as made:
        yield made


def test_each_record_is_read_with_the_schema_that_wrote_it(url: str, client: SchemaRegistryClient) -> None:
    context = SerializationContext("mixed", MessageField.VALUE)
    old = AvroSerializer(client, OLD)({"age": 63}, context)
    client.register_schema("elsewhere-value", Schema(record(AGE, WARD), "AVRO"))
    foreign = AvroSerializer(client, record(AGE, WARD))(
        {"age": 63, "ward": "icu"}, SerializationContext("elsewhere", MessageField.VALUE)
    )
    with Registry(url, "mixed") as registry:
        assert codes(registry.contract.current(), [old, foreign]) == ["", "frame.unknown-schema"]
        new = AvroSerializer(client, NEW)({"age": 63, "ward": "icu"}, context)
        plan = registry.contract.current()
        judged = plan.judge_typed(pa.array([old, new], pa.binary())).field("columns").to_pylist()
        assert judged == [{"ward": "unknown", "age": 63}, {"ward": "icu", "age": 63}]
        assert (plan.contract.version, len(plan.columns)) == ("1.1.0", 2)
        unregistered = b"\0" + (2**31 - 1).to_bytes(4, "big") + new[5:]
        assert codes(plan, [unregistered, b"\x01" + new[1:], new[:3], new[:-1]]) == [
            "frame.unknown-schema",
            "frame.missing",
            "frame.truncated",
            "avro.truncated",
        ]


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_headers_name_the_schema(url: str, client: SchemaRegistryClient, kind: str) -> None:
    topic = f"headers-{kind.lower()}"
    conf = {"schema.id.serializer": header_schema_id_serializer}
    if kind == "AVRO":
        write = AvroSerializer(client, OLD, conf=conf)
    else:
        write = JSONSerializer(JSON, client, conf=conf)
    headers: list[tuple[str, bytes]] = []
    value = write({"age": 63}, SerializationContext(topic, MessageField.VALUE, headers))
    document = httpx.get(f"{url}/api/v1/contracts/{topic}/versions/latest").json()
    document |= {"framing": "confluent-header", "version": "2.0.0"}
    assert httpx.post(f"{url}/api/v1/contracts", json=document, timeout=60).status_code == 201
    header = schema_header(headers)
    assert header is not None
    with Registry(url, topic) as registry:
        plan = registry.contract.current()
        values: list[bytes | None] = [value, value, value, None]
        assert codes(plan, values, [header, None, header[:-1] + b"?", None]) == [
            "",
            "frame.missing",
            "frame.unknown-schema",
            "value.null",
        ]


def test_json_with_a_prefix(url: str, client: SchemaRegistryClient) -> None:
    context = SerializationContext("json", MessageField.VALUE)
    value = JSONSerializer(JSON, client)({"age": 63}, context)
    with Registry(url, "json") as registry:
        plan = registry.contract.current()
        assert plan.contract.framing == "auto"
        foreign = b"\0" + (2**31 - 1).to_bytes(4, "big") + value[5:]
        assert codes(plan, [value, value[5:], foreign]) == ["", "", "frame.unknown-schema"]


def test_while_the_registry_does_not_answer_known_schemas_serve_and_unknown_ones_wait(
    url: str, client: SchemaRegistryClient
) -> None:
    context = SerializationContext("away", MessageField.VALUE)
    old = AvroSerializer(client, OLD)({"age": 63}, context)
    with Registry(url, "away") as registry:
        registry.contract.current()
        registry.is_away = True
        new = AvroSerializer(client, NEW)({"age": 63, "ward": "icu"}, context)
        plan = registry.contract.current()
        assert codes(plan, [old]) == [""]
        with pytest.raises(Unavailable, match="it must answer before"):
            plan.judge(pa.array([old, new], pa.binary()))
        registry.is_away = False
        assert codes(registry.contract.current(), [old, new]) == ["", ""]


def test_versions_are_fetched_once(url: str, client: SchemaRegistryClient) -> None:
    for number in range(30):
        httpx.put(f"{url}/config/many-value", json={"compatibility": "NONE"})
        client.register_schema("many-value", Schema(record({"name": f"f{number}", "type": "int"}), "AVRO"))
    with Registry(url, "many") as registry:
        plan = registry.contract.current()
        assert "/schemas" in registry.asked
        registry.asked.clear()
        assert registry.contract.current().fingerprint == plan.fingerprint
        assert registry.asked == [
            "/api/v1/contracts/many/versions/latest",
            "/subjects/many-value/versions",
            "/subjects/many-value/versions/30",
        ]


def test_a_recreated_subject_has_other_schemas_under_the_same_versions(
    url: str, client: SchemaRegistryClient
) -> None:
    context = SerializationContext("anew", MessageField.VALUE)
    before = AvroSerializer(client, OLD)({"age": 63}, context)
    with Registry(url, "anew") as registry:
        assert codes(registry.contract.current(), [before]) == [""]
        AvroSerializer(client, NEW)({"age": 63, "ward": "icu"}, context)
        client.delete_version("anew-value", 1)
        assert codes(registry.contract.current(), [before]) == [
            ""
        ]  # what was deleted softly is still readable
        client.delete_subject("anew-value")
        client.delete_subject("anew-value", permanent=True)
        client.clear_caches()
        after = AvroSerializer(client, record(AGE, WARD))({"age": 63, "ward": "icu"}, context)
        assert codes(registry.contract.current(), [before, after]) == ["frame.unknown-schema", ""]


TAGGED = (
    '{"type":"object","title":"Admission","properties":{"age":{"type":"integer"},'
    '"name":{"type":"string","confluent:tags":["PII"]}}}'
)


def rule(name: str, **parts: Any) -> Rule:
    return Rule.from_dict({"name": name, "kind": "CONDITION", "mode": "WRITE", "type": "CEL", **parts})


def test_what_a_client_transforms_is_judged_as_it_wrote_it(url: str, client: SchemaRegistryClient) -> None:
    for executor in (CelExecutor(), CelFieldExecutor()):
        RuleRegistry.register_rule_executor(executor)
    rules = [
        rule("isPlain", expr="!message.name.endsWith('-masked')"),
        rule("mask", kind="TRANSFORM", type="CEL_FIELD", tags=["PII"], expr="value + '-masked'"),
        rule("isMasked", expr="message.name.endsWith('-masked')"),
    ]
    client.register_schema("masked-value", Schema(TAGGED, "JSON", [], None, RuleSet(None, rules)))
    context = SerializationContext("masked", MessageField.VALUE)
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    transformed = JSONSerializer(TAGGED, client, conf=conf)({"age": 63, "name": "Ann"}, context)
    assert json.loads(transformed[5:]) == {"age": 63, "name": "Ann-masked"}
    plain = JSONSerializer(TAGGED, client)({"age": 63, "name": "Ann"}, context)  # by default it runs no rules
    with Registry(url, "masked") as registry:
        assert codes(registry.contract.current(), [transformed, plain]) == ["", "confluent.ismasked"]
    (version,) = httpx.get(f"{url}/api/v1/contracts/masked").json()["versions"]
    assert version["note"].splitlines() == [
        "the rule isPlain is about what a later rule of clients changes: it is kept for clients and not judged here",
        "the rule mask is a TRANSFORM of type CEL_FIELD, which clients run: it is kept for clients and not judged here",
    ]
