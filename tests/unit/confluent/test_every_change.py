"""Every operation of either API that changes something writes an entry to the audit log; a new one without it fails here."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import uuid4

from tests.unit.confluent.conftest import Ask, record
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import digest_of_refusals
from tidegate.gateway.access.principal import Role
from tidegate.gateway.access.rules import NATIVE
from tidegate.gateway.http.confluent.operations import OPERATIONS
from tidegate.gateway.http.models.examples import CONTRACT
from tidegate.gateway.http.native.adoptions import ADOPTION
from tidegate.gateway.http.native.table_audits import TABLE_AUDIT

RESOURCE = {"resourceName": "t", "resourceNamespace": "c", "resourceId": "r", "resourceType": "topic"}
ASSOCIATED = {**RESOURCE, "associations": [{"subject": "s", "associationType": "value"}]}
TAGS = {"tagsToAdd": [{"schemaEntity": {"entityPath": ".U.a", "entityType": "sr_field"}, "tags": ["PII"]}]}
OTHER = {**RESOURCE, "resourceId": "r2", "associations": [{"subject": "s", "associationType": "key"}]}
STRONG = {**RESOURCE, "associations": [{"subject": "s", "associationType": "value", "lifecycle": "STRONG"}]}

CONFLUENT: list[tuple[str, str, str, Any]] = [
    ("POST", "/subjects/{subject}/versions", "/subjects/s/versions", {"schema": record("a")}),
    ("POST", "/subjects/{subject}/versions/{version}/tags", "/subjects/s/versions/1/tags", TAGS),
    ("PUT", "/config", "/config", {"compatibility": "NONE"}),
    ("DELETE", "/config", "/config", None),
    ("PUT", "/config/{subject}", "/config/s", {"compatibility": "NONE"}),
    ("DELETE", "/config/{subject}", "/config/s", None),
    ("PUT", "/mode", "/mode", {"mode": "READWRITE"}),
    ("DELETE", "/mode", "/mode", None),
    ("PUT", "/mode/{subject}", "/mode/s", {"mode": "READWRITE"}),
    ("DELETE", "/mode/{subject}", "/mode/s", None),
    ("POST", "/associations", "/associations", ASSOCIATED),
    ("PUT", "/associations", "/associations", STRONG),
    ("PUT", "/associations/resources/{resource}", "/associations/resources/r", ASSOCIATED),
    ("DELETE", "/associations/resources/{resource}", "/associations/resources/r", None),
    ("POST", "/associations:batchMutate", "/associations:batchMutate", {"requests": [OTHER]}),
    ("DELETE", "/subjects/{subject}/versions/{version}", "/subjects/s/versions/1", None),
    ("DELETE", "/subjects/{subject}", "/subjects/s", None),
    ("DELETE", "/subjects/{subject}", "/subjects/s?permanent=true", None),
]
STORES_NOTHING = {
    (
        "DELETE",
        "/contexts/{context}",
    ): "a context is known by what it holds, and only an empty one can be deleted",
}

HERE = "/api/v1/contracts/{contract_id}"
THERE = "/api/v1/streams/{stream}"
WAITS_FOR_ACCESS_CONTROL = "without access control no change waits; tests/unit/access tells of it"
TELLS_OF_RECORDS = {
    ("POST", "/api/v1/contracts/check"): "answers as if",
    ("POST", f"{HERE}/approvals"): WAITS_FOR_ACCESS_CONTROL,
    ("DELETE", f"{HERE}/approvals/{{candidate}}"): WAITS_FOR_ACCESS_CONTROL,
    ("POST", f"{THERE}/batches"): "what a job did with a batch: the ledger holds it",
    ("POST", f"{THERE}/events"): "what happened to a job",
    ("POST", f"{THERE}/heartbeat"): "a job is alive",
    ("POST", f"{THERE}/reconciliations/{{reconciliation}}/result"): "what a job has found",
    ("POST", f"{THERE}/replays/{{replay}}/progress"): "how far a job is",
}
NEEDS_REFUSED_RECORDS = {
    ("POST", f"{THERE}/problems/{{problem}}/{part}") for part in ("state", "assignee", "comments")
} | {
    ("POST", f"{THERE}/quarantine/rebuild"),
    ("POST", f"{THERE}/quarantine/searches"),
    ("DELETE", f"{THERE}/quarantine/searches/{{search}}"),
    ("POST", f"{THERE}/replays"),
    ("POST", f"{THERE}/replays/{{replay}}/approval"),
    ("DELETE", f"{THERE}/replays/{{replay}}"),
}
"""Their entries are tested with records: `test_every_change_of_refused_records_is_in_the_log` looks that none is left out;
test_quarantine_index.py (integration) begins a search, and test_replays.py has replays."""


def entries(client: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/v1/audit?limit=1000").json()["entries"]
    return found


def test_every_change_through_the_confluent_api(client: Any, ask: Ask) -> None:
    for method, _, path, body in CONFLUENT:
        before = len(entries(client))
        answer = ask(method, path, body)
        assert answer[0] < 300, (method, path, answer)
        require_told(entries(client)[before:], f"{method} {path}")
    changing = {(each.method, each.path) for each in OPERATIONS if each.rule.role > Role.VIEWER}
    assert changing - {(method, pattern) for method, pattern, _, _ in CONFLUENT} == STORES_NOTHING.keys()


def test_every_change_through_the_native_api(client: Any) -> None:
    contract, consumer = "/api/v1/contracts/hospital.admissions", "/consumers/report"
    stream, version = "/api/v1/streams/hospital.admissions", "/versions/1.3.0"
    draft = {**CONTRACT, "version": "1.3.0", "status": "draft"}
    trip = {
        "id": str(uuid4()), "stream": "hospital.admissions", "topic": "hospital.admissions",
        "contract": "hospital.admissions@1.2.0", "epoch": 1, "at": "2026-07-01T12:00:00Z", "start": {"0": 0},
        "end": {"0": 9}, "records": 9, "refused": 9, "allowed": 0.2, "action": "pause",
    }  # fmt: skip
    made: list[tuple[str, str, str, Any]] = [
        ("POST", "/api/v1/contracts", "/api/v1/contracts", CONTRACT),
        ("PUT", f"{HERE}/consumers/{{consumer_id}}", contract + consumer, {"team": "T", "reads": ["/age"]}),
        ("DELETE", f"{HERE}/consumers/{{consumer_id}}", contract + consumer, None),
        ("POST", "/api/v1/contracts", "/api/v1/contracts", draft),
        (
            "POST",
            f"{HERE}/acknowledgements",
            f"{contract}/acknowledgements",
            {"breaking": True, "version": "1.3.0"},
        ),
        ("POST", f"{THERE}/shadow", f"{stream}/shadow", {"version": "1.3.0"}),
        ("POST", f"{HERE}/versions/{{version}}/status", f"{contract}{version}/status", {"status": "active"}),
        ("DELETE", f"{HERE}/versions/{{version}}", contract + version, None),
        ("POST", f"{HERE}/versions/{{version}}/undelete", f"{contract}{version}/undelete", {}),
        ("POST", f"{THERE}/pause", f"{stream}/pause", {"reason": "why"}),
        ("POST", f"{THERE}/resume", f"{stream}/resume", {}),
        (
            "POST",
            f"{THERE}/quarantine-record",
            f"{stream}/quarantine-record",
            {"partition": 1, "offset": 9},
        ),
        ("POST", f"{THERE}/reconciliations", f"{stream}/reconciliations", {}),
        ("POST", f"{THERE}/trips", f"{stream}/trips", trip),
        ("POST", f"{THERE}/adoptions", f"{stream}/adoptions", ADOPTION),
        ("POST", f"{THERE}/replays", f"{stream}/replays", replay_order()),
        ("POST", "/api/v1/keys", "/api/v1/keys", {"name": "job", "grants": ["producer:hospital."]}),
    ]
    for method, _, path, body in made:
        change(client, method, path, body)
    replay = client.get(f"{stream}/replays").json()["replays"][0]["id"]
    change(client, "DELETE", f"{stream}/replays/{replay}", None)
    fingerprint = client.get(contract).json()["versions"][0]["fingerprint"]
    audit = {**TABLE_AUDIT, "contract": "hospital.admissions@1.3.0", "fingerprint": fingerprint}
    change(client, "POST", f"{contract}/table-audits", audit)
    key = client.get("/api/v1/keys").json()["keys"][0]["key_id"]
    change(client, "DELETE", f"/api/v1/keys/{key}", None)
    covered = {(method, pattern) for method, pattern, _, _ in made} | {
        ("DELETE", "/api/v1/keys/{key_id}"),
        ("POST", f"{HERE}/table-audits"),
    }
    changing = {key for key, rule in NATIVE.items() if rule.role > Role.VIEWER and key[0] != "GET"}
    assert changing - covered - NEEDS_REFUSED_RECORDS == TELLS_OF_RECORDS.keys()


def replay_order() -> dict[str, Any]:
    topic = "hospital.admissions.quarantine"
    digest = digest_of_refusals(topic, Positions([(0, 0)]))
    return {"topic": topic, "topic_id": "t", "positions": {"0": [[0, 0]]}, "records": 1, "digest": digest}


def change(client: Any, method: str, path: str, body: Any) -> None:
    before = len(entries(client))
    content = None if body is None else json.dumps(body)
    answer = client.request(method, path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code < 300, (method, path, answer.text)
    require_told(entries(client)[before:], f"{method} {path}")


def require_told(found: list[dict[str, Any]], request: str) -> None:
    """Require that it stands there who did it to what, and hashes that tell the content before from that after."""
    assert found, request
    for entry in found:
        assert entry["who"] == "anonymous", request
        # Settings that hold for all are no subject's.
        assert bool(entry["subject"]) is not request.endswith((" /config", " /mode")), (request, entry)
        hashes = (entry["before"], entry["after"])
        # A schema has its GUID, everything else a SHA-256.
        assert all(each is None or re.fullmatch("[0-9a-f]{64}|[0-9a-f-]{36}", each) for each in hashes), entry
        # A status is no content: the action says from which to which.
        assert (entry["before"] == entry["after"]) is ("-to-" in entry["action"]), (request, entry)
