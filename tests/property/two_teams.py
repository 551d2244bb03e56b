"""A registry that two teams share, and requests of people of one team about objects of both."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pydantic import SecretStr
from sqlalchemy import select

from tests.unit.gateway.quarantine_records import Process, RawRefusal, refused
from tidegate.contracts.document.fingerprint import fingerprint
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import digest_of_refusals
from tidegate.contracts.verdict import Severity, Stage, Violation
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.access.rules import DESK, NATIVE
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.http.confluent.operations import OPERATIONS
from tidegate.gateway.http.models.examples import CONTRACT, REPORT
from tidegate.gateway.http.native.table_audits import TABLE_AUDIT
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.storage.tables import Table

OURS, THEIRS = "hospital.", "payments."
MARK = "zq7marker"
"""A text in everything of the other team that an answer could show; no request but a query names it."""
READER = "their-report"
"""A consumer of the other team, which our team may have heard of."""
AUDITS = {OURS: "00000000-0000-4000-8000-000000000001", THEIRS: "00000000-0000-4000-8000-000000000002"}
"""Ids of the audits of tables: whoever sends an audit chooses its id."""
ROLES = ("viewer", "reporter", "producer", "approver", "admin")
CONFLUENT = "application/vnd.schemaregistry.v1+json"
TEAMLESS = {"next_ids", "audit", "audit_head", "keys", "alembic_version"}
"""Tables of the whole registry: sequences, the log with its head, and keys."""
NAMES = {"subject", "stream", "contract_id", "topic", "scope", "id"}
OWN_WORK = {"quarantine_partitions": {"revision", "owner", "lease_until", "indexed_at"}}
"""Columns that the registry's own indexer writes, without any request."""
OPERATIONS_OF_ALL_APIS = sorted(
    {(method, path) for method, path in {**NATIVE, **DESK} if "{digest}" not in path}
    | {(operation.method, operation.path) for operation in OPERATIONS}
)


def names(prefix: str) -> dict[str, str]:
    return {"contract": f"{prefix}orders", "subject": f"{prefix}orders-value"}


def contract(prefix: str, note: str, version: str = "1.2.0", name: str = "") -> dict[str, Any]:
    name = name or names(prefix)["contract"]
    rules = [
        {"id": f"known-{note}", "kind": "forbidden", "field": "/age", "values": [999], "description": note}
    ]
    return {**CONTRACT, "id": name, "topic": name, "version": version, "description": note, "rules": rules}


def schema(note: str) -> str:
    fields = [{"name": "age", "type": "int"}, {"name": note, "type": ["null", "string"], "default": None}]
    return json.dumps({"type": "record", "name": "Payment", "doc": note, "fields": fields})


def association(prefix: str) -> dict[str, Any]:
    return {
        "resourceName": f"{prefix}topic",
        "resourceNamespace": "n",
        "resourceId": f"{prefix}topic",
        "resourceType": "topic",
        "associations": [{"subject": f"{prefix}avro-value", "associationType": "value"}],
    }


def report(prefix: str, note: str, n: int = 1) -> dict[str, Any]:
    name = names(prefix)["contract"]
    rules = [{"stage": "rule", "code": f"known-{note}", "severity": "error", "records": 30}]
    own = {
        "stream": name,
        "topic": name,
        "quarantine_topic": f"{name}.quarantine",
        "contract": f"{name}@1.2.0",
    }
    return {**REPORT, **own, "n": n, "rules": rules, "expectations": [], "sink": f"iceberg:lake.{note}"}


def audit(prefix: str, note: str) -> dict[str, Any]:
    """Return an audit of a table by the contract of a team, with the note in it."""
    document = contract(prefix, note)
    rules = [{"stage": "rule", "code": f"known-{note}", "severity": "error", "records": 30}]
    return {
        **TABLE_AUDIT, "id": AUDITS[prefix], "contract": f"{document['id']}@{document['version']}", "table": f"lake.{note}",
        "fingerprint": fingerprint(DataContract.model_validate(document)), "violations": rules, "reason": note,
    }  # fmt: skip


def planting(prefix: str, note: str) -> list[tuple[str, str, Any]]:
    """Return requests that give a team one object of each kind, with the note in it."""
    name = names(prefix)["contract"]
    here, stream = f"/api/v1/contracts/{name}", f"/api/v1/streams/{name}"
    return [
        ("POST", "/api/v1/contracts", contract(prefix, note)),
        # Only lists have its name: no request of the other team says it.
        ("POST", "/api/v1/contracts", contract(prefix, note, name=f"{prefix}{note}")),
        ("PUT", f"{here}/consumers/{READER}", {"reads": ["/age"], "team": note}),
        ("POST", f"{stream}/batches", report(prefix, note)),
        ("POST", f"{stream}/pause", {"reason": note}),
        ("POST", f"{stream}/reconciliations", {}),
        ("POST", f"/subjects/{prefix}avro-value/versions", {"schema": schema(note), "schemaType": "AVRO"}),
        ("PUT", f"/config/{prefix}avro-value", {"compatibility": "FULL", "compatibilityGroup": note}),
        ("POST", "/associations", association(prefix)),
        ("POST", f"{stream}/replays", replay(prefix)),
        ("POST", f"{here}/table-audits", audit(prefix, note)),
    ]


def replay(prefix: str) -> dict[str, Any]:
    """Return the order to replay refused records of a team, with a fix that another person has to approve."""
    topic = f"{names(prefix)['contract']}.quarantine"
    step = {"action": "map", "field": "/age", "values": [{"from": 999, "to": 9}]}
    fix = parse_fix(json.dumps({"fix": "age-is-a-number", "steps": [step]}), name="fix.json")
    return {
        "topic": topic, "topic_id": "t", "positions": {"0": [[0, 1]]}, "records": 2,
        "digest": digest_of_refusals(topic, Positions([(0, 0), (0, 1)])), "fix": fix.text, "fingerprint": fix.fingerprint,
    }  # fmt: skip


def refusals(prefix: str, note: str) -> list[RawRefusal]:
    """Return refused records of a team, with the note in their values, headers and reasons."""
    name = names(prefix)["contract"]
    rule = Violation(Stage.RULE, f"known-{note}", "/age", Severity.ERROR, "is one of the forbidden values")
    field = Violation(Stage.SCHEMA, "type", f"/{note}", Severity.ERROR, "must be of type string")
    broken = Violation(Stage.DECODE, "json.invalid", "", Severity.ERROR, "is not JSON")
    value = json.dumps({"age": 999, note: 7}).encode()
    return [
        refused(offset, violations, value=value, contract=name, topic=name, app=note)
        for offset, violations in enumerate([(rule,), (rule, field), (field,), (broken,)])
    ]


def bodies() -> list[Any]:
    """Return bodies that operations accept, about either team, some of one team that lead to the other."""
    found: list[Any] = [
        {},
        [],
        {"mode": "IMPORT"},
        {"mode": "READWRITE"},
        {"force": True},
        {"status": "retired"},
    ]
    for prefix in (OURS, THEIRS):
        name = names(prefix)["contract"]
        found += [body for _, _, body in planting(prefix, "ours")]
        found += [
            contract(prefix, "ours", "2.0.0"),
            report(prefix, "ours", 2),
            {"schema": schema("ours"), "references": [{"name": "r", "subject": f"{prefix}avro-value", "version": 1}]},
            {"schema": schema("ours"), "id": 1, "version": 7},
            {"schema": json.dumps(f"{prefix}unknown")},
            {"alias": f"{prefix}avro-value"},
            {"compatibility": "NONE"},
            {"grants": [f"admin:{prefix}"], "name": "mine"},
            {"consumer": READER, "candidate": "0" * 64},
            {"candidate": "0" * 64},
            {"partition": 0, "offset": 1},
            {"contract": name, "records": [{"age": 999}]},
            {"requests": [{"resourceId": f"{prefix}topic"}, {"resourceName": f"{prefix}topic", "resourceNamespace": "n"}]},
            {"requests": [{"operation": "UPSERT", "request": association(prefix)}]},
            {"text": f"about {prefix}"}, {"assignee": "ann"}, {"state": "acknowledged"}, {"state": "muted", "count": 5},
            {"key": "k0"}, {"source": "0/0"}, {"value": "999"}, {"part": "key"},
        ]  # fmt: skip
    return found


BODIES = bodies()
_NO_BROKER = b"registry knows no Kafka broker"
"""What a registry without a broker answers with 503, where it would have to read records of a topic."""
_ANY_ID = "00000000-0000-0000-0000-000000000000"
# A registry adds the ids that it has chosen for problems, replays and searches.
PARAMETERS: Mapping[str, list[str]] = {
    "contract_id": [f"{OURS}orders", f"{THEIRS}orders", f"{THEIRS}avro"],
    "stream": [f"{OURS}orders", f"{THEIRS}orders"],
    "subject": [
        *(f"{prefix}{name}-value" for prefix in (OURS, THEIRS) for name in ("orders", "avro")),
        f":.:{THEIRS}avro-value", f":*:{THEIRS}avro-value", ":*:", f"{OURS}new-value", f"{THEIRS}new-value",
    ],
    "version": ["1", "2", "-1", "latest", "1.2.0", "2.0.0"],
    "id": ["1", "2", "3", "4", "5"],
    "registry_id": ["1", "2", "3"],
    "guid": ["00000000-0000-0000-0000-000000000000"],
    "context": [":.:", "."],
    "topic": [f"{prefix}orders{end}" for prefix in (OURS, THEIRS) for end in (".quarantine", "")],
    "resource": [f"{OURS}topic", f"{THEIRS}topic"],
    "name": [f"{OURS}topic", f"{THEIRS}topic"],
    "namespace": ["n", "-"],
    "consumer_id": [READER, "ours"],
    "candidate": ["0" * 64],
    "reconciliation": [_ANY_ID],
    "key_id": ["000000000000"],
    "action": ["pause", "resume", "promote", "rewind"],
    "digest": ["0" * 64],
    "problem": [],
    "replay": [],
    "audit": list(AUDITS.values()),
    "search": [_ANY_ID],
    "at_partition": ["0"],
    "at_offset": ["0", "1"],
    "partition": ["0"],
    "offset": ["0", "1"],
}  # fmt: skip
QUERIES = (
    "deleted=true", "permanent=true", "force=true", "subjectPrefix=:*:", "subjectPrefix=", f"subjectPrefix={THEIRS}",
    f"subject={THEIRS}avro-value", "latestOnly=true", "defaultToGlobal=true", "verbose=true", "cascade=true", "dry=true",
    "referenceFormat=RESOLVED", "fetchMaxId=true", "lookupDeletedSchema=true", "normalize=true", f"domain={MARK}", "limit=100",
)  # fmt: skip


class Registry:
    """A registry with access control on, in which two teams have one object of each kind.

    With the address of a broker, the refused records of both teams are in its topics; without one, only in the index.
    """

    def __init__(self, bootstrap_servers: str | None = None) -> None:
        """Give both teams their objects; remember every row of the other team."""
        self.folder = tempfile.TemporaryDirectory()
        self.has_broker = bootstrap_servers is not None
        url = SecretStr(f"sqlite:///{Path(self.folder.name)}/registry.db")
        settings = GatewaySettings(
            database_url=url, access="on", rate_limit="off", bootstrap_servers=bootstrap_servers
        )
        self.factory = Factory(settings)
        self.factory.database.migrate()
        self.application = create_app(self.factory)
        self.transport = httpx.ASGITransport(self.application, raise_app_exceptions=False)
        if bootstrap_servers is not None:
            write_refusals(bootstrap_servers)
        self.parameters = {name: [*values] for name, values in PARAMETERS.items()}
        owner = self._key("admin")
        self._plant(owner, THEIRS, MARK)
        self.planted = self._rows()
        self._plant(owner, OURS, "ours")
        assert any(MARK in repr(row) for row in self.planted["contract_versions"])
        self.people = {role: self._key(f"{role}:{OURS}") for role in ROLES}

    def close(self) -> None:
        self.factory.close()
        self.folder.cleanup()

    def request(self, role: str, method: str, target: str, body: Any) -> None:
        """Make a request as a person of our team, and look for the other team in its answer."""
        answer = self._ask(self.people[role], method, target, None if method == "GET" else body)
        assert answer.status_code < 500 or self.is_outage(answer.status_code, answer.content), (
            method, target, body, answer.text,
        )  # fmt: skip
        is_shown = answer.is_success and answer.text != "[]"
        assert not (is_shown and THEIRS in target.partition("?")[0]), (
            role,
            method,
            target,
            answer.text,
        )
        seen = answer.text + repr(answer.headers)
        sent = target + json.dumps(body)
        for secret in (MARK, THEIRS):
            if secret not in sent:  # an answer may repeat what the request named
                assert secret not in seen, (role, method, target, body, seen)

    def assert_the_other_team_is_as_it_was(self) -> None:
        now = self._rows()
        for table, planted in self.planted.items():
            assert planted <= now[table], (table, planted - now[table])
            for row in now[table] - planted:
                named = [value for name, value in row if name in NAMES and str(value).startswith(THEIRS)]
                assert not named, (table, row)

    def is_outage(self, status: int, answer: bytes) -> bool:
        """Return whether an answer says that records cannot be read because this registry has no broker."""
        return status == HTTPStatus.SERVICE_UNAVAILABLE and not self.has_broker and _NO_BROKER in answer

    def index(self, prefix: str, note: str) -> None:
        """Index the refused records of a team; after a rebuild, all of them again."""
        Process(self.factory, "one", stream=names(prefix)["contract"]).ingest(refusals(prefix, note))

    def addresses(self, path: str, of: str) -> Iterator[str]:
        """Return the paths of an operation whose parameters name objects of a team, or of no team."""
        parameters = re.findall(r"\{(\w+)\}", path)
        values = [
            [each for each in self.parameters[name] if of in each or not (OURS in each or THEIRS in each)]
            for name in parameters
        ]
        for chosen in itertools.product(*values):
            quoted = [quote(value, safe=":") for value in chosen]
            yield path.format(**dict(zip(parameters, quoted, strict=True)))

    def _plant(self, key: str, prefix: str, note: str) -> None:
        """Give a team one object of each kind, with the note in it, and remember the ids that were chosen for them."""
        stream = f"/api/v1/streams/{names(prefix)['contract']}"
        for method, path, body in planting(prefix, note):
            made = self._planted(key, method, path, body)
            if path == f"{stream}/replays":
                self.parameters["replay"].append(made["id"])
        self.index(prefix, note)
        problems = self._planted(key, "GET", f"{stream}/problems", None)["problems"]
        self.parameters["problem"].append(problems[0]["id"])
        of_problem = f"{stream}/problems/{problems[0]['id']}"
        self._planted(key, "POST", f"{of_problem}/comments", {"text": note})
        self._planted(key, "POST", f"{of_problem}/assignee", {"assignee": note})
        self._planted(key, "POST", f"{of_problem}/state", {"state": "acknowledged"})
        # The registry's own checks of problems write rows too, soon after its start.
        self.factory.problem_watch().check(names(prefix)["contract"])
        if self.has_broker:
            search = self._planted(key, "POST", f"{stream}/quarantine/searches", {"value": note})["id"]
            self.parameters["search"].append(search)
            while (
                self._planted(key, "GET", f"{stream}/quarantine/searches/{search}", None)["state"]
                == "running"
            ):
                pass

    def _planted(self, key: str, method: str, path: str, body: Any) -> Any:
        answer = self._ask(key, method, path, body)
        assert answer.is_success, (method, path, answer.text)
        return answer.json()

    def _rows(self) -> dict[str, set[tuple[tuple[str, Any], ...]]]:
        """Return the rows of each table that belongs to teams, as columns and values."""
        with self.factory.database._engine.connect() as connection:
            return {
                table.name: {tuple(row._mapping.items()) for row in connection.execute(_of_teams(table))}
                for table in Table.metadata.sorted_tables
                if table.name not in TEAMLESS
            }

    def _key(self, grant: str) -> str:
        made = self.factory.keys().create("test", read_grants((grant,)), "cli:test")
        return "Basic " + base64.b64encode(f"{made.key_id}:{made.secret}".encode()).decode()

    def _ask(self, key: str, method: str, path: str, body: Any) -> httpx.Response:
        headers, content = {"Authorization": key}, None
        if path.startswith("/desk") and isinstance(body, dict):
            headers["Content-Type"], content = "application/x-www-form-urlencoded", urlencode(body)
        elif body is not None:
            headers["Content-Type"] = "application/json" if path.startswith("/api/") else CONFLUENT
            content = json.dumps(body)

        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self.transport, base_url="http://localhost") as client:
                return await client.request(method, path, content=content, headers=headers)

        return asyncio.run(ask())


def _of_teams(table: Any) -> Any:
    """Return a query of the columns that a person can change."""
    own = OWN_WORK.get(table.name, set())
    return select(*(column for column in table.columns if column.name not in own))


def write_refusals(bootstrap_servers: str) -> None:
    """Write the refused records of both teams to topics of a broker, once: their offsets are those in the index."""
    client = AdminClient({"bootstrap.servers": bootstrap_servers})
    for prefix, note in ((OURS, "ours"), (THEIRS, MARK)):
        topic = f"{names(prefix)['contract']}.quarantine"
        if topic in client.list_topics(timeout=30).topics:
            continue
        client.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        producer = Producer({"bootstrap.servers": bootstrap_servers})
        for each in refusals(prefix, note):
            producer.produce(topic, key=each.key, value=each.value, partition=0, headers=[*each.headers])
        assert producer.flush(30) == 0
