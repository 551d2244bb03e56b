"""Avro: what is read is what fastavro and Apache's own library read; the quick way says what the strict one says."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from avro.io import BinaryDecoder, DatumReader
from avro.schema import parse as parse_apache
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tests.property.avro_worlds import data, encoded, evolved, schemas
from tidegate.contracts.document.model import AvroSchema
from tidegate.contracts.fastpath.avro_reader import DOUBTS, compile_quick_reader
from tidegate.contracts.formats.avro import AvroFormat
from tidegate.contracts.formats.avro_nodes import resolve
from tidegate.contracts.formats.avro_reader import ResolvedReader
from tidegate.contracts.formats.avro_types import graph
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.verdict import Stage, Violation

BOUNDED = settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def parsed(schema: Any) -> tuple[Any, dict[str, Any]]:
    named: dict[str, Any] = {}
    return fastavro.parse_schema(schema, named_schemas=named), named


def read_bare(schema: Any, payload: bytes) -> Any:
    (record,) = AvroFormat(AvroSchema(type="avro", definition=schema)).decode(Framed(pa.array([payload])))
    return record


def read_as(writer: Any, reader: Any, payload: bytes) -> Any:
    return (
        AvroFormat(AvroSchema(type="avro", definition=reader))
        .written_with(json.dumps(writer))
        .record(payload)
    )


def comparable(value: Any) -> Any:
    """Numbers as the nearest float of 32 bits, for others keep an int that is promoted to a float as it is.

    Bytes as text: fastavro gives a default of bytes as the text of the schema.
    """
    match value:
        case dict():
            return {name: comparable(each) for name, each in value.items()}
        case list():
            return [comparable(each) for each in value]
        case bool():
            return value
        case bytes():
            return value.decode("latin-1")
        case int() | float():
            return _float32(value)
        case _:
            return value


def _float32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float(value)


@BOUNDED
@given(st.data())
def test_whatever_fastavro_writes_is_read_as_it_reads_it(choose: st.DataObject) -> None:
    schema = choose.draw(schemas())
    ready, named = parsed(schema)
    datum = choose.draw(data(ready, named))
    payload = encoded(ready, datum)
    assert read_bare(schema, payload) == fastavro.schemaless_reader(io.BytesIO(payload), ready, None)


@BOUNDED
@given(st.data())
def test_a_record_is_resolved_as_fastavro_resolves_it(choose: st.DataObject) -> None:
    writer = choose.draw(schemas())
    reader = choose.draw(evolved(writer))
    ready, named = parsed(writer)
    payload = encoded(ready, choose.draw(data(ready, named)))
    found = read_as(writer, reader, payload)
    try:
        expected = fastavro.schemaless_reader(io.BytesIO(payload), ready, parsed(reader)[0])
    except Exception:  # noqa: BLE001 - whatever it raises, it does not read the datum
        event("refused")
        is_refused = type(found) is Violation and found.stage is Stage.DECODE
        assert is_refused and found.code in {"avro.unreadable", "avro.invalid-utf8"}  # noqa: PT018 - the other library's error is no subject here
    else:
        assert comparable(found) == comparable(expected)


@BOUNDED
@given(st.data())
def test_a_record_is_resolved_as_apache_resolves_it(choose: st.DataObject) -> None:
    writer = choose.draw(schemas())
    reader = choose.draw(evolved(writer))
    ready, named = parsed(writer)
    payload = encoded(ready, choose.draw(data(ready, named)))
    assume("aliases" not in json.dumps(reader))  # Apache's Python library knows none
    apache = DatumReader(parse_apache(json.dumps(writer)), parse_apache(json.dumps(reader)))
    found = read_as(writer, reader, payload)
    try:
        expected = apache.read(BinaryDecoder(io.BytesIO(payload)))
    except Exception:  # noqa: BLE001 - the same
        event("refused")
    else:
        if type(found) is Violation:  # it looks at the items of arrays only when there are some
            with pytest.raises(Exception):  # noqa: B017, PT011 - whatever fastavro raises
                fastavro.schemaless_reader(io.BytesIO(payload), ready, parsed(reader)[0])
            return
        assert comparable(found) == comparable(expected)


@BOUNDED
@given(st.data())
def test_what_the_quick_way_reads_is_what_the_strict_way_reads(choose: st.DataObject) -> None:
    writer = choose.draw(schemas())
    reader = choose.draw(st.one_of(st.just(writer), evolved(writer)))
    ready, named = parsed(writer)
    payload = bytearray(encoded(ready, choose.draw(data(ready, named))))
    for _ in range(choose.draw(st.integers(0, 3))):
        place = choose.draw(st.integers(0, len(payload)))
        change = choose.draw(st.sampled_from(["cut", "put", "set"]))
        if change == "put":
            payload.insert(place, choose.draw(st.integers(0, 255)))
        elif place < len(payload):
            payload[place : place + 1] = b"" if change == "cut" else bytes([choose.draw(st.integers(0, 255))])
    types = graph(ready)
    node = resolve(types, types if reader is writer else graph(parsed(reader)[0]))
    strict = ResolvedReader(node).record(bytes(payload))
    try:
        quick = compile_quick_reader(node)(bytes(payload))
    except DOUBTS:
        event("doubt")
    else:
        assert type(strict) is not Violation
        assert quick == strict


@BOUNDED
@given(st.data())
def test_most_of_what_is_good_goes_the_quick_way(choose: st.DataObject) -> None:
    schema = choose.draw(schemas())
    ready, named = parsed(schema)
    payload = encoded(ready, choose.draw(data(ready, named)))
    types = graph(ready)
    node = resolve(types, types)
    assert compile_quick_reader(node)(payload) == ResolvedReader(node).record(payload)


@pytest.mark.parametrize("wrong", [None, b""])
def test_a_null_and_nothing_are_doubts(wrong: bytes | None) -> None:
    types = graph(parsed("long")[0])
    with pytest.raises(DOUBTS):
        compile_quick_reader(resolve(types, types))(wrong)
