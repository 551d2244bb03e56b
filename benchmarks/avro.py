"""How fast Avro is judged beside JSON, and what many versions in one topic cost: processor time on one core, without Spark.

The records are the demo's admissions, once as JSON and once as Avro with the same fields; the rules are the same.
Each of the versions is a schema of its own: it has another name of a field of the writer, or another order of fields.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import fastavro
import orjson
import pyarrow as pa

from benchmarks.admissions_data import contract, values
from benchmarks.figures import Figure, interleaved_seconds, run_on_records
from tidegate.contracts.document.model import AvroSchema, DataContract
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan

VERSIONS: Final = 1_000
BATCH: Final = 20_000
"""The records of one Arrow batch, as in Spark."""


def main() -> None:
    """Measure, print and write the figures."""
    run_on_records(__doc__, measure, records=200_000, rounds=7)


def measure(records: int, rounds: int) -> list[Figure]:
    """Return the figures of the same records as JSON and as Avro, with one schema version and with many."""
    documents = [value for value in values(records) if value[-1:] == b"}" and _is_whole(value)]
    json_plan, avro_plan = compile_plan(contract()), compile_plan(avro_contract("none"))
    schemas = [writer_schema(number) for number in range(VERSIONS)]
    written = [fastavro.parse_schema(orjson.loads(each.text)) for each in schemas]
    decoded = [_record(document) for document in documents]
    avro = [_encoded(written[0], record) for record in decoded]
    mixed = [
        _prefix(index % VERSIONS) + _encoded(written[index % VERSIONS], record)
        for index, record in enumerate(decoded)
    ]
    alone = [_prefix(0) + payload for payload in avro]
    prefixed = compile_plan(avro_contract("confluent-prefix")).with_writers(
        WriterSchemas(tuple(schemas), is_current=True)
    )
    json_schemas = tuple(
        WriterSchema(each.id, each.guid, "json-schema", '{"type":"object"}') for each in schemas
    )
    json_prefixed = compile_plan(contract().model_copy(update={"framing": "confluent-prefix"})).with_writers(
        WriterSchemas(json_schemas, is_current=True)
    )
    json_alone = [_prefix(0) + document for document in documents]
    json_mixed = [_prefix(index % VERSIONS) + document for index, document in enumerate(documents)]
    _require_same_verdicts(json_plan, documents, (avro_plan, avro), (prefixed, alone), (prefixed, mixed))
    _require_same_verdicts(json_plan, documents, (json_prefixed, json_alone), (json_prefixed, json_mixed))
    cases = {
        "json": _judging(json_plan, documents),
        "json_typed": _judging(json_plan, documents, typed=True),
        "avro": _judging(avro_plan, avro),
        "avro_typed": _judging(avro_plan, avro, typed=True),
        "avro_one_version": _judging(prefixed, alone),
        "avro_many_versions": _judging(prefixed, mixed),
        "json_one_version": _judging(json_prefixed, json_alone),
        "json_many_versions": _judging(json_prefixed, json_mixed),
    }
    rates = {
        name: len(documents) / seconds
        for name, seconds in interleaved_seconds(cases, rounds, time.process_time).items()
    }
    unit = "records/s"
    return [
        Figure.of("avro_over_json", rates["avro"], unit, rates["json"]),
        Figure.of("avro_typed_over_json_typed", rates["avro_typed"], unit, rates["json_typed"]),
        Figure.of(
            "thousand_avro_versions_over_one", rates["avro_many_versions"], unit, rates["avro_one_version"]
        ),
        Figure.of(
            "thousand_json_versions_over_one", rates["json_many_versions"], unit, rates["json_one_version"]
        ),
        Figure.of("prefixed_json_over_bare", rates["json_one_version"], unit, rates["json"]),
    ]


def avro_contract(framing: str) -> DataContract:
    """Return the admissions contract with an Avro schema, which has dates and a decimal charge."""
    return contract().model_copy(
        update={"framing": framing, "schema_": AvroSchema(type="avro", definition=SCHEMA)}
    )


def writer_schema(number: int) -> WriterSchema:
    """Return a writer schema: number 0 is that of the contract; others add a field and rotate the order of the rest."""
    fields = SCHEMA["fields"]
    if number:
        turned = fields[number % len(fields) :] + fields[: number % len(fields)]
        fields = [*turned, {"name": f"added_in_{number}", "type": "int"}]
    return WriterSchema(number, UUID(int=number), "avro", json.dumps({**SCHEMA, "fields": fields}))


_DAY: Final = {"type": "int", "logicalType": "date"}
SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Admission",
    "fields": [
        {"name": "patient_id", "type": "string"},
        {"name": "hospital_id", "type": "string"},
        {"name": "age", "type": "int"},
        {"name": "sex", "type": {"type": "enum", "name": "Sex", "symbols": ["F", "M", "X"]}},
        {"name": "admission_date", "type": _DAY},
        {"name": "discharge_date", "type": _DAY},
        {"name": "length_of_stay", "type": "int"},
        {"name": "ward", "type": "string"},
        {"name": "diagnosis_codes", "type": {"type": "array", "items": "string"}},
        {
            "name": "address",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [{"name": "postcode", "type": "string"}, {"name": "country", "type": "string"}],
            },
        },
        {
            "name": "charge",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        },
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


def _is_whole(document: bytes) -> bool:
    """Return whether a document has a representation in Avro; some refused documents of the demo have none."""
    try:
        return bool(_encoded(fastavro.parse_schema(SCHEMA), _record(document)))
    except Exception:  # noqa: BLE001 - whatever it is, Avro has no such value
        return False


def _record(document: bytes) -> dict[str, Any]:
    record: dict[str, Any] = orjson.loads(document)
    for name in ("admission_date", "discharge_date"):
        record[name] = date.fromisoformat(record[name])
    record["charge"] = Decimal(repr(record["charge"]))
    return record


def _encoded(schema: Any, record: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    added = schema["fields"][-1]["name"]
    fastavro.schemaless_writer(file, schema, record if added in record else {**record, added: 7})
    return file.getvalue()


def _prefix(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")


def _judging(plan: EnforcementPlan, records: list[bytes], *, typed: bool = False) -> Callable[[], object]:
    whole = pa.array(records, pa.binary())
    batches = [whole.slice(start, BATCH) for start in range(0, len(whole), BATCH)]
    judge = plan.judge_typed if typed else plan.judge
    return lambda: [judge(batch) for batch in batches]


def _require_same_verdicts(
    plan: EnforcementPlan, records: list[bytes], *others: tuple[EnforcementPlan, list[bytes]]
) -> None:
    """Raise AssertionError if the dispositions differ between the encodings."""
    expected = plan.judge(pa.array(records, pa.binary())).field("disposition")
    for other, same in others:
        found = other.judge(pa.array(same, pa.binary())).field("disposition")
        if not found.equals(expected):
            raise AssertionError("the same records get other verdicts in another encoding")


if __name__ == "__main__":
    main()
