"""Files in parts: together they have the records of the whole file, each with its position."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.errors import SettingsError
from tidegate.gateway.sources import file_parts as module
from tidegate.gateway.sources.file_parts import FilePart, FileParts, file_parts, in_tasks, numbered
from tidegate.gateway.sources.files import FileFormat, FileSource


def parts_of(name: Path | str) -> tuple[FileParts, list[FilePart]]:
    files, found = file_parts(str(name), None, (), FileFormat.LINES)
    return files, numbered(files, found, map)


def records_of(files: FileParts, parts: list[FilePart]) -> list[tuple[int, object]]:
    found: list[tuple[int, object]] = []
    for part in parts:
        with files.open(part) as source:
            for chunk in source.chunks():
                found += zip(chunk.positions.tolist(), chunk.batch.to_pylist(), strict=True)
    return found


def whole(path: Path) -> list[tuple[int, object]]:
    with FileSource(path, default=FileFormat.LINES) as source:
        return [
            pair
            for chunk in source.chunks()
            for pair in zip(chunk.positions.tolist(), chunk.batch.to_pylist(), strict=True)
        ]


@settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lines=st.lists(st.binary(max_size=20).map(lambda line: b"{" + line.replace(b"\n", b"")), min_size=1),
    ends=st.booleans(),
    size=st.integers(1, 40),
)
def test_parts_of_lines_have_all_lines_with_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[bytes], *, ends: bool, size: int
) -> None:
    monkeypatch.setattr(module, "_PART_BYTES", size)
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n" * ends)
    files, parts = parts_of(path)
    assert records_of(files, parts) == whole(path)
    assert sum(part.size for part in parts) == path.stat().st_size
    longest = max(map(len, lines))
    assert all(part.size <= size + longest + 1 for part in parts)


def test_parts_of_parquet_are_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records.parquet"
    pq.write_table(pa.table({"n": list(range(10_000))}), path, row_group_size=700)
    monkeypatch.setattr(module, "_PART_BYTES", 8_000)
    files, parts = parts_of(path)
    assert [part.before for part in parts] == [0, 1400, 2800, 4200, 5600, 7000, 8400, 9800]
    assert records_of(files, parts) == whole(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("records.csv", b'a\n"x\ny"\n' * 50),
        ("records.json", b"[" + b"{},\n" * 99 + b"{}]"),
        ("records.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 1_000)),
    ],
    ids=["csv", "json", "gzip"],  # gzip writes the time, and each process must collect the same names
)
def test_what_is_read_from_its_beginning_is_one_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes
) -> None:
    monkeypatch.setattr(module, "_PART_BYTES", 10)
    (tmp_path / name).write_bytes(content)
    files, parts = parts_of(tmp_path / name)
    assert [part.span for part in parts] == [None]
    assert records_of(files, parts) == whole(tmp_path / name)


def test_small_files_are_read_together_and_places_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcd":
        (tmp_path / f"{name}.jsonl").write_bytes(b'{"a": 1}\n' * (1 if name < "d" else 20))
    monkeypatch.setattr(module, "_PART_BYTES", 20)
    files, parts = parts_of(tmp_path)
    tasks = in_tasks(parts)
    assert [[part.path.stem for part in task] for task in tasks[:2]] == [["a", "b"], ["c"]]
    assert {part.path.stem for task in tasks[2:] for part in task} == {"d"}
    with files.open(parts[-1]) as source:
        numbers = [number for chunk in source.chunks() for number in chunk.positions.tolist()]
        assert source.places(numbers[-1:]) == "d.jsonl line 20"


def test_a_worker_that_has_another_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"a": 1}\n')
    files, (part,) = parts_of(path)
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n')
    with pytest.raises(SettingsError, match=r"had 9 bytes, and has 18 on .*: it is written to"):
        files.open(part)
    path.unlink()
    with pytest.raises(SettingsError, match="each executor needs the files under the same path"):
        files.open(part)


def test_files_of_two_formats_are_refused_where_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_bytes(b"{}\n")
    (tmp_path / "2.json").write_bytes(b"[{}]")
    files, parts = parts_of(tmp_path)
    with pytest.raises(SettingsError, match="read files of one format at a time"):
        records_of(files, parts)


@pytest.mark.parametrize("name", ["-", "iceberg:a.b", "postgresql:t", "kafka:t", "table", "nothing.jsonl"])
def test_what_is_no_file_names_the_local_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table/_delta_log").mkdir(parents=True)
    with pytest.raises(SettingsError, match="--spark reads files, folders and patterns of files"):
        parts_of(name)
