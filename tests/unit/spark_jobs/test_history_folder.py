"""The folder of copies, and the files that a history is loaded from; without Spark."""

from __future__ import annotations

import gzip
import os
import shutil
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from tidegate.contracts.errors import SettingsError, StreamStopped, Unavailable
from tidegate.contracts.stream.history import (
    HISTORY_PARTITION,
    HistoryLoad,
    HistoryManifest,
    HistoryMark,
    HistoryPart,
)
from tidegate.contracts.stream.positions import Positions
from tidegate.spark_jobs.history.folder import HistoryFolder
from tidegate.spark_jobs.history.inputs import files_of, with_digests
from tidegate.spark_jobs.history.load import kind_of_file
from tidegate.spark_jobs.settings import SinkSettings


@pytest.fixture
def folder(tmp_path: Path) -> HistoryFolder:
    return HistoryFolder(SinkSettings(bootstrap_servers="none:1", warehouse=tmp_path), "orders")


def load(folder: HistoryFolder, *records: int) -> HistoryManifest:
    """Add a load with parts of so many records."""
    path = folder.new_load()
    path.mkdir()
    parts = []
    for number, count in enumerate(records):
        (path / f"{number}.parquet").write_bytes(b"x" * count)
        parts.append(HistoryPart(path=f"{path.name}/{number}.parquet", records=count, size=count))
    found = HistoryLoad(id=path.name, at=datetime.now(UTC), inputs=(), parts=tuple(parts))
    return folder.add(folder.read_or_new(), found)


def test_loads_are_added_and_one_of_two_runs_wins(folder: HistoryFolder) -> None:
    assert folder.read() is None
    first = load(folder, 3, 2)
    assert folder.read() == first
    second = load(folder, 4)
    assert (folder.read(), second.id, second.end) == (second, first.id, 9)
    with pytest.raises(Unavailable, match="another run has loaded the history of orders"):
        folder.add(first, second.loads[1])
    assert sorted(each.name for each in folder.path.glob("*.json")) == [
        "manifest-000001.json",
        "manifest-000002.json",
    ]
    load(folder, 1)
    assert len([*folder.path.glob("*.json")]) == 2


def test_what_a_crashed_run_has_left_is_removed_a_day_later(folder: HistoryFolder) -> None:
    load(folder, 1)
    kept, left, young = (folder.new_load() for _ in range(3))
    for each in (left, young):
        each.mkdir()
    day_ago = datetime.now(UTC).timestamp() - 25 * 3600
    os.utime(left, (day_ago, day_ago))
    for each in folder.path.glob("load-000000-*"):
        os.utime(each, (day_ago, day_ago))
    folder.new_load()
    assert (left.exists(), young.exists(), kept.exists()) == (False, True, False)
    manifest = folder.read()
    assert manifest is not None
    folder.require_whole(manifest, 0)


def test_parts_that_are_gone_are_known(folder: HistoryFolder) -> None:
    manifest = load(folder, 3, 2, 4)
    (mark,) = manifest.marks
    assert folder.held(mark, 8) == (0, Positions((HISTORY_PARTITION, offset) for offset in range(8)))
    (folder.path / manifest.loads[0].parts[1].path).unlink()
    assert folder.held(mark, 9) == (5, Positions((HISTORY_PARTITION, offset) for offset in range(5, 9)))
    assert folder.held(HistoryMark(load="another", end=9), 9) == folder.held(None, 9) == (9, Positions())
    folder.require_whole(manifest, 5)
    with pytest.raises(StreamStopped, match=r"1\.parquet is missing: .* not judged yet"):
        folder.require_whole(manifest, 4)
    (folder.path / manifest.loads[0].parts[2].path).write_bytes(b"")
    with pytest.raises(StreamStopped, match=r"2\.parquet has another size"):
        folder.require_whole(manifest, 5)
    assert folder.has_copies()
    shutil.rmtree(folder.path / manifest.loads[0].id)
    assert (folder.has_copies(), folder.held(mark, 9)) == (False, (9, Positions()))


def test_files_are_found_by_path_pattern_and_folder(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.csv", "_SUCCESS", ".b.crc", "below/c.jsonl", "_temporary/d.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    names = [each.name for each in files_of((str(tmp_path), str(tmp_path / "*.csv")))]
    assert names == [str(tmp_path / name) for name in ("a.csv", "b.jsonl", "below/c.jsonl")]
    (found,) = with_digests(files_of((str(tmp_path / "a.csv"),)))
    assert (found.size, found.sha256) == (5, sha256(b"a.csv").hexdigest())
    assert found.is_like(files_of((str(tmp_path / "a.csv"),))[0])
    for name in ("none", "*.avro", "s3://bucket/a.jsonl"):
        with pytest.raises(SettingsError):
            files_of((name,))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", b"{}\n", ("lines", "")),
        ("a.b.NDJSON.gz", gzip.compress(b"{}\n", mtime=0), ("lines", "")),
        ("a.csv", b"\xef\xbb\xbfid;n\r\n1;2\n", ("csv", "id;n")),
        ("a.tsv.gz", gzip.compress(b"id\tn\n", mtime=0), ("csv", "id\tn")),
        ("a.parquet", b"PAR1", ("parquet", "")),
    ],
)
def test_a_file_is_known_by_its_name(
    tmp_path: Path, name: str, content: bytes, expected: tuple[str, str]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert kind_of_file(tmp_path / name) == expected


@pytest.mark.parametrize("name", ["a", "a.gz", "a.xlsx", "a.parquet.gz", "a.json"])
def test_other_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b" [1]")
    with pytest.raises(SettingsError, match=r"jsonl|jq"):
        kind_of_file(tmp_path / name)
