"""Unmodified clients of a schema registry against this one: what they send, what they make of the answers."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from schema_registry.client import SchemaRegistryClient as OtherClient
from schema_registry.client import schema as other_schemas
from schema_registry.client.errors import ClientError
from schema_registry.serializers import AvroMessageSerializer, JsonMessageSerializer

from tests.archives import unpack
from tests.conformance.confluent_conditions.conditions import STRING_FUNCTIONS
from tests.integration.confluent.registry import AVRO, JSON, WIDER, Registry

CLIENTS = Path(__file__).parent / "clients"
STRING_VERDICTS = Path(__file__).parents[2] / "conformance" / "confluent_conditions" / "string_functions.json"
SERDES = CLIENTS / "confluent-kafka-python-serdes.tar.gz"
"""`LICENSE` and the two files that test the serializers of Avro and JSON, in their folders, as they are at commit
8b1c7a613434eee3d0e1287d624d7af04932f410 of github.com/confluentinc/confluent-kafka-python (Apache 2.0)."""
SERDES_SHA256 = "7521fde0181cefcaed585d7933fe1c589743cf0dce54c7214c7d82af7c0d783f"

# They register a JSON Schema as Avro, which the client's mock takes and no registry does.
JSON_AS_AVRO = {
    "test_json_associated_name_strategy_with_association",
    "test_json_associated_name_strategy_with_key_association",
    "test_json_associated_name_strategy_with_kafka_cluster_id",
    "test_json_associated_name_strategy_caching",
}


class TestPythonSchemaRegistryClient:
    """python-schema-registry-client, which shares no code with Confluent's client."""

    def test_schemas_are_registered_found_checked_and_deleted(self, registry: Registry) -> None:
        client = OtherClient(registry.url)
        avro, wider = other_schemas.AvroSchema(AVRO), other_schemas.AvroSchema(WIDER)
        number = client.register("other-value", avro)
        assert OtherClient(registry.url).register("other-value", avro) == number
        fresh = OtherClient(registry.url)
        by_id = fresh.get_by_id(number)
        assert by_id is not None
        assert by_id.raw_schema == json.loads(AVRO)
        latest = fresh.get_schema("other-value")
        assert latest is not None
        assert (latest.subject, latest.version, latest.schema_id) == ("other-value", 1, number)
        found = fresh.check_version("other-value", avro)
        assert found is not None
        assert (found.version, found.schema_id) == (1, number)
        assert fresh.check_version("other-value", wider) is None
        assert fresh.check_version("nobody-value", avro) is None
        assert fresh.get_schema("nobody-value") is None
        assert fresh.test_compatibility("other-value", wider) is True
        broken = other_schemas.AvroSchema(AVRO.replace('"int"', '"string"'))
        assert fresh.test_compatibility("other-value", broken) is False
        told = fresh.test_compatibility("other-value", broken, verbose=True)
        assert isinstance(told, dict)
        assert "avro.type-changed" in told["messages"][0]
        with pytest.raises(ClientError) as refused:
            fresh.register("other-value", broken)
        assert refused.value.http_code == 409
        assert fresh.get_schema_subject_versions(number)[0].subject == "other-value"
        assert "other-value" in fresh.get_subjects()
        assert fresh.get_versions("other-value") == [1]
        assert fresh.update_compatibility("FULL", "other-value") is True
        assert fresh.get_compatibility("other-value") == "FULL"
        assert fresh.delete_version("other-value", "latest") == 1
        assert fresh.get_versions("other-value") == []

    def test_records_are_written_and_read(self, registry: Registry) -> None:
        client, reader = OtherClient(registry.url), OtherClient(registry.url)
        avro = other_schemas.AvroSchema(AVRO.replace("Admission", "Written"))
        written = AvroMessageSerializer(client).encode_record_with_schema("written-value", avro, {"age": 42})
        assert AvroMessageSerializer(reader).decode_message(written) == {"age": 42}
        in_json = other_schemas.JsonSchema(JSON)
        written = JsonMessageSerializer(client).encode_record_with_schema(
            "json-written-value", in_json, {"age": 42}
        )
        assert JsonMessageSerializer(reader).decode_message(written) == {"age": 42}


@pytest.mark.full
def test_the_serializer_tests_of_the_python_client_pass(tmp_path: Path) -> None:
    assert hashlib.sha256(SERDES.read_bytes()).hexdigest() == SERDES_SHA256
    unpack(SERDES, tmp_path)
    shutil.copy(CLIENTS / "serdes_conftest.py", tmp_path / "conftest.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "-rA",
        "--tb=line",
    ]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path / "tests")],
        check=False, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    outcomes = re.findall(
        r"^(PASSED|FAILED|ERROR) tests/schema_registry/_sync/\S+::(\w+)(.*)$", done.stdout, re.MULTILINE
    )
    failed = {name: message for outcome, name, message in outcomes if outcome != "PASSED"}
    assert set(failed) == JSON_AS_AVRO, done.stdout[-5000:]
    assert done.stdout.count("Invalid schema: not an Avro schema") >= len(JSON_AS_AVRO)
    assert len(outcomes) == 70


@pytest.mark.full
def test_the_client_of_npm(registry: Registry, tmp_path: Path) -> None:
    """@kafkajs/confluent-schema-registry registers, writes and reads, and tells refusals apart."""
    folder = tmp_path / "npm"
    shutil.copytree(CLIENTS / "npm", folder)
    run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], folder)
    found = json.loads(run(["node", "client.js", registry.url], folder))
    for refusal, status, told in (
        ("incompatible", 409, "incompatible with an earlier schema"),
        ("unknownSubject", 404, "Subject 'npm-nobody' not found"),
        ("unknownId", 404, "Schema 2147483647 not found"),
    ):
        refused = found.pop(refusal)
        assert (refused["name"], refused["status"]) == ("ResponseError", status)
        assert told in refused["message"]
    assert (
        found.pop("otherLevel")["message"] == "Compatibility does not match the configuration (NONE != FULL)"
    )
    assert found == {
        "registeredTwice": True,
        "frame": True,
        "decoded": {"age": 42},
        "latest": True,
        "byVersion": True,
        "bySchema": True,
        "json": {"age": 42},
        "jsonInvalid": "ConfluentSchemaRegistryValidationError",
        "referenced": {"unit": {"ward": "icu"}},
    }


@pytest.mark.full
def test_the_client_of_npm_gives_the_recorded_verdicts_of_string_functions(tmp_path: Path) -> None:
    """@confluentinc/schemaregistry asks the conditions that the Python client cannot."""
    folder = tmp_path / "npm"
    shutil.copytree(CLIENTS / "npm_rules", folder)
    run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], folder)
    asked = [{"schema": each.schema, "expr": each.expr, "records": each.records} for each in STRING_FUNCTIONS]
    found = json.loads(run(["node", "verdicts.cjs"], folder, text=json.dumps(asked)))
    assert found == json.loads(STRING_VERDICTS.read_text())


@pytest.mark.full
def test_the_client_of_go(registry: Registry, tmp_path: Path) -> None:
    """The client of franz-go registers, compares, sets and deletes, and reads the numbers of refusals."""
    folder = tmp_path / "go"
    shutil.copytree(CLIENTS / "go", folder)
    found = json.loads(run(["go", "run", ".", registry.url], folder))
    assert json.loads(found.pop("byID"))["namespace"] == "hospital.go"
    assert found == {
        "registeredTwice": True,
        "latest": ["go-value", 1],
        "lookedUp": True,
        "compatible": True,
        "incompatible": True,
        "refused": [409, 409],
        "unknownSubject": [404, 40401],
        "unknownSchema": [404, 40403],
        "set": ["FULL", "major"],
        "level": ["FULL", "major"],
        "readOnlySchema": [422, 42205],
        "readOnlyConfig": [422, 42205],
        "referenced": True,
        "versions": [1],
        "deleted": [1],
        "deletedForGood": [1],
    }


def run(command: list[str], folder: Path, *, text: str | None = None, **more: Any) -> str:
    """Run a program, which has to be there, with a text as its standard input; return what it writes."""
    program = shutil.which(command[0])
    assert program, (
        f"install {command[0]} (Debian: apt-get install npm golang-go); .ci/run does so for test-full"
    )
    done = subprocess.run(
        [program, *command[1:]],
        check=False,
        capture_output=True,
        text=True,
        input=text,
        cwd=folder,
        env={**os.environ, **more},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
