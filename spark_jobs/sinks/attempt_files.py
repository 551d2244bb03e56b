"""Names of the data files of an attempt. They hold table and epoch, so that orphan files can be recognized.

A worker writes its files before a commit names them. If the job is killed, they stay behind: the next attempt writes
new files.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO

log = structlog.get_logger()

_NAME: Final = re.compile(r"([0-9a-f]{8})-tidegate-(\d{1,18})-[0-9a-f]{8}-\d+-\d+\.parquet")
_IDENTITY_LENGTH: Final = 8
_LISTED: Final = pa.schema(
    [("file_path", pa.string()), ("last_modified", pa.timestamp("us", "UTC")), ("size", pa.int64())]
)


def attempt_prefix(identity: str, name: str) -> str:
    """Return the prefix of an attempt's file names; `identity` is the table's UUID, `name` contains the epoch."""
    return f"{identity[:_IDENTITY_LENGTH]}-{name}-{uuid4().hex[:8]}"


def attempt_epoch(file_name: str, identity: str) -> int | None:
    """Return the epoch of the attempt that wrote a file; None if another writer or table has the file."""
    found = _NAME.fullmatch(file_name)
    return int(found[2]) if found is not None and found[1] == identity[:_IDENTITY_LENGTH] else None


def files_in(folder: str, properties: dict[str, str], *, recursive: bool = True) -> pa.Table:
    """Return the files of a folder. Columns: file_path, last_modified (UTC), size in bytes.

    The table is empty for a store that PyArrow cannot list. Raises OSError.
    """
    io = load_file_io(properties, folder)
    if not isinstance(io, PyArrowFileIO):
        log.warning("orphans_not_looked_for", table=folder, hint="PyArrow cannot list this store")
        return _LISTED.empty_table()
    scheme, authority, path = io.parse_location(folder)
    selector = FileSelector(path, recursive=recursive, allow_not_found=True)
    found = [
        (f"{folder}{each.path.removeprefix(path)}", each.mtime, each.size)
        for each in io.fs_by_scheme(scheme, authority).get_file_info(selector)
        if each.type == FileType.File
    ]
    columns = list(zip(*found, strict=True)) or [(), (), ()]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _LISTED, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_LISTED)


def older_than(files: pa.Table, seconds: float) -> pa.Table:
    """Return the files that were last modified at least this many seconds ago."""
    latest = pa.scalar(datetime.now(UTC) - timedelta(seconds=seconds), pa.timestamp("us", "UTC"))
    return files.filter(pc.less_equal(files["last_modified"], latest))


def of_earlier_epochs(files: pa.Table, identity: str, epoch: int) -> pa.Table:
    """Return the files of attempts before this epoch. Most of them are published: the caller must check that."""
    epochs = (attempt_epoch(path.rpartition("/")[2], identity) for path in files["file_path"].to_pylist())
    return files.filter(pa.array([of is not None and of < epoch for of in epochs], pa.bool_()))
