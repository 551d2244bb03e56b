"""Traffic for the pages: contracts published, batches reported and records quarantined as the job does it."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.stream.counts import RuleCount
from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.stream.table_audit import TableAudit
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation

ADMISSIONS: dict[str, Any] = {
    "apiVersion": "tidegate/v1",
    "kind": "DataContract",
    "id": "hospital.admissions",
    "version": "1.2.0",
    "topic": "hospital.admissions",
    "description": "One record an admission, sent at discharge.",
    "team": {"name": "Patient flow"},
    "schema": {
        "type": "json-schema",
        "definition": {
            "type": "object",
            "required": ["admission_id", "admission_date", "discharge_date"],
            "properties": {
                "admission_id": {"type": "string", "pattern": "^A[0-9]{7}$"},
                "patient_id": {"type": "string"},
                "hospital_id": {"type": "string"},
                "age": {"type": "integer", "minimum": 0},
                "admission_date": {"type": "string", "format": "date"},
                "discharge_date": {"type": "string", "format": "date"},
                "length_of_stay": {"type": "integer"},
                "ward": {"enum": ["icu", "surgery", "maternity", "general"]},
                "consultant": {"type": ["string", "null"]},
                "charge": {"type": "number"},
                "address": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "postcode": {"type": "string"}},
                },
                "note": {"type": "string"},
            },
        },
    },
    "rules": [
        {
            "id": "age-is-known",
            "kind": "forbidden",
            "field": "/age",
            "values": [999],
            "description": "999 stands for an unknown age in older systems and lifts every mean that it enters.",
        },
        {
            "id": "not-the-epoch",
            "kind": "range",
            "field": "/discharge_date",
            "after": "1900-01-01",
            "description": "1900-01-01 stands for a missing discharge date.",
        },
        {
            "id": "stay-not-negative",
            "kind": "ordered",
            "fields": ["/admission_date", "/discharge_date"],
            "description": "Nobody leaves before they came.",
        },
        {
            "id": "icu-has-consultant",
            "kind": "cel",
            "expr": 'this.ward != "icu" || (has(this.consultant) && this.consultant != null)',
            "severity": "warning",
        },
    ],
    "classification": {"/patient_id": "pii", "/note": "pii", "/address/postcode": "pii"},
}


def admission(number: int, **changes: Any) -> dict[str, Any]:
    """One admission as hospitals send it."""
    return {
        "admission_id": f"A{number:07d}",
        "patient_id": f"P-SECRET-{number:06d}",
        "hospital_id": ("LHR7", "MUC1", "CDG3")[number % 3],
        "age": 20 + number % 70,
        "admission_date": "2026-10-04",
        "discharge_date": "2026-10-11",
        "length_of_stay": 7,
        "ward": ("icu", "surgery", "maternity", "general")[number % 4],
        "consultant": "Dr Okafor",
        "charge": 4311.5,
        "address": {"city": "Leeds", "postcode": "LS1-SECRET"},
        "note": "SECRET note",
        **changes,
    }


def written(record: dict[str, Any]) -> bytes:
    """A record's bytes as compact JSON."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Refused:
    """A record to quarantine; the judge says why, unless `violations` are given."""

    value: bytes | None
    source_offset: int
    violations: tuple[Violation, ...] | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: datetime | None = None


class Traffic:
    """Feeds a gateway at `url`, and a broker, as a job would."""

    def __init__(self, url: str, bootstrap: str | None) -> None:
        self.url = url
        self._bootstrap = bootstrap
        self._batches: dict[str, int] = {}
        self._published: set[str] = set()

    def publish(self, contract: dict[str, Any]) -> None:
        """Publish a contract."""
        answer = httpx.post(f"{self.url}/api/v1/contracts", json=contract, timeout=60)
        assert answer.is_success, answer.text
        self._published.add(contract["id"])

    def report(self, stream: str, *, at: datetime, records: int, **changes: Any) -> BatchReport:
        """Report one batch that was committed at `at`; `rules` are (stage, code, severity, records).

        A stream without a contract gets a draft of one first.
        """
        if stream not in self._published:
            draft = {"version": "0.0.1", "status": "draft"}
            self.publish({**ADMISSIONS, "id": stream, "topic": stream, **draft})
        n = self._batches[stream] = self._batches.get(stream, 0) + 1
        rules = tuple(
            RuleCount(stage=stage, code=code, severity=severity, records=count)
            for stage, code, severity, count in changes.pop("rules", ())
        )
        refused = changes.get("quarantined", 0) + changes.get("dropped", 0)
        fields = {
            "topic": stream,
            "quarantine_topic": f"{stream}.quarantine",
            "sink": f"iceberg:lake.{stream}",
            "epoch": 1,
            "contract": f"{stream}@1.2.0",
            "fingerprint": "f" * 64,
            "written": records - refused,
            "warned": 0,
            "alerted": 0,
            "quarantined": 0,
            "dropped": 0,
            "start": {0: 0},
            "end": {0: records},
            "lag_records": 0,
            **changes,
        }
        report = BatchReport(
            stream=stream,
            n=n,
            started_at=at - timedelta(milliseconds=640),
            committed_at=at,
            records=records,
            rules=rules,
            **fields,
        )
        answer = httpx.post(
            f"{self.url}/api/v1/streams/{stream}/batches",
            content=report.model_dump_json(),
            headers={"Content-Type": "application/json"},
        )
        assert answer.is_success, answer.text
        return report

    def audit(self, contract_id: str, *, rows: int, refused: int, **changes: Any) -> TableAudit:
        """Send an audit of a table by the highest version, with the counts of two rules and a keyword."""
        found = httpx.get(f"{self.url}/api/v1/contracts/{contract_id}").json()["versions"][0]
        rules = [("age-is-known", 0.6), ("stay-not-negative", 0.3), ("icu-has-consultant", 0.1)]
        counts = [
            {"stage": "rule", "code": code, "severity": "error", "records": int(refused * share)}
            for code, share in rules
            if int(refused * share)
        ]
        audit = TableAudit.model_validate(
            {
                "id": uuid4(),
                "contract": f"{contract_id}@{found['version']}",
                "fingerprint": found["fingerprint"],
                "table": f"iceberg:lake.{contract_id}",
                "is_whole": True,
                "version": "5920174638201947365",
                "rows": rows,
                "refused": refused,
                "unreadable": 0,
                "dispositions": {"accepted": rows - refused, "quarantined": refused},
                "violations": counts,
                **changes,
            }
        )
        answer = httpx.post(
            f"{self.url}/api/v1/contracts/{contract_id}/table-audits",
            content=audit.model_dump_json(),
            headers={"Content-Type": "application/json"},
        )
        assert answer.is_success, answer.text
        return audit

    def quarantine(self, topic: str, records: Sequence[Refused], contract: dict[str, Any]) -> None:
        """Judge records and produce them to `topic` in one transaction, in turn to its two partitions."""
        assert self._bootstrap is not None
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        if topic not in admin.list_topics(timeout=30).topics:
            made = admin.create_topics([NewTopic(topic, 2, 1, config={"max.message.bytes": "8000000"})])
            made[topic].result(30)
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": f"desk-tests/{topic}",
                "message.max.bytes": 8_000_000,
            }
        )
        plan = compile_plan(DataContract.model_validate(contract))
        producer.init_transactions(30)
        producer.begin_transaction()
        for at, record in enumerate(records):
            stream = topic.removesuffix(".quarantine")
            verdict = plan.explain(record.value)
            if record.violations is not None:
                verdict = Verdict(Disposition.QUARANTINED, record.violations)
            assert verdict.violations, record.value
            source = EventPointer(stream, at % 2, record.source_offset)
            named = f"{contract['id']}@{contract['version']}"
            when = record.timestamp or datetime.now(UTC)
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=[*record.headers, *quarantine_headers(source, stream, named, verdict)],
                partition=at % 2,
                timestamp=int(when.timestamp() * 1000),
            )
        producer.commit_transaction(30)
        # Committed is not yet to be read: the broker writes the markers after its answer.
        while _ends(admin, topic, IsolationLevel.READ_COMMITTED) != _ends(
            admin, topic, IsolationLevel.READ_UNCOMMITTED
        ):
            pass

    def day_of_admissions(
        self, stream: str = "hospital.admissions", *, hours: int = 24, seed: int = 7
    ) -> None:
        """Report a day of batches with a bad deploy in it, a batch every five minutes, then every ten seconds."""
        rng = random.Random(seed)  # noqa: S311 - test data
        now = datetime.now(UTC)
        moments = [now - timedelta(minutes=minutes) for minutes in range(60 * hours, 60, -5)]
        moments += [now - timedelta(seconds=seconds) for seconds in range(3600, 2, -20)]
        for moment in moments:
            self._admissions_batch(stream, moment, now, rng)

    def _admissions_batch(self, stream: str, moment: datetime, now: datetime, rng: random.Random) -> None:
        hour = moment.hour + moment.minute / 60
        load = 1 + 0.5 * math.sin((hour - 9) / 24 * 2 * math.pi)
        records = int((40_000 if now - moment > timedelta(hours=1) else 2_600) * load * rng.uniform(0.9, 1.1))
        deploy = timedelta(minutes=14) < now - moment < timedelta(minutes=31)
        rates = {
            (Stage.RULE, "age-is-known"): 0.005,
            (Stage.SCHEMA, "type"): 0.004,
            (Stage.RULE, "stay-not-negative"): 0.041 if deploy else 0.0022,
            (Stage.DECODE, "json.invalid"): 0.0012,
            (Stage.SCHEMA, "required"): 0.0018,
            (Stage.RULE, "not-the-epoch"): 0.00015,
        }
        counts = {key: int(records * rate * rng.uniform(0.5, 1.6)) for key, rate in rates.items()}
        rules = [(*key, Severity.ERROR, count) for key, count in counts.items() if count]
        warned = int(records * 0.003)
        rules.append((Stage.RULE, "icu-has-consultant", Severity.WARNING, warned))
        self.report(
            stream,
            at=moment,
            records=records,
            quarantined=sum(counts.values()),
            warned=warned,
            rules=rules,
            lag_records=rng.randrange(4_000),
        )


def _ends(admin: AdminClient, topic: str, isolation: IsolationLevel) -> list[int]:
    """Where the two partitions of a topic end, for readers of an isolation level."""
    request = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in (0, 1)}  # type: ignore[no-untyped-call] # it has no types
    found = admin.list_offsets(request, isolation_level=isolation)
    return [found[place].result(30).offset for place in request]
