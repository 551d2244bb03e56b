"""No value of a record leaves the judge but for those who may see it: a secret is planted everywhere and looked for.

The records break every kind of rule, every keyword and every stage of decoding; the secret stands in their values, in
the names of their properties, in keys and in headers.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pytest

from tests.unit.cli.conftest import Run, tidegate
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.explain.account import Explainer
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.stream.counts import rule_counts
from tidegate.contracts.stream.decide import count_evidence
from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers
from tidegate.contracts.verdict import Disposition, Verdict

__all__ = ["tidegate"]

SECRET = "S3CR3T"  # noqa: S105 - it opens nothing
NUMBER = 987_654_321
DATE = "1987-06-05"
TRACES = (SECRET, str(NUMBER), "987,654,321", "9.87654321", DATE, "S3CR")
TEXT = {"type": ["string", "null"]}
FIELDS: dict[str, Any] = {
    **dict.fromkeys(("forbidden", "one_of", "set", "matches", "required", "when", "cel"), TEXT),
    "range": {"type": "number"},
    "bound": {"type": "number"},
    "since": {"type": "string", "format": "date"},
    "until": {"type": "string", "format": "date"},
    "fresh": {"type": "string", "format": "date-time"},
    "lines": {
        "type": "array",
        "items": {"type": "object", "properties": {"low": {}, "n": {"type": "number"}}},
    },
}
RULES: list[dict[str, Any]] = [
    {"kind": "forbidden", "field": "/forbidden", "values": [SECRET]},
    {"kind": "one_of", "field": "/one_of", "values": ["a"]},
    {"kind": "one_of", "field": "/set", "set": "wards"},
    {"kind": "matches", "field": "/matches", "pattern": "^a$"},
    {"kind": "range", "field": "/range", "maximum": 5},
    {"kind": "range", "field": "/since", "after": "2000-01-01"},
    {"kind": "ordered", "fields": ["/until", "/since"]},
    {"kind": "ordered", "fields": ["/range", "/bound"], "strict": True},
    {"kind": "freshness", "field": "/fresh", "max_age": "P1D"},
    {"kind": "required_when", "field": "/required", "when": {"field": "/when", "present": True}},
    {"kind": "range", "field": "/lines/*/n", "maximum": 5},
    {"kind": "cel", "expr": "this.cel == 'a'"},
    {"kind": "cel", "field": "/matches", "expr": "value == 'a'"},
]
BREAKS_RULES = {
    **dict.fromkeys(("forbidden", "one_of", "set", "matches", "when", "cel"), SECRET),
    "range": NUMBER,
    "bound": NUMBER,
    "since": DATE,
    "until": "2020-01-01",
    "fresh": f"{DATE}T00:00:00Z",
    "lines": [{"n": 1}, {"n": NUMBER, SECRET: SECRET}],
}
KEYWORDS: list[tuple[dict[str, Any], Any]] = [
    ({"type": "integer"}, SECRET),
    ({"type": "string"}, {SECRET: SECRET}),
    ({"enum": ["a"]}, SECRET),
    ({"const": "a"}, SECRET),
    ({"minimum": 10**10}, NUMBER),
    ({"exclusiveMinimum": 10**10}, NUMBER),
    ({"maximum": 1}, NUMBER),
    ({"exclusiveMaximum": 1}, NUMBER),
    ({"multipleOf": 2}, NUMBER),
    ({"minLength": 20}, SECRET),
    ({"maxLength": 2}, SECRET),
    ({"pattern": "^a$"}, SECRET),
    ({"format": "date"}, SECRET),
    ({"minItems": 3}, [SECRET]),
    ({"maxItems": 0}, [SECRET]),
    ({"uniqueItems": True}, [SECRET, SECRET]),
    ({"contains": {"const": "a"}}, [SECRET]),
    ({"prefixItems": [{}], "items": False}, [1, SECRET]),
    ({"prefixItems": [{}], "unevaluatedItems": False}, [1, SECRET]),
    ({"minProperties": 3}, {SECRET: SECRET}),
    ({"maxProperties": 0}, {SECRET: SECRET}),
    ({"required": ["a"]}, {SECRET: SECRET}),
    ({"dependentRequired": {SECRET: ["a"]}}, {SECRET: SECRET}),
    ({"properties": {"a": {}}, "additionalProperties": False}, {SECRET: SECRET}),
    ({"unevaluatedProperties": False}, {SECRET: SECRET}),
    ({"additionalProperties": {"type": "integer"}}, {SECRET: SECRET}),
    ({"patternProperties": {"^S": {"type": "integer"}}}, {SECRET: {SECRET: SECRET}}),
    ({"propertyNames": {"maxLength": 1}}, {SECRET: SECRET}),
    ({"anyOf": [{"const": "a"}, {"type": "integer"}]}, SECRET),
    ({"oneOf": [{"const": "a"}, {"type": "integer"}]}, SECRET),
    ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, SECRET),
    ({"not": {"type": "string"}}, SECRET),
    ({"if": {"type": "string"}, "then": {"maxLength": 1}}, SECRET),
    ({"dependentSchemas": {"a": {"maxProperties": 1}}}, {"a": SECRET, SECRET: 1}),
]
PAYLOADS = [
    b'{"a": S3CR3T}',
    b'{"S3CR3T": "S3CR3T"',
    b'"S3CR3T \xff"',
    b'["S3CR3T", NaN]',
    b'["S3CR3T", "\\ud800"]',
    b'["S3CR3T", 9.87654321e9999999999999999999]',
    b'["S3CR3T",' + b"[" * 300 + b"]" * 301,
    b"S3CR3T",
    b"",
]


def document(definition: Any, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "s",
        "version": "1.0.0",
        "topic": "s",
        "schema": {"type": "json-schema", "definition": definition},
        **more,
    }


def cases() -> list[tuple[str, dict[str, Any], bytes]]:
    """A contract, in which all fields are classified, and a record that breaks it."""
    rules = [{"id": f"r{index}", **rule} for index, rule in enumerate(RULES)]
    columns = [{"name": "c", "from": "/range", "type": "decimal(5,2)"}]
    whole = document(
        {"properties": FIELDS},
        rules=rules,
        columns=columns,
        reference_sets={"wards": {"values": ["a"]}},
        classification={f"/{name}": "pii" for name in FIELDS},
    )
    found = [("rules", whole, json.dumps(BREAKS_RULES).encode())]
    found.append(
        (
            "nulls",
            {**whole, "rules": [{**rule, "nulls": "violate"} for rule in rules]},
            b'{"S3CR3T": "S3CR3T"}',
        )
    )
    found.append(("column", {**whole, "rules": []}, b'{"range": 987654321}'))
    for schema, value in KEYWORDS:
        properties = {"properties": {"x": schema}, "required": ["x"]}
        contract = document(
            properties,
            classification={"/x": "pii"},
            columns=[{"name": "x", "from": "/x", "type": "json"}],
        )
        found.append((" ".join(schema), contract, json.dumps({"x": value, SECRET: NUMBER}).encode()))
    open_contract = document({"type": "object", "properties": {"a": {}}}, classification={"/a": "pii"})
    found += [(f"payload {payload[:12]!r}", open_contract, payload) for payload in PAYLOADS]
    found.append(("frame", {**open_contract, "framing": "confluent-prefix"}, b"S3CR3T"))
    return found


CASES = cases()
IDS = [name for name, _, _ in CASES]


def plan_of(contract: dict[str, Any]) -> EnforcementPlan:
    return compile_plan(DataContract.model_validate(contract))


def assert_clean(text: str | bytes) -> None:
    written = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    assert [trace for trace in TRACES if trace in written] == []


@pytest.mark.parametrize(("name", "contract", "value"), CASES, ids=IDS)
def test_evidence_and_counts_hold_no_value(name: str, contract: dict[str, Any], value: bytes) -> None:
    """What goes into the quarantine topic's headers, batch reports and metrics: whatever is classified."""
    plan = plan_of({**contract, "classification": {}})
    verdict = plan.explain(value, typed=True)
    assert verdict.violations, name
    headers = quarantine_headers(EventPointer("s", 0, 1), "ledger", "s@1.0.0", verdict)
    declared_in_schema = "dependentRequired" in name
    if not declared_in_schema:
        assert_clean(repr(headers))
        assert_clean(repr([count.model_dump() for count in rule_counts(count_evidence((verdict,)))]))


@pytest.mark.parametrize(("name", "contract", "value"), CASES, ids=IDS)
def test_sentences_hold_no_value_of_a_classified_field(
    name: str, contract: dict[str, Any], value: bytes
) -> None:
    plan = plan_of(contract)
    told = Explainer.of(plan).explain(value, plan.explain(value, typed=True).violations)
    assert told
    for each in told:
        if "dependentRequired" not in name:
            assert_clean(each.sentence)
        if each.violation.code != "r0":  # its remedy names the sentinel that the contract forbids
            assert_clean(each.passes or "")


def test_every_stage_is_there() -> None:
    """The cases are worth something: each rule and each keyword is broken by one of them."""
    broken: set[str] = set()
    for _, contract, value in CASES:
        broken |= {each.code for each in plan_of(contract).explain(value, typed=True).violations}
    assert {f"r{index}" for index in range(len(RULES))} <= broken
    assert {"c", "json.invalid", "json.invalid-utf8", "json.not-finite", "json.lone-surrogate"} <= broken
    assert {"json.number-range", "json.too-deep", "json.empty", "frame.missing"} <= broken
    keywords = {
        "type",
        "enum",
        "const",
        "minimum",
        "multipleOf",
        "pattern",
        "format",
        "uniqueItems",
        "contains",
    }
    assert keywords | {"required", "additionalProperties", "propertyNames", "anyOf", "oneOf", "not"} <= broken


def test_avro_that_cannot_be_read_leaves_no_trace() -> None:
    definition = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "s", "type": "string"},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
            {"name": "n", "type": "long"},
        ],
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(definition), {"s": SECRET, "e": "A", "n": NUMBER})
    whole = out.getvalue()
    contract = {**document(True), "schema": {"type": "avro", "definition": definition}}
    contract["rules"] = [{"id": "r", "kind": "range", "field": "/n", "maximum": 5}]
    plan = plan_of({**contract, "classification": {"/s": "pii", "/n": "pii"}})
    for value in (whole, whole[:-1], whole[:4], whole + b"S3CR3T", b"S3CR3T" * 5, b""):
        verdict = plan.explain(value, typed=True)
        assert verdict.violations
        assert_clean(repr(quarantine_headers(EventPointer("s", 0, 1), "l", "s@1.0.0", verdict)))
        assert_clean(repr([each.sentence for each in Explainer.of(plan).explain(value, verdict.violations)]))


@pytest.mark.parametrize("options", [(), ("--format=json",)])
def test_the_command_line_prints_no_value_of_a_classified_field(
    tidegate: Run, tmp_path: Path, options: tuple[str, ...]
) -> None:
    for index, (name, contract, value) in enumerate(CASES):
        if b"\n" in value or name == "dependentRequired":
            continue
        path = tmp_path / f"{index}.json"
        rules = [rule for rule in contract.get("rules", ()) if rule["id"] != "r0"]
        path.write_bytes(orjson.dumps({**contract, "rules": rules}))
        ran = tidegate("judge", path, *options, stdin=value + b"\n")
        assert ran.returncode == 1, (name, ran.stderr)
        assert_clean(ran.stdout + ran.stderr)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_api_answers_and_logs_no_value_of_a_classified_field(
    client: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    for index, (name, contract, value) in enumerate(CASES):
        if name == "dependentRequired":
            continue
        rules = [rule for rule in contract.get("rules", ()) if rule["id"] != "r0"]
        published = {**contract, "id": f"s{index}", "topic": f"s{index}", "rules": rules}
        assert client.post("/api/v1/contracts", orjson.dumps(published)).status_code == 201, name
        answer = client.post(
            f"/api/v1/contracts/s{index}/versions/latest/judge", value + b"\n", "application/x-ndjson"
        )
        assert answer.status_code == 200, answer.text
        assert_clean(answer.text)
    judge = "/api/v1/contracts/s0/versions/latest/judge"
    for body in (
        b'{"S3CR3T": 1}',
        b'{"records": [{"S3CR3T": 1}]}',
        b'{"records": [{"value": S3CR3T}]}',
        b'{"records": [{"value_base64": "S3CR3T!"}]}',
        b'{"records": "S3CR3T"}',
        b"S3CR3T",
        b"\xffS3CR3T",
        b'{"records": [{"value": ' + b"[" * 100_000 + b"S3CR3T",
    ):
        answer = client.post(judge, body)
        assert 400 <= answer.status_code < 500, body[:40]
        assert_clean(answer.text)
    said = capfd.readouterr()
    assert "contract_published" in said.out + said.err
    assert_clean(said.out + said.err)


def test_an_accepted_record_says_nothing_either() -> None:
    plan = plan_of(document({"properties": {"a": {}}}))
    assert plan.explain(b'{"a": "S3CR3T"}') == Verdict(Disposition.ACCEPTED)
