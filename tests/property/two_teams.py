"""A registry that two teams share, and requests of people of one team about objects of both."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import SecretStr
from sqlalchemy import select

from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.access.rules import DESK, NATIVE
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.http.confluent.operations import OPERATIONS
from tidegate.gateway.http.models.examples import CONTRACT, REPORT
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.storage.tables import Table

OURS, THEIRS = "hospital.", "payments."
MARK = "zq7marker"
"""A text in everything of the other team that an answer could show."""
ROLES = ("viewer", "reporter", "producer", "approver", "admin")
CONFLUENT = "application/vnd.schemaregistry.v1+json"
TEAMLESS = {"next_ids", "audit", "audit_head", "keys", "alembic_version"}
"""Tables of the whole registry: sequences, the log with its head, and keys."""
NAMES = {"subject", "stream", "contract_id", "topic", "scope", "id"}
OPERATIONS_OF_ALL_APIS = sorted(
    {(method, path) for method, path in {**NATIVE, **DESK} if "{digest}" not in path}
    | {(operation.method, operation.path) for operation in OPERATIONS}
)


def names(prefix: str) -> dict[str, str]:
    return {"contract": f"{prefix}orders", "subject": f"{prefix}orders-value"}


def contract(prefix: str, note: str, version: str = "1.2.0") -> dict[str, Any]:
    name = names(prefix)["contract"]
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


def planting(prefix: str, note: str) -> list[tuple[str, str, Any]]:
    """Return requests that give a team one object of each kind, with the note in it."""
    name = names(prefix)["contract"]
    here, stream = f"/api/v1/contracts/{name}", f"/api/v1/streams/{name}"
    return [
        ("POST", "/api/v1/contracts", contract(prefix, note)),
        ("PUT", f"{here}/consumers/{note}", {"reads": ["/age"], "team": note}),
        ("POST", f"{stream}/batches", report(prefix, note)),
        ("POST", f"{stream}/pause", {"reason": note}),
        ("POST", f"{stream}/reconciliations", {}),
        ("POST", f"/subjects/{prefix}avro-value/versions", {"schema": schema(note), "schemaType": "AVRO"}),
        ("PUT", f"/config/{prefix}avro-value", {"compatibility": "FULL", "compatibilityGroup": note}),
        ("POST", "/associations", association(prefix)),
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
            {"consumer": MARK, "candidate": "0" * 64},
            {"candidate": "0" * 64},
            {"partition": 0, "offset": 1},
            {"contract": name, "records": [{"age": 999}]},
            {"requests": [{"resourceId": f"{prefix}topic"}, {"resourceName": f"{prefix}topic", "resourceNamespace": "n"}]},
            {"requests": [{"operation": "UPSERT", "request": association(prefix)}]},
        ]  # fmt: skip
    return found


BODIES = bodies()
NO_BROKER = "the gateway knows no broker"
"""What a gateway without a broker answers about quarantined records, with 503."""
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
    "consumer_id": [MARK, "ours"],
    "candidate": ["0" * 64],
    "reconciliation": ["00000000-0000-0000-0000-000000000000"],
    "key_id": ["000000000000"],
    "action": ["pause", "resume", "promote", "rewind"],
    "digest": ["0" * 64],
    "problem": ["0" * 32],
    "replay": ["00000000-0000-0000-0000-000000000000"],
    "search": ["00000000-0000-0000-0000-000000000000"],
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
    """A registry with access control on, in which two teams have one object of each kind."""

    def __init__(self) -> None:
        """Give both teams their objects; remember every row of the other team."""
        self.folder = tempfile.TemporaryDirectory()
        url = SecretStr(f"sqlite:///{Path(self.folder.name)}/registry.db")
        self.factory = Factory(GatewaySettings(database_url=url, access="on", rate_limit="off"))
        self.factory.database.migrate()
        self.application = create_app(self.factory)
        self.transport = httpx.ASGITransport(self.application, raise_app_exceptions=False)
        owner = self._key("admin")
        self._plant(owner, planting(THEIRS, MARK))
        self.planted = self._rows()
        self._plant(owner, planting(OURS, "ours"))
        assert any(MARK in repr(row) for row in self.planted["contract_versions"])
        self.people = {role: self._key(f"{role}:{OURS}") for role in ROLES}

    def close(self) -> None:
        self.factory.close()
        self.folder.cleanup()

    def request(self, role: str, method: str, target: str, body: Any) -> None:
        """Make a request as a person of our team, and look for the other team in its answer."""
        answer = self._ask(self.people[role], method, target, None if method == "GET" else body)
        # Without a broker, a record of a topic is not to be had.
        is_outage = answer.status_code == 503 and (
            target.startswith("/desk/records/") or NO_BROKER in answer.text
        )
        assert answer.status_code < 500 or is_outage, (method, target, body, answer.text)
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

    def _plant(self, key: str, requests: list[tuple[str, str, Any]]) -> None:
        for method, path, body in requests:
            answer = self._ask(key, method, path, body)
            assert answer.is_success, (method, path, answer.text)

    def _rows(self) -> dict[str, set[tuple[tuple[str, Any], ...]]]:
        """Return the rows of each table that belongs to teams, as columns and values."""
        with self.factory.database._engine.connect() as connection:
            return {
                table.name: {tuple(row._mapping.items()) for row in connection.execute(select(table))}
                for table in Table.metadata.sorted_tables
                if table.name not in TEAMLESS
            }

    def _key(self, grant: str) -> str:
        made = self.factory.keys().create("test", read_grants((grant,)), "cli:test")
        return "Basic " + base64.b64encode(f"{made.key_id}:{made.secret}".encode()).decode()

    def _ask(self, key: str, method: str, path: str, body: Any) -> httpx.Response:
        is_native = path.startswith(("/api/", "/desk"))
        headers = {"Authorization": key}
        if body is not None:
            headers["Content-Type"] = "application/json" if is_native else CONFLUENT

        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self.transport, base_url="http://localhost") as client:
                content = None if body is None else json.dumps(body)
                return await client.request(method, path, content=content, headers=headers)

        return asyncio.run(ask())


def addresses(path: str, of: str) -> Iterator[str]:
    """Return the paths of an operation whose parameters name objects of a team, or of no team."""
    names = re.findall(r"\{(\w+)\}", path)
    values = [
        [
            value
            for value in PARAMETERS[name]
            if of in value or not any(team in value for team in (OURS, THEIRS))
        ]
        for name in names
    ]
    for chosen in itertools.product(*values):
        yield path.format(**{name: quote(value, safe=":") for name, value in zip(names, chosen, strict=True)})
