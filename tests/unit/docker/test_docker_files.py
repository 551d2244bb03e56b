"""No container engine is at hand where the tests run: the files are checked against what they will meet there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
COMPOSE = YAML(typ="safe").load(ROOT / "docker/compose.yaml")
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
IGNORED = {line.strip() for line in (ROOT / ".dockerignore").read_text().splitlines() if line.strip()}


def compose_errors(document: object) -> list[str]:
    # Source: Compose Specification, its published JSON Schema (compose-spec.schema.json beside this file, Apache-2.0).
    schema = json.loads((Path(__file__).parent / "compose-spec.schema.json").read_text())
    validator = jsonschema_rs.validator_for(schema, offline=True)
    return [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(document)]


def test_compose_file_follows_the_compose_specification() -> None:
    assert compose_errors(COMPOSE) == []


def test_the_schema_refuses_a_misspelt_key() -> None:
    assert compose_errors({"services": {"broker": {"imagee": "x"}}}) != []


def test_every_volume_and_dependency_is_declared() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"broker", "gateway", "job"}
    named = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])}
    assert named == set(COMPOSE["volumes"])
    assert {name for service in services.values() for name in service.get("depends_on", {})} <= set(services)


@pytest.mark.parametrize("service", COMPOSE["services"])
def test_ports_are_published_on_loopback_only(service: str) -> None:
    ports = COMPOSE["services"][service].get("ports", [])
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_everything_that_the_image_copies_exists_and_is_not_ignored() -> None:
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    assert len(copied) >= 8
    assert [source for source in copied if not (ROOT / source).exists() or source in IGNORED] == []


@pytest.mark.full
def test_the_commands_of_the_image_leave_jars_and_an_archive_of_classes(tmp_path: Path) -> None:
    last = DOCKERFILE.split("\nUSER tidegate\n")[1]
    commands = re.findall(r"^RUN (.+(?:\n .+)*)$", last, re.MULTILINE)
    assert len(commands) == 2
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": path,
        "TIDEGATE_JARS_DIR": str(tmp_path / "jars"),
        "TMPDIR": str(tmp_path),
    }
    for command in commands:
        subprocess.run(["/bin/sh", "-ec", command], check=True, timeout=600, env=environment, cwd=tmp_path)
    (archive,) = (tmp_path / "jars").glob("*/classes-*.jsa")
    assert archive.stat().st_size > 10**8
    assert list((tmp_path / "jars").glob("*/s3/iceberg-aws-bundle-*.jar"))
    assert [found.name for found in tmp_path.iterdir()] == ["jars"]


def test_the_broker_image_is_the_version_that_the_tests_run() -> None:
    ivy = (ROOT / "gateway/embedded/ivy.xml").read_text()
    revision = re.search(r'name="kafka_2\.13"\s+rev="([^"]+)"', ivy)
    assert revision is not None
    assert COMPOSE["services"]["broker"]["image"].startswith(
        f"${{KAFKA_IMAGE:-apache/kafka:{revision.group(1)}@sha256:"
    )


def test_iceberg_for_s3_is_of_the_version_of_iceberg_for_spark() -> None:
    files = {name: (ROOT / "gateway/embedded" / name).read_text() for name in ("ivy.xml", "s3.xml")}
    runtime = re.search(r'name="iceberg-spark-runtime-[^"]+" rev="([^"]+)"', files["ivy.xml"])
    bundle = re.search(r'name="iceberg-aws-bundle" rev="([^"]+)"', files["s3.xml"])
    assert runtime is not None
    assert bundle is not None
    assert runtime[1] == bundle[1]


def test_every_image_of_others_is_pinned_by_digest() -> None:
    page = (ROOT / "docs/how-to/install.md").read_text()
    (python,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
    images = {name: service["image"] for name, service in COMPOSE["services"].items()}
    broker = re.fullmatch(r"\$\{KAFKA_IMAGE:-(.+)\}", images.pop("broker"))
    assert broker is not None
    for image in (python, broker[1]):
        tagged, _, digest = image.partition("@")
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest), image
        assert f"docker buildx imagetools inspect {tagged} " in page
        assert digest not in page, "a digest that a bot renews has one place"
    assert set(images.values()) == {"tidegate:0.1.0"}, "all others are built from the Dockerfile"
    assert COMPOSE["services"]["gateway"]["build"]["args"] == ["PYTHON_IMAGE"]


def test_the_bot_renews_digests_and_leaves_versions_to_people() -> None:
    settings = json.loads((ROOT / ".github/renovate.json").read_text())
    assert settings["pinDigests"] is True
    assert set(settings["enabledManagers"]) == {"dockerfile", "docker-compose", "github-actions"}
    (rule,) = settings["packageRules"]
    assert (rule["enabled"], set(rule["matchUpdateTypes"])) == (False, {"major", "minor", "patch"})


@pytest.mark.parametrize("service", COMPOSE["services"])
def test_a_container_has_no_capabilities_and_gains_none(service: str) -> None:
    found = COMPOSE["services"][service]
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("service", COMPOSE["services"])
def test_the_root_is_read_only_except_state_and_memory(service: str) -> None:
    found = COMPOSE["services"][service]
    state = "/var/lib/kafka/data" if service == "broker" else "/var/lib/tidegate"
    assert found["read_only"] is True
    assert [volume.partition(":")[2] for volume in found["volumes"]] == [state]
    # The image of Kafka writes its settings and its logs below /opt/kafka.
    written = ["/opt/kafka/config", "/opt/kafka/logs"] if service == "broker" else []
    assert [mount.partition(":")[0] for mount in found["tmpfs"]] == ["/tmp", *written]  # noqa: S108 - in the container
    assert all("size=" in mount for mount in found["tmpfs"][1:])


def test_the_gateway_answers_to_the_name_by_which_the_job_asks_for_it() -> None:
    name = urlsplit(COMPOSE["services"]["job"]["environment"]["TIDEGATE_REGISTRY_URL"]).hostname
    assert name == COMPOSE["services"]["gateway"]["environment"]["TIDEGATE_ALLOWED_HOSTS"]


@pytest.mark.parametrize(
    "workflow", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_actions_are_pinned_by_commit(workflow: Path) -> None:
    used = re.findall(r"uses: (\S+)", workflow.read_text())
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one)] == []


@pytest.mark.parametrize("page", ["docs/how-to/ci.md", "docs/tutorial/first-ci-check.md"])
def test_pages_about_ci_name_actions_and_images_as_ours_are_pinned(page: str) -> None:
    text = (ROOT / page).read_text()
    ours = "".join(each.read_text() for each in (ROOT / ".github").rglob("*.yml"))
    ours += (ROOT / "docker/Dockerfile").read_text()
    used = [one for one in re.findall(r"(?:uses|image): (\S+)", text) if not one.startswith("OWNER/")]
    assert used
    assert [one for one in used if one not in ours] == []
