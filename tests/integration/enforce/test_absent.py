"""Offsets without a record: the markers that a transactional producer of the source writes between its records."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.enforce.line import Line, row
from tests.integration.enforce.transactions import Transactions
from tidegate.contracts.stream.ledger import BatchTotals


@pytest.mark.parametrize(
    ("sink", "limits"),
    [
        ("iceberg", {"max_offsets": 3}),
        pytest.param("kafka", {"max_offsets": 3}, marks=pytest.mark.full),
        # A batch for each offset, some of them without a record.
        pytest.param("iceberg", {"max_batch_bytes": 1}, marks=pytest.mark.full),
    ],
)
def test_markers_and_aborted_records_are_counted_as_absent_and_not_read(
    make_line: Callable[..., Line], sink: str, limits: dict[str, int]
) -> None:
    line = make_line(sink=sink)
    producer = Transactions(line, "a")
    producer.begin([row(0), row(2, 999), row(1)])
    producer.commit()
    producer.begin([row(4), row(6, 999), row(8)])
    producer.abort()
    producer.begin([row(10)])
    producer.commit()
    # Partition 0: 2 records, marker, 3 aborted, marker, 1 record, marker; partition 1: a record and its marker.
    line.enforce(**limits)
    assert line.ledger().end == {0: 9, 1: 2}
    assert line.ledger().totals == BatchTotals(written=3, quarantined=1, absent=7)
    assert line.reconcile().holds
    assert [record.value for record in line.quarantined()] == [row(2, 999).value]
    assert sum(report.records for report in line.reports) == 4
    line.enforce()
    assert len(line.reports) == line.ledger().n


@pytest.mark.full
def test_records_of_an_open_transaction_are_judged_when_it_is_committed(line: Line) -> None:
    """And those behind it wait, so that a partition stays in order."""
    producer = Transactions(line, "a")
    producer.begin([row(0, 999), row(2)])
    line.produce(row(4), row(1))
    line.enforce()
    assert line.ledger().end == {0: 0, 1: 1}
    assert line.ledger().totals == BatchTotals(written=1)
    producer.commit()
    line.enforce()
    assert line.ledger().end == {0: 4, 1: 1}
    assert line.ledger().totals == BatchTotals(written=3, quarantined=1, absent=1)
    assert line.reconcile().holds
