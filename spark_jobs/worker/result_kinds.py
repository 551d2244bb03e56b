"""The kinds of results that workers return for a batch: each is a class, and a struct column of RESULT.

A row of RESULT holds one result: the column of its kind is set, and the others are null.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, TypeVar, get_type_hints

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from tidegate.contracts.stream.decide import FailedRecord


@dataclass(frozen=True, slots=True)
class RecordCount:
    """Number of records of a source partition with this disposition and these failed slots."""

    partition: int
    disposition: int
    failed: bytes | None
    records: int


@dataclass(frozen=True, slots=True)
class BytesRead:
    """Bytes of keys, values and headers that were read of a source partition."""

    partition: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DroppedBitmap:
    """Offsets of a source partition whose records the contract drops, as a Roaring bitmap of 64 bits."""

    partition: int
    bitmap: bytes


@dataclass(frozen=True, slots=True)
class MarkedRows:
    """Marks of the primary keys of written rows, packed by `KeyMarks`."""

    packed: bytes


@dataclass(frozen=True, slots=True)
class AcceptedPart:
    """A complete part of accepted rows: a file name, or another name that the target returns."""

    name: str


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """A complete file of refused records."""

    name: str


@dataclass(frozen=True, slots=True)
class ExpectationPartials:
    """The aggregates of a task's accepted rows for the expectations, pickled."""

    pickled: bytes


@dataclass(frozen=True, slots=True)
class LibraryRows:
    """Accepted rows for Great Expectations, as an Arrow stream."""

    stream: bytes


@dataclass(frozen=True, slots=True)
class ShadowFound:
    """The comparison with the shadow version of the contract, a `ShadowResult` as JSON."""

    json: bytes


@dataclass(frozen=True, slots=True)
class AcceptedPiece:
    """Accepted records that are passed through Spark, an Arrow stream of RECORDS. `number` is unique in the batch."""

    number: int
    records: bytes


@dataclass(frozen=True, slots=True)
class RefusedPiece:
    """Refused records that are passed through Spark, an Arrow stream of REFUSED. `number` is unique in the batch."""

    number: int
    records: bytes


Piece = AcceptedPiece | RefusedPiece
Result = (
    RecordCount
    | FailedRecord
    | BytesRead
    | DroppedBitmap
    | MarkedRows
    | AcceptedPart
    | RefusedFile
    | ExpectationPartials
    | LibraryRows
    | ShadowFound
    | Piece
)
R = TypeVar("R")

COLUMNS: Final[dict[type, str]] = {
    RecordCount: "record_count",
    FailedRecord: "first_failed",
    BytesRead: "bytes_read",
    DroppedBitmap: "dropped",
    MarkedRows: "marks",
    AcceptedPart: "accepted_part",
    RefusedFile: "refused_file",
    ExpectationPartials: "partials",
    LibraryRows: "library_rows",
    ShadowFound: "shadow",
    AcceptedPiece: "accepted_piece",
    RefusedPiece: "refused_piece",
}
"""The column of each kind of result."""

_ARROW: Final[dict[Any, pa.DataType]] = {
    int: pa.int64(),
    str: pa.string(),
    bytes: pa.binary(),
    bytes | None: pa.binary(),
}


def _struct(kind: type) -> pa.StructType:
    types = get_type_hints(kind)
    return pa.struct([(field.name, _ARROW[types[field.name]]) for field in fields(kind)])


RESULT: Final = pa.schema([(name, _struct(kind)) for kind, name in COLUMNS.items()])
"""The schema of a worker's results: one nullable struct for each kind of result."""

RESULT_TYPE: Final = from_arrow_schema(RESULT)
"""RESULT as Spark's type."""


def as_batch(results: Iterable[Result]) -> pa.RecordBatch:
    """Return results as rows of RESULT."""
    return pa.RecordBatch.from_pylist([{COLUMNS[type(each)]: asdict(each)} for each in results], RESULT)


def read_results(rows: pa.Table, kind: type[R]) -> list[R]:
    """Return the results of one kind among rows of RESULT."""
    found = rows.column(COLUMNS[kind])
    return [kind(**values) for values in found.filter(found.is_valid()).to_pylist()]
