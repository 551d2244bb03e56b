"""Access control as an operator meets it: keys made on the command line, clients and job that present them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tests.integration.registry_process import TIDEGATE, Server
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.http.models.examples import CONTRACT_YAML, REPORT
from tidegate.spark_jobs.contract_source import RegistryContract, registry_auth
from tidegate.spark_jobs.job.reports import RegistryReporter
from tidegate.spark_jobs.settings import JobSettings

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
AVRO = '{"type":"record","name":"U","fields":[{"name":"age","type":"int"}]}'


@pytest.fixture
def server(database_url: str) -> Iterator[Server]:
    with Server(database_url, {"TIDEGATE_ACCESS": "on", "TIDEGATE_KEY_CACHE_SECONDS": "0"}) as running:
        yield running


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tidegate(database_url: str, tmp_path: Path) -> Run:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*TIDEGATE, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "TIDEGATE_DATABASE_URL": database_url, "LOGNAME": "ops", **environment},
        )

    return run


@pytest.fixture
def make_key(tidegate: Run) -> Callable[..., dict[str, str]]:
    def make(*grants: str) -> dict[str, str]:
        made = tidegate("keys", "create", "test", "--format=json", *(f"--grant={grant}" for grant in grants))
        assert made.returncode == 0, made.stderr
        found: dict[str, str] = json.loads(made.stdout)
        return found

    return make


@pytest.mark.full
def test_a_key_from_the_command_line_publishes_until_it_is_revoked(
    server: Server, tidegate: Run, make_key: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "contract.yaml").write_text(CONTRACT_YAML)
    publish = ("publish", "contract.yaml", "--registry", server.url)
    nobody = tidegate(*publish)
    assert (nobody.returncode, nobody.stdout) == (7, "")
    assert "requires authentication. Store a key or token with `tidegate login" in nobody.stderr
    other = make_key("viewer", "producer:nyc.")
    viewer = tidegate(*publish, TIDEGATE_REGISTRY_TOKEN=other["token"])
    assert viewer.returncode == 7
    assert "this needs the role producer of the subject hospital.admissions-value" in viewer.stderr
    key = make_key("producer:hospital.")
    halves = {"TIDEGATE_REGISTRY_USER": key["key_id"], "TIDEGATE_REGISTRY_PASSWORD": key["secret"]}
    said = tidegate(*publish, **halves).stdout
    assert said.startswith("hospital.admissions 1.2.0 published (registry id 1)\n  no job enforces it ")
    assert tidegate("keys", "revoke", key["key_id"]).returncode == 0
    assert tidegate(*publish, **halves).returncode == 7
    listed = [json.loads(line) for line in tidegate("keys", "list", "--format=json").stdout.splitlines()]
    assert [(one["grants"], one["revoked_at"] is None) for one in listed] == [
        (["producer:nyc.", "viewer"], True),
        (["producer:hospital."], False),
    ]
    exported = [json.loads(line) for line in tidegate("audit", "export").stdout.splitlines()]
    assert [(entry["who"], entry["action"]) for entry in exported] == [
        ("address:127.0.0.1", "request.denied"),
        ("cli:ops", "key.created"),
        (f"key:{other['key_id']}", "request.denied"),
        ("cli:ops", "key.created"),
        (f"key:{key['key_id']}", "contract.published"),
        ("cli:ops", "key.revoked"),
    ]
    _, log = server.stop()
    said = json.dumps([*server.log, *log])
    assert "access_control_off" not in said
    assert key["secret"] not in said


@pytest.mark.full
def test_the_job_fetches_and_reports_with_its_key(
    server: Server, make_key: Callable[..., dict[str, str]]
) -> None:
    admin = make_key("admin")["token"]
    headers = {"Authorization": f"Bearer {admin}", "Content-Type": "application/yaml"}
    assert server.http.post("/api/v1/contracts", content=CONTRACT_YAML, headers=headers).status_code == 201
    key = make_key("reporter:hospital.")
    settings = JobSettings.model_validate(
        {"bootstrap_servers": "none:0", "registry_url": server.url, "warehouse": "w", "checkpoints": "c"}
        | {"registry_user": key["key_id"], "registry_password": key["secret"]}
    )
    with httpx.Client(base_url=server.url, auth=registry_auth(settings), timeout=30) as client:
        plan = RegistryContract(client, "hospital.admissions", 30, Event()).current()
        assert plan.contract.version == "1.2.0"
        reporter = RegistryReporter(client)
        reporter.report(BatchReport.model_validate(REPORT))
        reporter.close()
    streams = server.http.get("/api/v1/streams", headers={"Authorization": f"Bearer {admin}"}).json()[
        "streams"
    ]
    assert [stream["stream"] for stream in streams] == ["hospital.admissions"]


def test_a_confluent_client_with_basic_and_with_bearer_credentials(
    server: Server, make_key: Callable[..., dict[str, str]]
) -> None:
    key = make_key("producer:a.")
    basic = {"url": server.url, "basic.auth.user.info": f"{key['key_id']}:{key['secret']}"}
    bearer = {
        "url": server.url,
        "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.token": key["token"],
        "bearer.auth.logical.cluster": "none",
        "bearer.auth.identity.pool.id": "none",
    }
    for number, settings in enumerate((basic, bearer)):
        with SchemaRegistryClient(settings) as client:
            schema_id = client.register_schema(f"a.{number}-value", Schema(AVRO, "AVRO"))
            assert client.get_schema(schema_id).schema_str is not None
            with pytest.raises(SchemaRegistryError) as refused:
                client.register_schema("b.x-value", Schema(AVRO, "AVRO"))
            assert (refused.value.http_status_code, refused.value.error_code) == (403, 40301)
            with pytest.raises(SchemaRegistryError) as hidden:
                client.get_latest_version("b.x-value")
            assert (hidden.value.http_status_code, hidden.value.error_code) == (404, 40401)
    with SchemaRegistryClient({"url": server.url}) as client, pytest.raises(SchemaRegistryError) as unknown:
        client.get_subjects()
    assert (unknown.value.http_status_code, unknown.value.error_code) == (401, 401)
