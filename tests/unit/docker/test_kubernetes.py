"""No cluster is at hand where the tests run: the manifests are checked against the programs that they start."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from ruamel.yaml import YAML

from tidegate.gateway.cli import serve
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app

ROOT = Path(__file__).parents[3]
DOCUMENTS: list[dict[str, Any]] = list(YAML(typ="safe").load_all(ROOT / "docker/kubernetes.yaml"))
DEPLOYMENTS = {each["metadata"]["name"]: each["spec"] for each in DOCUMENTS if each["kind"] == "Deployment"}
PODS = {name: spec["template"]["spec"] for name, spec in DEPLOYMENTS.items()}
CONTAINERS = {name: pod["containers"][0] for name, pod in PODS.items()}
(CONFIGURATION,) = (each["data"] for each in DOCUMENTS if each["kind"] == "ConfigMap")
SETTINGS = (ROOT / "docs/reference/settings.md").read_text()
PAGE = (ROOT / "docs/how-to/kubernetes.md").read_text()


def variables(name: str) -> dict[str, Any]:
    """Environment variables that a container's own list names."""
    return {each["name"]: each for each in CONTAINERS[name]["env"]}


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_setting_is_one_that_the_programs_read(name: str) -> None:
    named = {*variables(name), *CONFIGURATION} - {"SPARK_LOCAL_DIRS"}  # Spark's own
    assert len(named) >= 5
    assert [each for each in named if f"`{each}`" not in SETTINGS] == []


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_option_is_one_of_the_command(name: str) -> None:
    verb, *arguments = CONTAINERS[name]["args"]
    (section,) = re.findall(
        rf"^### tidegate {verb}$(.*?)^### ",
        (ROOT / "docs/reference/cli.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    options = [each for each in arguments if each.startswith("--")]
    assert options
    assert [each for each in options if f"`{each}`" not in section] == []


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_are_confined_and_write_to_volumes_only(name: str) -> None:
    pod, container = PODS[name], CONTAINERS[name]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    uid = pod["securityContext"]["runAsUser"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"useradd --uid {uid} " in (ROOT / "docker/Dockerfile").read_text()
    assert pod["automountServiceAccountToken"] is False
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounted.keys() == {each["name"] for each in pod["volumes"]}
    places = [
        value["value"]
        for value in variables(name).values()
        if value["name"].endswith(("_WAREHOUSE", "_CHECKPOINTS", "_DIRS"))
    ]
    assert [each for each in places if not each.startswith(mounted["scratch"])] == []


def test_every_secret_is_made_by_the_page() -> None:
    wanted = {
        (reference["name"], reference["key"])
        for name in CONTAINERS
        for each in variables(name).values()
        if (reference := each.get("valueFrom", {}).get("secretKeyRef"))
    }
    assert {name for name, _ in wanted} == {"tidegate"}
    assert [key for _, key in wanted if f"{key}=" not in PAGE] == []
    mounted = {
        each["secret"]["secretName"] for pod in PODS.values() for each in pod["volumes"] if "secret" in each
    }
    assert [name for name in mounted if f"create secret generic {name} " not in PAGE] == []
    assert (
        f"/{CONFIGURATION['TIDEGATE_KAFKA_CONFIG'].rpartition('/')[2]}"
        in CONFIGURATION["TIDEGATE_KAFKA_CONFIG"]
    )
    assert f"--from-file={CONFIGURATION['TIDEGATE_KAFKA_CONFIG'].rpartition('/')[2]}" in PAGE


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_registry_answers_its_probes(factory: Factory) -> None:
    container = CONTAINERS["tidegate-registry"]
    probes = [value["httpGet"] for key, value in container.items() if key.endswith("Probe")]
    assert len(probes) == 3
    assert container["args"][-1] == str(container["ports"][0]["containerPort"])
    with TestClient(create_app(factory), base_url="http://127.0.0.1") as client:
        assert {client.get(each["path"]).status_code for each in probes} == {200}


def test_clients_have_left_a_registry_before_it_closes_its_port() -> None:
    assert CONTAINERS["tidegate-registry"]["lifecycle"] == {"preStop": {"exec": {"command": ["sleep", "5"]}}}
    grace = PODS["tidegate-registry"].get("terminationGracePeriodSeconds", 30)
    assert grace > 5 + serve._EXIT_SECONDS


def test_the_job_finds_the_registry_and_writes_the_file_of_its_probe() -> None:
    (service,) = (each for each in DOCUMENTS if each["kind"] == "Service")
    name, port = service["metadata"]["name"], service["spec"]["ports"][0]["port"]
    assert variables("tidegate-job")["TIDEGATE_REGISTRY_URL"]["value"] == f"http://{name}:{port}"
    assert variables("tidegate-registry")["TIDEGATE_ALLOWED_HOSTS"]["value"] == name
    job = CONTAINERS["tidegate-job"]
    assert job["readinessProbe"]["exec"]["command"][-1] == job["args"][job["args"].index("--ready-file") + 1]


def test_selectors_match_the_pods() -> None:
    for name, spec in DEPLOYMENTS.items():
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert spec["replicas"] == 2
        budgets = [
            each["spec"]
            for each in DOCUMENTS
            if each["kind"] == "PodDisruptionBudget" and each["metadata"]["name"] == name
        ]
        assert [each["selector"]["matchLabels"].items() <= labels.items() for each in budgets] == [True]
