"""The registry as people run it: `tidegate serve` as a process, asked over HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import orjson
import pytest

from tests.integration.registry_process import BATCHES, CONTRACTS, TIDEGATE, Server, together, version
from tidegate.gateway.http.models.examples import CONTRACT, CONTRACT_YAML
from tidegate.gateway.storage.audit_chain import check, read_line


def starting(database_url: str) -> Iterator[Callable[[], Server]]:
    """Yield a function that starts servers over one database, and end them afterwards."""
    started: list[Server] = []

    def start() -> Server:
        started.append(Server(database_url))
        return started[-1]

    yield start
    for server in started:
        server.__exit__()


def on_both(quickly: str) -> pytest.MarkDecorator:
    """Run a test on both databases; one of them is enough for the quick run, for processes are what it is about."""
    databases = [
        pytest.param(name, marks=[] if name == quickly else [pytest.mark.full])
        for name in ("sqlite", "postgresql")
    ]
    return pytest.mark.parametrize("database_url", databases, indirect=True)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[], Server]]:
    """Start servers over one database."""
    yield from starting(f"sqlite:///{tmp_path}/registry.db")


@pytest.fixture
def serve_on_both(database_url: str) -> Iterator[Callable[[], Server]]:
    """Start servers over one database, once on SQLite and once on PostgreSQL."""
    yield from starting(database_url)


@pytest.fixture
def server(serve: Callable[[], Server]) -> Server:
    return serve()


def test_32_publications_of_one_document_make_one_version(server: Server) -> None:
    answers = together(32, lambda _: server.publish(CONTRACT_YAML))
    assert sorted(answer.status_code for answer in answers) == [200] * 31 + [201]
    assert {answer.json()["registry_id"] for answer in answers} == {1}
    assert len(server.http.get(f"{CONTRACTS}/hospital.admissions").json()["versions"]) == 1


@pytest.mark.full
def test_publications_of_different_versions_at_once_each_get_their_number(server: Server) -> None:
    answers = together(16, lambda number: server.publish(version(number)))
    assert {answer.status_code for answer in answers} == {201}
    assert sorted(answer.json()["registry_id"] for answer in answers) == list(range(1, 17))
    assert sorted(answer.json()["number"] for answer in answers) == list(range(1, 17))


@pytest.mark.full
def test_of_two_documents_under_one_version_one_wins(server: Server) -> None:
    answers = together(
        16, lambda number: server.publish(orjson.dumps(CONTRACT | {"description": str(number)}))
    )
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 15
    (winner,) = (answer.json() for answer in answers if answer.status_code == 201)
    latest = server.http.get(f"{CONTRACTS}/hospital.admissions/versions/latest")
    assert latest.headers["etag"] == f'"{winner["fingerprint"]}"'


@pytest.mark.full
@on_both(quickly="postgresql")
def test_32_clients_of_two_processes_leave_one_id_each_and_a_whole_audit_chain(
    serve_on_both: Callable[[], Server], database_url: str
) -> None:
    servers = serve_on_both(), serve_on_both()

    def work(number: int) -> httpx.Response:
        """Half of the clients publish one document; the others a contract each, or a schema through the Confluent API."""
        server = servers[number % 2]
        if number < 16:
            return server.publish(CONTRACT_YAML)
        name = f"hospital.ward{number}"
        if number < 24:
            return server.publish(orjson.dumps(CONTRACT | {"id": name, "topic": name}))
        schema = {"type": "record", "name": "W", "fields": [{"name": f"n{number}", "type": "int"}]}
        return server.http.post(f"/subjects/{name}-value/versions", json={"schema": json.dumps(schema)})

    answers = together(32, work)
    assert sorted(answer.status_code for answer in answers[:24]) == [200] * 15 + [201] * 9
    assert {answer.status_code for answer in answers[24:]} == {200}
    assert {answer.json()["registry_id"] for answer in answers[:16]} == {answers[0].json()["registry_id"]}
    native = {answer.json()["registry_id"] for answer in answers[:24]}
    assert len(native) == 9
    ids = {answer.json()["id"] for answer in answers[24:]}
    assert len(ids) == 8
    for server in servers:
        # Whatever one process answered, the other one knows.
        assert server.http.get(CONTRACTS).json()["total"] >= 9
        assert all(server.http.get(f"/schemas/ids/{one}").status_code == 200 for one in ids)
    entries = servers[0].http.get("/api/v1/audit", params={"limit": 1000}).json()["entries"]
    published = [entry["subject"] for entry in entries if entry["action"] == "contract.published"]
    assert len(set(published)) == len(published) >= 9
    assert {f"hospital.ward{number}-value" for number in range(16, 32)} <= {
        entry["subject"] for entry in entries
    }
    checked = subprocess.run(
        [*TIDEGATE, "audit", "verify", "--head", entries[-1]["hash"], "--database-url", database_url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert re.fullmatch(r"read from the database \S+\n", checked.stderr)
    assert checked.stdout == f"{len(entries)} entries, intact, head {entries[-1]['hash']}\n"


@pytest.mark.full
def test_two_processes_share_one_database(serve: Callable[[], Server]) -> None:
    servers = serve(), serve()
    answers = together(16, lambda number: servers[number % 2].publish(CONTRACT_YAML))
    assert sorted(answer.status_code for answer in answers) == [200] * 15 + [201]
    reports = together(16, lambda number: servers[number % 2].report(1 + number // 2))
    assert sorted(answer.status_code for answer in reports) == [200] * 8 + [201] * 8
    (stream,) = servers[0].http.get("/api/v1/streams").json()["streams"]
    assert (stream["totals"]["batches"], stream["totals"]["records"]) == (8, 8000)


@pytest.mark.full
def test_a_restart_keeps_everything(serve: Callable[[], Server]) -> None:
    first = serve()
    first.publish(version(1))
    first.publish(version(2))
    first.report(1)
    before = [first.http.get(path).json() for path in (CONTRACTS, f"{CONTRACTS}/hospital.admissions")]
    code, rest = first.stop()
    assert (code, rest[-1]["event"]) == (0, "registry_stopped")
    second = serve()
    after = [second.http.get(path).json() for path in (CONTRACTS, f"{CONTRACTS}/hospital.admissions")]
    assert after == before
    assert second.publish(version(2)).status_code == 200
    assert second.publish(version(3)).json()["registry_id"] == 3
    assert second.report(1).status_code == 200


@pytest.mark.full
@on_both(quickly="postgresql")
def test_kill_9_loses_nothing_that_was_acknowledged(serve_on_both: Callable[[], Server]) -> None:
    victim = serve_on_both()
    acknowledged: list[tuple[str, int]] = [("version", 0)]
    assert victim.publish(version(0)).status_code == 201  # reports are of a contract

    def write(kind: str) -> None:
        for number in range(1, 10_000):
            try:
                answer = victim.publish(version(number)) if kind == "version" else victim.report(number)
            except httpx.TransportError:
                return
            assert answer.status_code == 201
            acknowledged.append((kind, number))
            if len(acknowledged) == 60:
                os.kill(victim.process.pid, signal.SIGKILL)

    threads = [threading.Thread(target=write, args=(kind,)) for kind in ("version", "report")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(acknowledged) >= 60

    survivor = serve_on_both()
    versions = survivor.http.get(f"{CONTRACTS}/hospital.admissions").json()["versions"]
    batches = survivor.http.get(
        BATCHES, params={"since": "2026-07-01T00:00:00Z", "until": "2026-07-02T00:00:00Z"}
    ).json()["batches"]
    kept = {("version", int(found["version"].split(".")[1])) for found in versions}
    kept |= {("report", found["n"]) for found in batches}
    assert set(acknowledged) <= kept
    assert len(kept) <= len(acknowledged) + 2  # a write of each thread was under way
    (stream,) = survivor.http.get("/api/v1/streams").json()["streams"]
    assert stream["totals"]["batches"] == len(batches)
    entries = survivor.http.get("/api/v1/audit", params={"limit": 1000}).json()["entries"]
    assert len([entry for entry in entries if entry["action"] == "contract.published"]) == len(versions)
    assert check([read_line(json.dumps(entry).encode()) for entry in entries]).is_intact


@on_both(quickly="sqlite")
def test_kill_9_loses_no_schema_that_was_acknowledged_and_gives_no_id_again(
    serve_on_both: Callable[[], Server],
) -> None:
    def register(server: Server, number: int) -> httpx.Response:
        field = {"name": "f", "type": "int", "default": number}
        text = json.dumps({"type": "record", "name": "R", "fields": [field]})
        return server.http.post(f"/subjects/killed-{number % 3}-value/versions", json={"schema": text})

    victim = serve_on_both()
    acknowledged: dict[int, str] = {}

    def write(start: int) -> None:
        for number in range(start, 10_000, 3):
            try:
                answer = register(victim, number)
            except httpx.TransportError:
                return
            assert answer.status_code == 200
            acknowledged[answer.json()["id"]] = answer.json()["guid"]
            if len(acknowledged) == 40:
                os.kill(victim.process.pid, signal.SIGKILL)

    threads = [threading.Thread(target=write, args=(start,)) for start in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    survivor = serve_on_both()
    kept = {one["id"]: one["guid"] for one in survivor.http.get("/schemas").json()}
    assert acknowledged.items() <= kept.items()
    assert len(kept) <= len(acknowledged) + 3  # a write of each thread was under way
    listed = survivor.http.get(CONTRACTS).json()["contracts"]
    numbers = [one["number"] for one in listed]
    assert sum(numbers) == len(kept)  # every schema is a version of a contract, and the other way round
    assert register(survivor, 10_000).json()["id"] == max(kept) + 1


@pytest.mark.full
@on_both(quickly="postgresql")
def test_what_one_process_deletes_stays_deleted_in_every_other_and_no_id_is_given_twice(
    serve_on_both: Callable[[], Server],
) -> None:
    one, other = serve_on_both(), serve_on_both()
    path = "/subjects/t-value"

    def register(server: Server, *fields: str) -> dict[str, object]:
        text = {"type": "record", "name": "R", "fields": [{"name": name, "type": "int"} for name in fields]}
        answer = server.http.post(f"{path}/versions", json={"schema": json.dumps(text)})
        assert answer.status_code == 200
        found: dict[str, object] = answer.json()
        return found

    assert (register(one, "a")["id"], register(other, "a")["id"]) == (1, 1)
    assert other.http.delete(f"{CONTRACTS}/t/versions/1.0.0").status_code == 200
    assert one.http.get(f"{CONTRACTS}/t/versions/latest").status_code == 404
    assert one.http.get(f"{path}/versions").status_code == 404
    assert one.http.get("/schemas/ids/1").status_code == 200
    assert one.http.post(f"{CONTRACTS}/t/versions/1.0.0/undelete").status_code == 200
    assert other.http.get(f"{path}/versions").json() == [1]
    published = other.http.get(f"{CONTRACTS}/t").json()["versions"][0]["published_at"]
    enforced = other.http.get(f"{CONTRACTS}/t/versions/latest", params={"asOf": published})
    assert (enforced.status_code, enforced.headers["tidegate-contract"]) == (200, "t@1.0.0")

    assert one.http.delete(path).json() == [1]
    assert other.http.delete(path, params={"permanent": "true"}).json() == [1]
    assert other.http.get("/schemas/ids/1").status_code == 404
    assert register(one, "a")["id"] == 2
    other.process.kill()
    other.process.wait()
    third = serve_on_both()
    assert third.http.get("/schemas/ids/1").status_code == 404
    again = register(third, "a")
    assert (again["id"], again["version"]) == (2, 1)
    numbers = [one["version"] for one in third.http.get(f"{CONTRACTS}/t").json()["versions"]]
    assert numbers == ["2.0.0"]


@pytest.mark.full
def test_contracts_of_an_older_database_are_shown_among_subjects(
    serve: Callable[[], Server], tmp_path: Path
) -> None:
    first = serve()
    first.publish(version(1))
    first.stop()
    with contextlib.closing(sqlite3.connect(tmp_path / "registry.db")) as connection:
        connection.execute("DELETE FROM subject_versions")
        connection.execute("DELETE FROM schemas")
        connection.commit()
    second = serve()
    assert second.http.get("/subjects/hospital.admissions-value/versions").json() == [1]


def test_a_request_under_way_at_sigterm_is_answered(server: Server) -> None:
    body = CONTRACT_YAML.encode()
    head = (
        f"POST {CONTRACTS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/yaml\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", httpx.URL(server.url).port or 0)) as connection:
        connection.sendall(head.encode() + body[:100])
        server.http.get("/health/live")  # by now the first part has been read
        server.process.send_signal(signal.SIGTERM)
        connection.sendall(body[100:])
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert server.process.wait() == 0


@pytest.mark.full
def test_the_log_is_json_and_holds_no_payload(server: Server) -> None:
    server.publish(CONTRACT_YAML)
    server.http.post(
        f"{CONTRACTS}/hospital.admissions/versions/latest/judge",
        content=b'{"admission_id": "SECRET"}',
        headers={"Content-Type": "application/x-ndjson"},
    )
    server.publish("id: SECRET")
    code, rest = server.stop(signal.SIGINT)
    assert code == 130
    log = server.log + rest
    assert [line["event"] for line in log] == [
        "access_control_off",
        "registry_started",
        "registry_listening",
        "contract_published",
        "registry_stopped",
    ]
    assert "SECRET" not in json.dumps(log)


@pytest.mark.full
def test_a_port_in_use_is_a_wrong_setting(server: Server, tmp_path: Path) -> None:
    port = str(httpx.URL(server.url).port)
    second = subprocess.run(
        [*TIDEGATE, "serve", "--port", port, "--database-url", f"sqlite:///{tmp_path}/other.db"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 2
    assert f"127.0.0.1:{port} cannot be listened on: Address already in use; choose another" in second.stderr


class TestPublishCommand:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        """A contract whose schema lies beside it."""
        document = json.loads(orjson.dumps(CONTRACT))
        (tmp_path / "admissions.schema.json").write_bytes(orjson.dumps(document["schema"].pop("definition")))
        document["schema"]["file"] = "admissions.schema.json"
        path = tmp_path / "contract.json"
        path.write_text(json.dumps(document, indent=2))
        return path

    def publish(self, file: Path, url: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [*TIDEGATE, "publish", file.name, "--registry", url],
            cwd=file.parent,
            # A proxy for the rest of the world is not asked for this machine.
            env=os.environ | {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    @pytest.mark.full
    def test_a_schema_file_travels_inside_its_contract(self, server: Server, file: Path) -> None:
        first, again = (self.publish(file, server.url) for _ in range(2))
        hint = (
            "  no job enforces it (no heartbeat yet): run `tidegate enforce hospital.admissions`; a job with --all, or "
            "with a --prefix or --domain that fits, starts its stream by itself\n"
        )
        assert first == (0, f"hospital.admissions 1.2.0 published (registry id 1)\n{hint}", "")
        assert again == (0, f"hospital.admissions 1.2.0 unchanged\n{hint}", "")
        fetched = server.http.get(f"{CONTRACTS}/hospital.admissions/versions/1.2.0").json()
        assert fetched["schema"] == CONTRACT["schema"]

    @pytest.mark.full
    def test_a_changed_document_says_what_to_do(self, server: Server, file: Path) -> None:
        self.publish(file, server.url)
        file.write_text(file.read_text().replace("999", "998"))
        code, out, err = self.publish(file, server.url)
        assert (code, out) == (1, "")
        assert err == (
            "contract.json: hospital.admissions 1.2.0 is published with another content (registry id 1), and a "
            "version never changes; give the changed document a new version, such as 1.3.0\n"
        )

    @pytest.mark.full
    def test_mistakes_are_located_in_the_files_of_the_author(self, server: Server, file: Path) -> None:
        file.write_text(file.read_text().replace('"/age"', '"/agee"'))
        code, out, err = self.publish(file, server.url)
        assert (code, out) == (1, "")
        line = 1 + file.read_text()[: file.read_text().index("/agee")].count("\n")
        assert err.startswith(f"contract.json:{line}:")
        assert "did you mean `/age`?" in err

    def test_a_registry_that_does_not_answer_is_named(self, file: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        code, out, err = self.publish(file, url)
        assert (code, out) == (3, "")
        assert f"no registry answers at {url}" in err
        assert "tidegate serve" in err

    def test_an_address_of_something_else_is_a_wrong_setting(self, file: Path) -> None:
        code, out, err = self.publish(file, "registry.example")
        assert (code, out) == (2, "")
        assert "registry.example is not the URL of a registry" in err


def worst_document(number: int) -> bytes:
    """Return a contract that is as much work as any that is read: a long comparison, or 2^40 looks at one value."""
    names = [f"n{index}" for index in range(14)]
    if number % 2:
        bodies: list[object] = [{"anyOf": [{"$ref": f"#/$defs/d{index + 1}"}] * 2} for index in range(40)]
        definition = {"$ref": "#/$defs/d0", "$defs": {f"d{index}": each for index, each in enumerate(bodies)}}
        definition["$defs"]["d40"] = {"type": "object"}  # type: ignore[index] # it is a mapping
    else:
        members = {name: {"$ref": f"#/$defs/{name}"} for name in names}
        each = {"properties": members, "maxProperties": 1_000 + number}
        definition = {"$ref": "#/$defs/n0", "$defs": dict.fromkeys(names, each)}
    columns = [{"name": "c", "from": "/n0", "type": "json"}]
    document = CONTRACT | {"version": f"1.{number + 3}.0", "rules": [], "columns": columns}
    return orjson.dumps(document | {"schema": {"type": "json-schema", "definition": definition}})


@pytest.mark.full
def test_reads_are_answered_while_50_of_the_worst_documents_are_checked(server: Server) -> None:
    assert server.publish(worst_document(0)).status_code == 201
    known: list[int] = []

    def check(number: int) -> None:
        with contextlib.suppress(httpx.HTTPError):  # the process ends while some of them wait
            headers = {"Content-Type": "application/json"}
            answer = server.http.post(
                f"{CONTRACTS}/check", content=worst_document(number + 1), headers=headers
            )
            known.append(answer.status_code)

    threads = [threading.Thread(target=check, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    answers = [
        server.http.get(path).status_code
        for _ in range(10)
        for path in ("/health/ready", f"{CONTRACTS}/hospital.admissions/versions/latest", "/subjects")
    ]
    assert answers == [200] * 30
    assert len(known) < 50, "the checks ended before anything was read beside them"
    server.process.send_signal(signal.SIGTERM)
    # Not a matter of speed: the process ends then whatever it does, and this is what it promises.
    assert server.process.wait(timeout=10) == 0
    for thread in threads:
        thread.join()
    assert set(known) <= {200, 422, 503}


@pytest.mark.full
def test_an_overloaded_registry_answers_with_the_time_to_retry(tmp_path: Path) -> None:
    environment = {"TIDEGATE_CHECKS_AT_ONCE": "1", "TIDEGATE_CHECKS_WAITING": "1"}
    with Server(f"sqlite:///{tmp_path}/registry.db", environment) as server:
        answers = together(16, lambda number: server.publish(version(number)))
        turned_away = [answer for answer in answers if answer.status_code == 429]
        assert turned_away
        assert {answer.headers["Retry-After"] for answer in turned_away} == {"2"}
        assert {answer.status_code for answer in answers} == {201, 429}
