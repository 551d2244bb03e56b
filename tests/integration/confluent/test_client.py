"""An unmodified confluent-kafka client against the registry: its calls as they go over the wire."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.schema_registry_client import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
    ConfigCompatibilityLevel,
)
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.integration.confluent.registry import AVRO, WIDER, Registry, schema


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
