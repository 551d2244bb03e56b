"""An unmodified confluent-kafka client against the registry on loopback: its calls, its serializers, its rules."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pyarrow as pa
import pytest
import uvicorn
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Rule,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.schema_registry_client import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
    ConfigCompatibilityLevel,
)
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
from confluent_kafka.schema_registry.serde import RuleConditionError
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from pydantic import SecretStr
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contracts.verdict import Disposition
from gateway.app import create_app
from gateway.factory import Factory
from gateway.settings import GatewaySettings
from spark_jobs.contract_source import RegistryContract
from tests.postgresql import Postgresql

AVRO = '{"type":"record","name":"Admission","namespace":"hospital","fields":[{"name":"age","type":"int"}]}'
WIDER = (
    '{"type":"record","name":"Admission","namespace":"hospital","fields":[{"name":"age","type":"int"},'
    '{"name":"ward","type":"string","default":""}]}'
)
JSON = '{"type":"object","title":"Admission","properties":{"age":{"type":"integer"}}}'


class Recorder:
    """Stands before the application and notes requests as they come over the wire, and the status of each answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.exchanges: list[tuple[str, str, int]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = scope["raw_path"].decode()
                query = scope["query_string"].decode()
                self.exchanges.append((scope["method"], f"{path}?{query}".rstrip("?"), message["status"]))
            await send(message)

        await self._app(scope, receive, noted)


@dataclass(frozen=True)
class Registry:
    """A registry that is served on loopback."""

    url: str
    recorder: Recorder


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty database that the tests of this module share."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('registry')}/registry.db"
    else:
        server: Postgresql = request.getfixturevalue("postgresql")
        with server.database(template="template0") as url:
            yield url


@pytest.fixture(scope="module")
def registry(database: str) -> Iterator[Registry]:
    factory = Factory(GatewaySettings(database_url=SecretStr(database)))
    factory.database.migrate()
    recorder = Recorder(create_app(factory))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(recorder, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Registry(f"http://127.0.0.1:{listening.getsockname()[1]}", recorder)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
        factory.close()


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistryClient]:
    """A client with nothing in its caches."""
    with SchemaRegistryClient({"url": registry.url}) as made:
        registry.recorder.exchanges.clear()
        yield made


def schema(text: str, **more: Any) -> Schema:
    return Schema(text, "JSON" if text.startswith('{"type":"object"') else "AVRO", **more)


def test_every_call_of_the_client_as_it_goes_over_the_wire(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    name, s = "größe/t-value", "/subjects/gr%C3%B6%C3%9Fe%2Ft-value"
    metadata = Metadata(tags=None, properties=MetadataProperties({"k 1": "v/1"}), sensitive=None)
    first = client.register_schema_full_response(
        name, schema(AVRO, metadata=metadata), normalize_schemas=True
    )
    assert (first.version, first.subject) == (1, name)
    number = first.schema_id
    client.clear_caches()
    assert client.lookup_schema(name, schema(AVRO, metadata=metadata), deleted=True).schema_id == number
    client.clear_caches()
    assert client.get_schema(number, name).schema_str == AVRO
    assert client.get_schema_types() == ["JSON", "AVRO"]
    assert client.get_subjects_by_schema_id(number) == [name]
    assert [(one.subject, one.version) for one in client.get_schema_versions(number)] == [(name, 1)]
    assert client.get_subjects(subject_prefix="grö") == [name]
    assert client.get_versions(name) == [1]
    client.clear_caches()
    assert client.get_version(name, 1).schema_id == number
    assert client.get_latest_version(name).guid == first.guid
    assert client.get_latest_with_metadata(name, {"k 1": "v/1"}).version == 1
    assert client.get_referenced_by(name, 1) == []
    assert client.test_compatibility(name, schema(WIDER)) is True
    assert client.test_compatibility_all_versions(name, schema(WIDER)) is True
    assert client.set_compatibility(name, "FULL") == {"compatibility": "FULL"}
    assert client.get_compatibility(name) == "FULL"
    config = ServerConfig(compatibility=ConfigCompatibilityLevel.NONE, compatibility_group="major")
    client.set_config(name, config)
    assert client.get_config(name).compatibility_group == "major"
    assert client.delete_config(name).compatibility_level == ConfigCompatibilityLevel.NONE
    assert client.update_mode(name, "READONLY", force=True) == "READONLY"
    assert client.get_mode(name) == "READONLY"
    assert client.delete_mode(name) == "READONLY"
    assert client.update_global_mode("READWRITE") == "READWRITE"
    assert client.get_global_mode() == "READWRITE"
    assert client.get_contexts() == ["."]
    assert client.delete_version(name, 1) == 1
    assert client.delete_version(name, 1, permanent=True) == 1
    page, some = "offset=0&limit=-1", "deleted=false&deleted_only=false&offset=0&limit=-1"
    quoted = s.removeprefix("/subjects/")
    asked = [
        ("POST", f"{s}/versions?normalize=True"),
        ("POST", f"{s}?normalize=False&deleted=True"),
        ("GET", f"/schemas/ids/{number}?subject={quoted}"),
        ("GET", "/schemas/types"),
        ("GET", f"/schemas/ids/{number}/subjects?{page}"),
        ("GET", f"/schemas/ids/{number}/versions?{page}"),
        ("GET", f"/subjects?{some}&subjectPrefix=gr%C3%B6"),
        ("GET", f"{s}/versions?{some}"),
        ("GET", f"{s}/versions/1?deleted=false"),
        ("GET", f"{s}/versions/latest"),
        ("GET", f"{s}/metadata?deleted=false&key=k%25201&value=v%252F1"),
        ("GET", f"{s}/versions/1/referencedby?{page}"),
        ("POST", f"/compatibility{s}/versions/latest?normalize=False&verbose=False"),
        ("POST", f"/compatibility{s}/versions?normalize=False&verbose=False"),
        ("PUT", f"/config/{quoted}"),
        ("GET", f"/config/{quoted}"),
        ("PUT", f"/config/{quoted}"),
        ("GET", f"/config/{quoted}"),
        ("DELETE", f"/config/{quoted}"),
        ("PUT", f"/mode/{quoted}?force=True"),
        ("GET", f"/mode/{quoted}"),
        ("DELETE", f"/mode/{quoted}"),
        ("PUT", "/mode?force=False"),
        ("GET", "/mode"),
        ("GET", f"/contexts?{page}"),
        ("DELETE", f"{s}/versions/1"),
        ("DELETE", f"{s}/versions/1?permanent=true"),
    ]
    assert registry.recorder.exchanges == [(*one, 200) for one in asked]


def test_a_guid_alone_finds_a_schema(registry: Registry, client: SchemaRegistryClient) -> None:
    guid = client.register_schema_full_response("by-guid", schema(AVRO)).guid
    assert guid is not None
    with SchemaRegistryClient({"url": registry.url}) as other:
        registry.recorder.exchanges.clear()
        assert other.get_schema_by_guid(guid).schema_str == AVRO
    assert registry.recorder.exchanges == [("GET", f"/schemas/guids/{guid}", 200)]


def test_refusals_reach_the_caller_with_number_and_message(client: SchemaRegistryClient) -> None:
    with pytest.raises(SchemaRegistryError) as unknown:
        client.get_latest_version("nobody")
    assert (unknown.value.http_status_code, unknown.value.error_code) == (404, 40401)
    client.register_schema("narrow", schema(AVRO))
    with pytest.raises(SchemaRegistryError) as incompatible:
        client.register_schema("narrow", schema(AVRO.replace('"int"', '"string"')))
    assert (incompatible.value.http_status_code, incompatible.value.error_code) == (409, 409)
    assert "Schema being registered is incompatible with an earlier schema" in str(incompatible.value)


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


def rules() -> RuleSet:
    """Refuse the placeholder 999, in the client when it asks for the latest version."""
    rule = Rule.from_dict(
        {
            "name": "ageIsKnown",
            "kind": "CONDITION",
            "mode": "WRITE",
            "type": "CEL",
            "expr": "message.age != 999",
        }
    )
    return RuleSet(None, [rule])


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
def test_a_condition_stops_whoever_writes_or_reads_as_its_mode_says(
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
    assert httpx.post(f"{registry.url}/api/v1/contracts", json=contract).status_code == 201
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


def test_what_a_contract_promises_beside_its_schema_reaches_the_client_as_an_incompatible_schema(
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


def test_references_are_followed_by_the_deserializer(client: SchemaRegistryClient) -> None:
    unit = '{"type":"record","name":"Unit","namespace":"hospital","fields":[{"name":"ward","type":"string"}]}'
    client.register_schema("hospital/unit", schema(unit))
    stay = '{"type":"record","name":"Stay","fields":[{"name":"unit","type":"hospital.Unit"}]}'
    stays = schema(stay, references=[SchemaReference("hospital.Unit", "hospital/unit", 1)])
    context = SerializationContext("stays", MessageField.VALUE)
    written = AvroSerializer(client, stays)({"unit": {"ward": "icu"}}, context)
    assert AvroDeserializer(client)(written, context) == {"unit": {"ward": "icu"}}
    (number,) = client.get_referenced_by("hospital/unit", 1)
    assert client.get_schema(number).references == stays.references


def test_references_in_a_context_are_followed_by_the_deserializer(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    unit = '{"type":"record","name":"Unit","namespace":"hospital","fields":[{"name":"ward","type":"string"}]}'
    client.register_schema(":.staging:unit", schema(unit))
    stay = '{"type":"record","name":"Stay","fields":[{"name":"unit","type":"hospital.Unit"}]}'
    number = client.register_schema(
        ":.staging:stays", schema(stay, references=[SchemaReference("hospital.Unit", "unit", 1)])
    )
    context = SerializationContext("staged", MessageField.VALUE)
    conf = {"subject.name.strategy": lambda *_: ":.staging:stays"}
    latest = {**conf, "auto.register.schemas": False, "use.latest.version": True}
    here = schema(stay, references=[SchemaReference("hospital.Unit", ":.staging:unit", 1)])
    written = AvroSerializer(client, here, conf=latest)({"unit": {"ward": "icu"}}, context)
    with SchemaRegistryClient({"url": registry.url}) as reader:
        read = AvroDeserializer(reader, conf=conf)
        assert read(written, context) == {"unit": {"ward": "icu"}}

    def subjects(reference_format: str | None) -> list[str | None]:
        with SchemaRegistryClient({"url": registry.url}) as other:
            found = other.get_schema(number, ":.staging:stays", reference_format=reference_format)
        return [one.subject for one in found.references or ()]

    assert [subjects(each) for each in (None, "QUALIFIED", "DEFAULT")] == [
        [":.staging:unit"],
        [":.staging:unit"],
        ["unit"],
    ]


def test_an_association_chooses_the_subject_of_a_serializer(client: SchemaRegistryClient) -> None:
    client.register_schema("shared", schema(AVRO))
    client.create_association(
        AssociationCreateOrUpdateRequest(
            resource_name="associated",
            resource_namespace="-",
            resource_id="topic-7",
            resource_type="topic",
            associations=[AssociationCreateOrUpdateInfo(subject="shared", association_type="value")],
        )
    )
    AvroSerializer(client, AVRO)({"age": 1}, SerializationContext("associated", MessageField.VALUE))
    assert "associated-value" not in client.get_subjects()
    (found,) = client.get_associations_by_resource_name("associated", "-", "topic", ["value"])
    assert found.subject == "shared"
    client.delete_associations("topic-7", cascade_lifecycle=True)
    assert client.get_associations_by_resource_name("associated", "-") == []


def test_a_schema_with_tags_can_be_read_by_this_client(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    body = {
        "schema": AVRO,
        "metadata": {"tags": {"hospital.Admission.age": ["PII"]}, "properties": {"k": "v"}},
    }
    number = httpx.post(f"{registry.url}/subjects/tagged/versions", json=body).json()["id"]
    found = client.get_schema(number)
    assert json.loads(found.schema_str or "")["fields"][0]["confluent:tags"] == ["PII"]


def test_concurrent_registrations_of_one_schema_give_one_id(registry: Registry) -> None:
    def register(_: int) -> tuple[int | None, int | None]:
        with SchemaRegistryClient({"url": registry.url}) as one:
            found = one.register_schema_full_response("crowded-value", schema(AVRO))
            return found.schema_id, found.version

    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(register, range(32)))
    assert len(set(found)) == 1
    assert found[0][1] == 1
    versions = httpx.get(f"{registry.url}/api/v1/contracts/crowded").json()["versions"]
    assert [version["version"] for version in versions] == ["1.0.0"]


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
