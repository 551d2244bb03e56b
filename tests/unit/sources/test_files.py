"""Files of records: every format gives the same records, and none can make the reader keep more than its bounds."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile_avro import HOSTILE, container
from tidegate.contracts.columns.json_rows import json_rows
from tidegate.contracts.errors import SettingsError
from tidegate.gateway.sources import bytes_of_files, csv_rows, json_arrays, source
from tidegate.gateway.sources.bytes_of_files import Expanded
from tidegate.gateway.sources.files import FileFormat, FileSource
from tidegate.gateway.sources.json_arrays import array_elements
from tidegate.gateway.sources.record_files import line_batches

RECORDS = [
    {"id": f"A{index:03d}", "age": index % 90, "note": None if index % 3 else 'a "b", [c]\n'}
    for index in range(500)
]
AVRO = {
    "type": "record",
    "name": "Admission",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "age", "type": "int"},
        {"name": "note", "type": ["null", "string"]},
    ],
}


def write_lines(path: Path) -> None:
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in RECORDS))


def write_zst(path: Path) -> None:
    with pa.CompressedOutputStream(pa.OSFile(str(path), "w"), "zstd") as file:
        file.write(b"\n".join(map(orjson.dumps, RECORDS)))


def write_avro(path: Path) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, AVRO, RECORDS, codec="deflate", sync_interval=1_000)


TEXTS = st.text(alphabet='ab"\\[]{},é', max_size=6)

WRITERS = {
    "a.jsonl": write_lines,
    "b.json": lambda path: path.write_text(json.dumps(RECORDS, indent=1)),
    "c.jsonl.gz": lambda path: path.write_bytes(gzip.compress(b"\n".join(map(orjson.dumps, RECORDS)))),
    "d.jsonl.zst": write_zst,
    "e.parquet": lambda path: pq.write_table(pa.Table.from_pylist(RECORDS), path),
    "f.avro": write_avro,
}


def read(path: Path, **options: Any) -> list[Any]:
    found: list[Any] = []
    with FileSource(path, **options) as opened:
        positions = []
        for chunk in opened.chunks():
            positions += chunk.positions.tolist()
            if chunk.batch.schema.names != ["value"]:
                found += map(orjson.loads, json_rows(chunk.batch, lambda _pointer: False).to_pylist())
            elif opened.avro_schema is not None:
                found += [
                    fastavro.schemaless_reader(io.BytesIO(value), opened.avro_schema, None)
                    for value in chunk.batch.column(0).to_pylist()
                ]
            else:
                found += map(orjson.loads, chunk.batch.column(0).to_pylist())
    assert positions == list(range(1, len(found) + 1))
    return found


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_records(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    assert read(tmp_path / name) == RECORDS


@pytest.mark.parametrize("spans", [[None], [range(29), range(29, 55)]], ids=["whole", "in parts"])
def test_a_byte_order_mark_belongs_to_the_file_and_not_to_its_first_record(
    tmp_path: Path, spans: list[range | None]
) -> None:
    """Programs of Windows write one."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": 1, "note": "x"}   \n{"id": 2, "note": "y"}   \n')
    found = [record for span in spans for record in read(path, span=span)]
    assert found == [{"id": 1, "note": "x"}, {"id": 2, "note": "y"}]


def test_a_byte_order_mark_within_a_file_is_a_part_of_its_record(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id": 1}\n\xef\xbb\xbf{"id": 2}\n')
    with FileSource(path) as opened:
        values = [value for chunk in opened.chunks() for value in chunk.batch.column(0).to_pylist()]
    assert values == [b'{"id": 1}', b'\xef\xbb\xbf{"id": 2}']


def test_cells_of_csv_are_texts_and_empty_ones_null(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id;age;note\n007;1;"a;b\nc"\n008;;NA\n')
    assert read(path, nulls=["NA"]) == [
        {"id": "007", "age": "1", "note": "a;b\nc"},
        {"id": "008", "age": None, "note": None},
    ]


def test_the_separator_that_excel_names_in_a_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfsep=;\r\nid;a, b, c\r\n1;x\r\n")
    assert read(path) == [{"id": "1", "a, b, c": "x"}]
    path.write_bytes(b'sep=;\nid;a\n1;"x\n')
    with pytest.raises(SettingsError, match=r"a\.csv line 3: a quote"):
        read(path)


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ("id\ta\r\n1\tx\r\n".encode("utf-16"), "iconv -f utf-16 -t utf-8"),
        (b"id,a\r1,x\r", "lines end with CR alone"),
        (b"id,\xe9\n1,x\n", "iconv -f latin1 -t utf-8"),
    ],
)
def test_a_header_that_cannot_be_read_says_how_to_convert_the_file(
    tmp_path: Path, content: bytes, advice: str
) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(SettingsError, match=advice):
        read(tmp_path / "a.csv")


def test_a_wide_header_or_one_of_several_lines_names_every_column(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    names = [*(f"a_column_with_the_number_{index}" for index in range(400)), "two\nlines"]
    path.write_text(",".join(f'"{each}"' for each in names) + "\n" + "007," * 400 + "1.0\n")
    assert read(path) == [dict.fromkeys(names, "007") | {"two\nlines": "1.0"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,a,a\n1,2,3\n", "a.csv: columns 2 and 3 of the header are both named `a`"),
        ("id,,\n1,2,3\n", "a.csv: columns 2 and 3 of the header have no name"),
        ('id,a\n1,x\n2,"y\n3,z\n', "a.csv line 3: a quote at the beginning of a cell is never closed"),
        ('id,a\n1,x\n2,"y', "a.csv line 3: a quote at the beginning of a cell is never closed"),
        ('id,a\n2,"y\n3,z\n4,"u"\n5,v\n', "a.csv line 2: a quote at the beginning of a cell ends on line 4"),
        ('id,"a\n1,x\n', "a.csv line 1: a quote at the beginning of a cell is never closed"),
    ],
)
def test_no_column_and_no_line_of_a_csv_is_lost_in_silence(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(SettingsError, match=re.escape(message)):
        read(tmp_path / "a.csv")


CELLS = st.sampled_from(["", "a", '"', '""', '"a', 'a"b', ",", "\n", "\r\n", ' "x', '",', 'x"\n"y', "é"])


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8), st.integers(1, 9), st.booleans())
def test_quotes_of_a_csv_are_followed_whatever_the_blocks(
    rows: list[tuple[str, str]], block: int, quotes_all: bool
) -> None:
    text = io.StringIO()
    quoting = csv.QUOTE_ALL if quotes_all else csv.QUOTE_MINIMAL
    csv.writer(text, quoting=quoting).writerows([("one", "two"), *rows])
    content = text.getvalue().encode()
    for data, has_flaw in ((content, False), (content + b'x,"y\n', True), (content + b'"y\nx"y,z\n', True)):
        found = csv_rows._Text(io.BufferedReader(io.BytesIO(data)), "a.csv")
        assert b"".join(iter(partial(found.read, block), b"")) == data
        if not has_flaw:
            found.require_closed_quotes()
        else:
            with pytest.raises(SettingsError, match=f"line {content.count(bytes([10])) + 1:,}:"):
                found.require_closed_quotes()


def test_a_row_that_is_not_utf_8_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,a\n1,x\n2,\xe9\n3\n4,\xc3\xa9\n")
    with FileSource(tmp_path / "a.csv") as source:
        (chunk,) = source.chunks()
    assert chunk.positions.tolist() == [1, 4]
    assert chunk.batch.to_pylist() == [{"id": "1", "a": "x"}, {"id": "4", "a": "é"}]
    assert [(each.position, each.pointer) for each in chunk.unreadable] == [(2, "/a"), (3, "")]


def test_a_file_is_known_by_its_content_whatever_its_name(tmp_path: Path) -> None:
    write_avro(tmp_path / "records")
    with FileSource(tmp_path / "records") as opened:
        assert (opened.format, opened.places([3, 4])) == (FileFormat.AVRO, "records 3, 4")


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"PAR1 is no Parquet", b"Obj\x01 is no container", b'[{"a": 1}, {"b"']
)
def test_other_files_are_refused_with_a_reason(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match="file"):
        read(path)


def test_a_file_that_expands_beyond_bounds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytes_of_files, "_ALWAYS_ALLOWED", 1 << 20)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b"\0" * (4 << 20)))
    with pytest.raises(SettingsError, match="expands to more than 250 times its size"):
        read(path)


@pytest.mark.parametrize(("schema", "payload"), HOSTILE)
def test_a_container_with_hostile_records_is_refused(
    tmp_path: Path, schema: dict[str, Any], payload: bytes
) -> None:
    (tmp_path / "a.avro").write_bytes(container(schema, payload))
    with pytest.raises(SettingsError, match=r"a\.avro is damaged: a value (is nested deeper|holds an array)"):
        read(tmp_path / "a.avro")


def test_a_container_that_counts_more_records_than_its_bytes_hold_is_refused(tmp_path: Path) -> None:
    empty = {"type": "record", "name": "Empty", "fields": []}
    (tmp_path / "a.avro").write_bytes(container(empty, b"", 3))
    assert len(read(tmp_path / "a.avro")) == 3
    (tmp_path / "a.avro").write_bytes(container(empty, b"", 1 << 50))
    with pytest.raises(SettingsError, match="a block of 0 bytes counts 1,125,899,906,842,624 records"):
        read(tmp_path / "a.avro")


def test_a_damaged_compressed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(random.Random(1).randbytes(5_000))[:3_000])  # noqa: S311 - bytes that do not compress
    with pytest.raises(SettingsError, match="cut"):
        read(path)


@given(
    st.lists(
        st.recursive(
            st.none() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=5
        ),
        max_size=5,
    ),
    st.integers(1, 9),
)
def test_elements_of_arrays_are_found_whatever_the_blocks(values: list[Any], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_arrays, "_BLOCK", block)
        text = b" [" + b" , ".join(map(orjson.dumps, values)) + b"]"
        found = [element for some in array_elements(io.BytesIO(text), "x") for element in some]
    assert list(map(orjson.loads, found)) == values


@given(st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"x"))), st.integers(1, 9))
def test_a_line_that_is_too_long_becomes_none(lines: list[bytes], step: int) -> None:
    class Steps(io.BytesIO):
        def read1(self, _size: int | None = -1) -> bytes:
            return self.read(step)

    text = b"".join(line + b"\n" for line in lines)
    found = [line for batch in line_batches(Steps(text), 12) for line in batch]
    assert all(
        kept == line or (kept is None and len(line) + 1 > 12 - step)
        for line, kept in zip(lines, found, strict=True)
    )


def test_a_last_line_that_is_too_long_becomes_none() -> None:
    class Steps(io.BytesIO):
        def read1(self, _size: int | None = -1) -> bytes:
            return self.read(5)

    assert list(line_batches(Steps(b"a\n" + b"x" * 30), 12)) == [[b"a"], [None]]


def test_a_record_that_is_too_long_is_unreadable_at_its_place() -> None:
    chunks = list(source.value_chunks(iter([[b"1", b"2"], [None, b"4"], [b"5"], [None]])))
    assert [chunk.batch.column(0).to_pylist() for chunk in chunks if len(chunk.positions)] == [
        [b"1", b"2"],
        [b"4", b"5"],
    ]
    assert np.concatenate([chunk.positions for chunk in chunks]).tolist() == [1, 2, 4, 5]
    unreadable = [each for chunk in chunks for each in chunk.unreadable]
    assert [(each.position, each.reason) for each in unreadable] == [
        (3, "is longer than 67,108,864 bytes"),
        (6, "is longer than 67,108,864 bytes"),
    ]
    assert [chunk.last for chunk in chunks] == [2, 3, 5, 6]


def test_batches_are_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BATCH_BYTES", 1_000)
    chunks = list(source.value_chunks(iter([[b"x" * 400] * 10])))
    assert [len(chunk.positions) for chunk in chunks] == [3, 3, 3, 1]
    assert np.concatenate([chunk.positions for chunk in chunks]).tolist() == list(range(1, 11))


def test_expanding_stops_at_the_bound_not_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytes_of_files, "_ALWAYS_ALLOWED", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\0" * (4 << 20)))
    with path.open("rb") as file:
        stream = Expanded(file, "gzip", "bomb.gz")
        with pytest.raises(SettingsError, match="expands"):
            stream.readall()
        assert stream._written <= (1 << 20) + (1 << 16)
