"""The records of a file or of standard input, as they are sent to a topic."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tidegate.contracts.document.model import DataContract
from tidegate.gateway.sources.files import FileFormat, FileSource
from tidegate.gateway.sources.outgoing import OutgoingRecords

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}
LINES = b"".join(b'{"n": "x"}\n' if n in (3, 7) else b'{"n": %d}\n' % n for n in range(1, 11))


@pytest.fixture
def contract() -> DataContract:
    schema = {"type": "avro", "definition": ORDER}
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "orders",
        "version": "1.0.0",
        "topic": "orders",
        "schema": schema,
    }
    return DataContract.model_validate(document)


def taken(
    path: Path, contract: DataContract, most: int | None = None, *, ends: bool
) -> tuple[list[bytes | None], list[int]]:
    """Return the payloads to send, and the positions of the records that cannot be sent."""
    values, refused = [], []
    with FileSource(path, FileFormat.LINES, (), at_once=str(path) == "-") as source:
        for records, unreadable in OutgoingRecords(source, contract, None).blocks(
            most, to_first_unreadable=ends
        ):
            values += [record.value for record in records]
            refused += [each.position for each in unreadable]
    return values, refused


@pytest.mark.parametrize("is_piped", [True, False])
def test_only_the_records_before_the_first_that_cannot_be_sent_are_taken(
    tmp_path: Path, contract: DataContract, monkeypatch: pytest.MonkeyPatch, is_piped: bool
) -> None:
    path = Path("-") if is_piped else tmp_path / "orders.jsonl"
    if is_piped:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES)))
    else:
        path.write_bytes(LINES)
    assert taken(path, contract, ends=True) == ([b"\x02", b"\x04"], [3])


def test_the_limit_of_records_may_come_before_the_first_that_cannot_be_sent(
    tmp_path: Path, contract: DataContract
) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_bytes(LINES)
    assert taken(path, contract, 2, ends=True) == ([b"\x02", b"\x04"], [])
    assert taken(path, contract, 3, ends=True) == ([b"\x02", b"\x04"], [3])


def test_a_file_is_read_to_its_end_to_name_all_that_cannot_be_sent(
    tmp_path: Path, contract: DataContract
) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_bytes(LINES)
    values, refused = taken(path, contract, ends=False)
    assert (len(values), refused) == (8, [3, 7])
