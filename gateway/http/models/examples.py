"""The examples in the OpenAPI document. Tests publish and judge them, so they are valid."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict


def example(value: dict[str, Any]) -> ConfigDict:
    """Return the pydantic configuration of a response model, with its example."""
    return ConfigDict(frozen=True, from_attributes=True, json_schema_extra={"example": value})


def request_example(value: dict[str, Any]) -> ConfigDict:
    """Return the pydantic configuration of a request model, with its example; unknown members are an error."""
    return ConfigDict(frozen=True, extra="forbid", json_schema_extra={"example": value})


CONTRACT: dict[str, Any] = {
    "apiVersion": "tidegate/v1",
    "kind": "DataContract",
    "id": "hospital.admissions",
    "version": "1.2.0",
    "topic": "hospital.admissions",
    "domain": "hospital",
    "schema": {
        "type": "json-schema",
        "definition": {
            "type": "object",
            "required": ["admission_id", "age"],
            "properties": {
                "admission_id": {"type": "string"},
                "age": {"type": "integer", "minimum": 0},
                "admission_date": {"type": "string", "format": "date"},
                "discharge_date": {"type": ["string", "null"], "format": "date"},
            },
        },
    },
    "rules": [
        {"id": "age-is-known", "kind": "forbidden", "field": "/age", "values": [999]},
        {"id": "stay-not-negative", "kind": "ordered", "fields": ["/admission_date", "/discharge_date"]},
    ],
}

CONTRACT_YAML = """\
apiVersion: tidegate/v1
kind: DataContract
id: hospital.admissions
version: 1.2.0
topic: hospital.admissions
domain: hospital
schema:
  type: json-schema
  definition:
    type: object
    required: [admission_id, age]
    properties:
      admission_id: {type: string}
      age: {type: integer, minimum: 0}
      admission_date: {type: string, format: date}
      discharge_date: {type: [string, "null"], format: date}
rules:
  - {id: age-is-known, kind: forbidden, field: /age, values: [999]}
  - {id: stay-not-negative, kind: ordered, fields: [/admission_date, /discharge_date]}
"""

RECORDS: dict[str, Any] = {
    "records": [
        {"value": {"admission_id": "A-1", "age": 63}},
        {"value": {"admission_id": "A-2", "age": 999}},
        {"value_base64": "eyJhZ2UiOg=="},
    ]
}

EXPECTATION_RESULT: dict[str, Any] = {
    "id": "plausible-mean-stay",
    "type": "expect_column_mean_to_be_between",
    "columns": ["length_of_stay"],
    "outcome": "met",
    "judged_by": "tidegate",
    "considered": 970,
    "unexpected": None,
    "observed": 8.5,
    "agrees": None,
}

REPORT: dict[str, Any] = {
    "stream": "hospital.admissions",
    "topic": "hospital.admissions",
    "quarantine_topic": "hospital.admissions.quarantine",
    "sink": "iceberg:lake.hospital.admissions",
    "epoch": 1,
    "n": 1,
    "contract": "hospital.admissions@1.2.0",
    "fingerprint": "3f5a0d6c1b0e4b8f9f6e2a7c5d4b3a291817161514131211100f0e0d0c0b0a09",
    "started_at": "2026-07-01T12:00:00Z",
    "committed_at": "2026-07-01T12:00:02Z",
    "records": 1000,
    "written": 970,
    "warned": 4,
    "alerted": 0,
    "quarantined": 29,
    "dropped": 1,
    "rules": [{"stage": "rule", "code": "age-is-known", "severity": "error", "records": 30}],
    "expectations": [EXPECTATION_RESULT],
    "shadow": None,
    "start": {"0": 0, "1": 0},
    "end": {"0": 600, "1": 400},
    "lag_records": 0,
    "timings_ms": {"judge": 210, "quarantine": 35, "stage": 300, "publish": 25},
    "table": {"snapshots": 512, "metadata_bytes": 486_211, "data_files": 94},
    "maintenance": {
        "snapshots_expired": 720,
        "files_compacted": 4_120,
        "bytes_compacted": 88_410_032,
        "manifests_rewritten": 0,
        "orphans_removed": 2,
        "orphan_bytes": 61_440,
        "replaced_removed": 0,
        "replaced_bytes": 0,
        "failures": 0,
        "seconds": 3.2,
    },
}
