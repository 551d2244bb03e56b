"""JSON that becomes Avro: what fastavro writes as JSON, and what Tidegate does, is the record that it came from."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import fastavro
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tests.property.avro_worlds import data, encoded, schemas
from tidegate.contracts.columns.json_rows import json_record
from tidegate.contracts.formats.avro_encoder import AvroEncoder
from tidegate.contracts.formats.json_records import decode_exactly

BOUNDED = settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def record_schemas() -> st.SearchStrategy[Any]:
    return schemas().map(
        lambda kind: {"type": "record", "name": "Root", "fields": [{"name": "value", "type": kind}]}
    )


def finite(value: Any) -> bool:
    match value:
        case dict():
            return all(map(finite, value.values()))
        case list():
            return all(map(finite, value))
        case float():
            return math.isfinite(value)
        case _:
            return True


def read(schema: Any, payload: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(payload), schema, None)


PYTHON = {"null": type(None), "boolean": bool, "long": int, "string": str, "bytes": bytes, "record": dict}


def in_avros_json(kind: Any, named: dict[str, Any], value: Any) -> Any:
    """Return a datum in Avro's JSON encoding. Source: Apache Avro 1.12 specification, "JSON Encoding"."""
    kind = named.get(kind, kind) if isinstance(kind, str) else kind
    name = kind if isinstance(kind, str) else kind["type"] if isinstance(kind, dict) else "union"
    match name:
        case "union":
            # No two branches of these schemas have values of one Python type.
            branch = next(each for each in kind if isinstance(value, PYTHON[of_branch(each, named)]))
            tag = branch if isinstance(branch, str) else branch["name"]
            return None if branch == "null" else {tag: in_avros_json(branch, named, value)}
        case "record":
            return {
                each["name"]: in_avros_json(each["type"], named, value[each["name"]])
                for each in kind["fields"]
            }
        case "array":
            return [in_avros_json(kind["items"], named, each) for each in value]
        case "map":
            return {key: in_avros_json(kind["values"], named, each) for key, each in value.items()}
        case "bytes" | "fixed":
            return value.decode("latin-1")
        case _:
            return value


def of_branch(branch: Any, named: dict[str, Any]) -> str:
    found = named.get(branch, branch) if isinstance(branch, str) else branch
    name: str = found if isinstance(found, str) else found["type"]
    return name


@BOUNDED
@given(st.data())
def test_avros_own_json_encoding_is_read(drawn: st.DataObject) -> None:
    schema = drawn.draw(record_schemas())
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(schema, named_schemas=named)
    datum = read(parsed, encoded(parsed, drawn.draw(data(parsed, named))))
    assume(finite(datum))
    text = json.dumps(in_avros_json(parsed, named, datum))
    payload = AvroEncoder(schema, is_avro_json=True).encode(decode_exactly(text.encode()))
    # Not byte for byte: fastavro writes the members of a map in blocks of its own.
    assert read(parsed, payload) == datum


@BOUNDED
@given(st.data())
def test_plain_json_is_the_record_that_it_was_made_from(drawn: st.DataObject) -> None:
    schema = drawn.draw(record_schemas())
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(schema, named_schemas=named)
    datum = read(parsed, encoded(parsed, drawn.draw(data(parsed, named))))
    assume(finite(datum))
    text = json_record(datum, lambda _pointer: False)
    payload = AvroEncoder(schema).encode(decode_exactly(text))
    assert json.loads(json_record(read(parsed, payload), lambda _pointer: False)) == json.loads(text)
