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


@BOUNDED
@given(st.data())
def test_avros_own_json_encoding_is_read(drawn: st.DataObject) -> None:
    schema = drawn.draw(record_schemas())
    text_of_schema = json.dumps(schema)
    # fastavro cannot write these as JSON: records without fields, and types that hold themselves.
    assume('"fields": []' not in text_of_schema and '"next"' not in text_of_schema)
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(schema, named_schemas=named)
    datum = drawn.draw(data(parsed, named))
    assume(finite(datum))
    text = io.StringIO()
    fastavro.json_writer(text, parsed, [datum])
    record = decode_exactly(text.getvalue().encode())
    payload = AvroEncoder(schema, is_avro_json=True).encode(record)
    # Not byte for byte: fastavro writes the members of a map in blocks of its own.
    assert read(parsed, payload) == read(parsed, encoded(parsed, datum))


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
