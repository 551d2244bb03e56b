"""Serializers and deserializers of an unmodified client against the registry, and the rules that they run or do not."""

from __future__ import annotations

import base64
import json
import threading
import uuid
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
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
from confluent_kafka.schema_registry.serde import RuleConditionError
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from tests.integration.confluent.registry import AVRO, JSON, WIDER, Registry, rules, schema
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.contract_source import RegistryContract


@pytest.mark.parametrize(
    ("topic", "text", "make_serializer", "make_deserializer"),
    [
        ("avro-t", AVRO, AvroSerializer, AvroDeserializer),
        ("json-t", JSON, JSONSerializer, JSONDeserializer),
    ],
)
def test_serializers_by_default_register_write_and_read(
    registry: Registry,
    client: SchemaRegistryClient,
    topic: str,
    text: str,
    make_serializer: Any,
    make_deserializer: Any,
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    if make_serializer is AvroSerializer:
        written = AvroSerializer(client, text)({"age": 999}, context)
        read = AvroDeserializer(client)(written, context)
    else:
        written = JSONSerializer(text, client)({"age": 999}, context)
        read = make_deserializer(None, schema_registry_client=client)(written, context)
    assert read == {"age": 999}
    assert written is not None
    assert written[0] == 0
    number = int.from_bytes(written[1:5])
    associations = f"/associations/resources/-/{topic}?resourceType=topic&associationType=value"
    assert [exchange for exchange in registry.recorder.exchanges if exchange[1].startswith("/assoc")][:1] == [
        ("GET", associations, 200)
    ]
    assert ("POST", f"/subjects/{topic}-value/versions?normalize=False", 200) in registry.recorder.exchanges
    assert client.get_schema(number).schema_type == ("AVRO" if topic == "avro-t" else "JSON")


def test_a_schema_that_names_no_draft_comes_back_as_sent_and_is_judged_as_draft_7(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    text = (
        '{"type":"object","title":"Pair","properties":{"name":{"$ref":"#/definitions/text","maxLength":3}},'
        '"definitions":{"text":{"type":"string","maxLength":5}}}'
    )
    context = SerializationContext("undrafted", MessageField.VALUE)
    serializer = JSONSerializer(text, client)
    written = serializer({"name": "abc"}, context)
    assert written is not None
    assert JSONDeserializer(None, schema_registry_client=client)(written, context) == {"name": "abc"}
    assert client.get_schema(int.from_bytes(written[1:5])).schema_str == text
    with pytest.raises(SerializationError):  # 2020-12 to this client: what stands beside the reference counts
        serializer({"name": "abcd"}, context)
    framed = (written, written.replace(b'"abc"', b'"abcd"'), written.replace(b'"abc"', b'"abcdef"'))
    judged = httpx.post(
        f"{registry.url}/api/v1/contracts/undrafted/versions/latest/judge",
        json={"records": [{"value_base64": base64.b64encode(one).decode()} for one in framed]},
    ).json()
    assert [one["disposition"] for one in judged["verdicts"]] == ["accepted", "accepted", "quarantined"]


def test_a_tuple_without_a_draft_is_registered_found_and_compared(client: SchemaRegistryClient) -> None:
    text = '{"type":"array","items":[{"type":"integer"},{"type":"string"}],"additionalItems":false}'
    number = client.register_schema("tuple-value", Schema(text, "JSON"))
    assert client.get_schema(number).schema_str == text
    assert client.lookup_schema("tuple-value", Schema(text, "JSON")).schema_id == number
    wider = Schema(text.replace("false", "true"), "JSON")
    narrower = Schema(text.replace('"string"', '"string","maxLength":1'), "JSON")
    assert client.test_compatibility("tuple-value", wider)
    assert not client.test_compatibility("tuple-value", narrower)


def test_the_client_runs_the_rules_only_if_it_asks_for_them_and_the_judge_always_does(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    RuleRegistry.register_rule_executor(CelExecutor())
    context = SerializationContext("ruled", MessageField.VALUE)
    client.register_schema("ruled-value", schema(JSON, rule_set=rules()))
    bypassing = JSONSerializer(JSON, client)
    assert bypassing({"age": 999}, context) is not None  # the default of the client
    obeying = JSONSerializer(JSON, client, conf={"auto.register.schemas": False, "use.latest.version": True})
    assert obeying({"age": 63}, context) is not None
    with pytest.raises((SerializationError, RuleConditionError)):
        obeying({"age": 999}, context)
    judged = httpx.post(
        f"{registry.url}/api/v1/contracts/ruled/versions/latest/judge",
        json={"records": [{"value": {"age": 63}}, {"value": {"age": 999}}]},
    ).json()
    assert [verdict["disposition"] for verdict in judged["verdicts"]] == ["accepted", "quarantined"]


@pytest.mark.parametrize("mode", ["WRITE", "READ", "WRITEREAD"])
@pytest.mark.parametrize("kind", ["avro", "json"])
def test_a_condition_stops_writers_or_readers_by_its_mode(
    client: SchemaRegistryClient, kind: str, mode: str
) -> None:
    RuleRegistry.register_rule_executor(CelExecutor())
    topic = f"moded-{kind}-{mode.lower()}/größe"
    context = SerializationContext(topic, MessageField.VALUE)
    condition = {"name": "known", "kind": "CONDITION", "mode": mode, "type": "CEL"}
    one_rule = RuleSet(None, [Rule.from_dict({**condition, "expr": "message.age != 999"})])
    client.register_schema(f"{topic}-value", schema(AVRO if kind == "avro" else JSON, rule_set=one_rule))
    latest = {"auto.register.schemas": False, "use.latest.version": True}

    def serializer(conf: dict[str, Any]) -> Any:
        return (
            AvroSerializer(client, AVRO, conf=conf)
            if kind == "avro"
            else JSONSerializer(JSON, client, conf=conf)
        )

    reader = (
        AvroDeserializer(client) if kind == "avro" else JSONDeserializer(None, schema_registry_client=client)
    )
    assert reader(serializer(latest)({"age": 63}, context), context) == {"age": 63}
    unruled = serializer({})({"age": 999}, context)
    assert unruled is not None
    if "WRITE" in mode:
        with pytest.raises((SerializationError, RuleConditionError)):
            serializer(latest)({"age": 999}, context)
    else:
        assert serializer(latest)({"age": 999}, context) == unruled
    if "READ" in mode:
        with pytest.raises((SerializationError, RuleConditionError)):
            reader(unruled, context)
    else:
        assert reader(unruled, context) == {"age": 999}


@pytest.mark.parametrize(
    ("topic", "text"), [("header-avro", WIDER), ("header-json", JSON)], ids=["avro", "json"]
)
def test_the_guid_in_a_header_is_written_read_and_judged(
    registry: Registry, client: SchemaRegistryClient, topic: str, text: str
) -> None:
    is_avro = text == WIDER
    contract = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": topic,
        "version": "1.0.0",
        "topic": topic,
        "framing": "confluent-header",
        "schema": {"type": "avro" if is_avro else "json-schema", "definition": json.loads(text)},
        "rules": [{"id": "age-is-known", "kind": "forbidden", "field": "/age", "values": [999]}],
    }
    assert httpx.post(f"{registry.url}/api/v1/contracts", json=contract, timeout=60).status_code == 201
    conf = {"schema.id.serializer": header_schema_id_serializer}
    write = AvroSerializer(client, text, conf=conf) if is_avro else JSONSerializer(text, client, conf=conf)
    written: list[bytes] = []
    named: list[bytes] = []
    for age in (63, 999):
        headers: list[tuple[str, bytes]] = []
        # This client reads no framed record of fewer than six bytes, wherever its schema is named.
        record = {"age": age, "ward": "intensive"}
        payload = write(record, SerializationContext(topic, MessageField.VALUE, headers))
        assert payload is not None
        written.append(payload)
        ((name, value),) = headers
        assert name == "__value_schema_id"
        named.append(value)
    guid = client.get_latest_version(f"{topic}-value").guid
    assert guid is not None
    assert named == [b"\x01" + uuid.UUID(guid).bytes] * 2
    # Nothing stands before the payload.
    assert written[0] == (b"\x7e\x12intensive" if is_avro else b'{"age":63,"ward":"intensive"}')

    with SchemaRegistryClient({"url": registry.url}) as reader:
        registry.recorder.exchanges.clear()
        read = AvroDeserializer(reader) if is_avro else JSONDeserializer(None, schema_registry_client=reader)
        context = SerializationContext(topic, MessageField.VALUE, [("__value_schema_id", named[0])])
        assert read(written[0], context) == {"age": 63, "ward": "intensive"}
    assert ("GET", f"/schemas/guids/{guid}", 200) in registry.recorder.exchanges

    with httpx.Client(base_url=registry.url) as http:
        plan = RegistryContract(http, topic, grace_seconds=0, stopping=threading.Event()).current()
    values = pa.array([*written, written[0], written[0]], pa.binary())
    other = b"\x01" + uuid.uuid4().bytes
    judged = plan.judge(values, None, pa.array([*named, None, other], pa.binary()))
    assert judged.field("disposition").to_pylist() == [
        Disposition.ACCEPTED,
        Disposition.QUARANTINED,
        Disposition.QUARANTINED,
        Disposition.QUARANTINED,
    ]


def test_broken_promises_of_a_contract_reach_the_client_as_an_incompatible_schema(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    client.register_schema("promised-value", schema(JSON))
    reader = {"reads": ["/age"], "team": "Statistics"}
    contract = f"{registry.url}/api/v1/contracts/promised"
    assert httpx.put(f"{contract}/consumers/aged", json=reader).status_code == 201
    tightened = schema(JSON, rule_set=rules())
    assert client.test_compatibility("promised-value", tightened) is False
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("promised-value", tightened)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    message = str(refused.value)
    assert "Schema being registered is incompatible with an earlier schema" in message
    assert "rule.added" in message
    assert "consumers:'aged'" in message
    candidate = message.rpartition("candidate:'")[2][:64]
    agreement = {"consumer": "aged", "candidate": candidate}
    assert httpx.post(f"{contract}/acknowledgements", json=agreement).status_code == 201
    assert client.test_compatibility("promised-value", tightened) is True
    client.register_schema("promised-value", tightened)
    assert client.get_latest_version("promised-value").version == 2


def test_the_job_enforces_what_clients_register_on_the_bytes_that_they_write(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    context = SerializationContext("enforced", MessageField.VALUE)
    write = AvroSerializer(client, schema(AVRO, rule_set=rules()))
    values = [write({"age": age}, context) for age in (63, 999)]
    with httpx.Client(base_url=registry.url) as http:
        source = RegistryContract(http, "enforced", grace_seconds=0, stopping=threading.Event())
        first = source.current()
        assert first.judge(pa.array(values, pa.binary())).field("disposition").to_pylist() == [
            Disposition.ACCEPTED,
            Disposition.QUARANTINED,
        ]
        client.register_schema("enforced-value", schema(WIDER))
        second = source.current()
    assert (first.contract.version, second.contract.version) == ("1.0.0", "1.1.0")
    assert second.contract.rules == first.contract.rules
    wider = AvroSerializer(client, WIDER)({"age": 999, "ward": "icu"}, context)
    assert second.judge(pa.array([wider], pa.binary())).field("disposition").to_pylist() == [
        Disposition.QUARANTINED
    ]
