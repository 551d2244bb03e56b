"""What positions cost in memory, and what is no position."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.positions import Positions, Sightings, chained

# In a process of its own: what others of this one have held at most would hide what this costs.
_RECONCILE_50_MILLION = """
import numpy as np
import pyarrow as pa

from tidegate.contracts.stream.reconcile import Written, reconcile
from tidegate.contracts.stream.ledger import BatchTotals, Ledger
from tidegate.contracts.stream.positions import Sightings

PARTITIONS, EACH, CHUNK = 4, 12_500_000, 125_000

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024

def read():
    found = Sightings()
    for start in range(0, EACH, CHUNK):
        for partition in range(PARTITIONS):
            of_row = pa.array(np.full(CHUNK, partition, np.int32))
            found.add_arrays(of_row, pa.array(np.arange(start, start + CHUNK)))
    return found

ledger = Ledger(
    name="s@x", stream="s", topic="t", topic_id="id", epoch=1, n=1, begin=dict.fromkeys(range(PARTITIONS), 0),
    end=dict.fromkeys(range(PARTITIONS), EACH), scan_from={}, slots=1,
    totals=BatchTotals(written=PARTITIONS * EACH),
)
Sightings().add_arrays(pa.array([0]), pa.array([0]))
before = peak()
source, written = read().seen, read()
all_there = reconcile(ledger, source, Written(written), Sightings())
nothing_there = reconcile(ledger, source, Written(Sightings()), Sightings())
print(all_there.holds, all_there.written, nothing_there.lost, nothing_there.unaccounted.first(1), peak() - before)
"""
_MOST_BYTES = 64 << 20


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_50_million_records_are_reconciled_in_64_mebibytes_whether_they_are_there_or_all_lost() -> None:
    told = subprocess.run(
        [sys.executable, "-c", _RECONCILE_50_MILLION], check=True, capture_output=True, text=True
    ).stdout
    assert told.startswith("True 50000000 50000000 [(0, 0)] ")
    assert int(told.split()[-1]) < _MOST_BYTES


@pytest.mark.parametrize(("partition", "offset"), [(-1, 0), (0, -1), (0, 2**63)])
def test_what_no_topic_has_is_no_position(partition: int, offset: int) -> None:
    with pytest.raises(StreamStopped, match=f"as if it came from {partition}/{offset}, which no topic has"):
        Positions([(partition, offset)])
    with pytest.raises(StreamStopped, match="ask who wrote it"):
        Sightings([(partition, offset)])


def test_it_is_none_among_others_in_a_column_either() -> None:
    found = Sightings()
    with pytest.raises(StreamStopped, match="which no topic has"):
        found.add_arrays(pa.array([0, 0], pa.int32()), pa.array([3, -1], pa.int64()))


def test_far_apart_they_are_few() -> None:
    """A range over all of them is never made."""
    ends = Positions([(0, 0), (0, 2**63 - 1)])
    assert ends.within({}, {0: 2**62}) == {(0, 0)}
    assert ends.since({0: 1}) == {(0, 2**63 - 1)}


def test_only_the_first_are_shown() -> None:
    assert repr(Positions((0, offset) for offset in range(6))) == (
        "<6 positions: (0, 0), (0, 1), (0, 2), (0, 3), (0, 4), ...>"
    )
    five = "(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)"
    assert repr(Positions((0, offset) for offset in range(5))) == f"<5 positions: {five}>"
    assert repr(Positions([(1, 7)])) == "<1 positions: (1, 7)>"


def test_chunks_of_positions_follow_each_other_and_stay_in_one_partition() -> None:
    found = Positions([(0, 5), (0, 9), (0, 11), (2, 1), (2, 2)])
    chunks, done = [], 0
    while chunk := found.chunk(done, 2):
        chunks.append([*chunk])
        done += len(chunk)
    assert chunks == [[(0, 5), (0, 9)], [(0, 11)], [(2, 1), (2, 2)]]
    assert found.chunk(done, 2) == Positions()


def test_positions_and_sightings_are_equal_if_they_have_the_same_members() -> None:
    assert Positions([(0, 1)]) == {(0, 1)}
    assert Positions([(0, 1)]) != {(0, 2)}
    assert (Positions() == 3) is False
    assert Sightings([(0, 1), (0, 1)]) == Sightings([(0, 1), (0, 1)])
    assert Sightings([(0, 1), (0, 1)]) != Sightings([(0, 1)])
    assert (Sightings() == 3) is False


def test_a_part_of_a_chain_is_as_large_as_allowed() -> None:
    dropped = Positions([(0, each) for each in range(0, 3_000, 3)])
    (whole,) = chained("l", "", dropped, 10**6)
    size = len(whole.bitmap().serialize()) * 4 // 3
    assert [len(list(chained("l", "", dropped, most))) for most in (size, size - 1)] == [1, 2]
    singles = list(chained("l", "", Positions([(0, 1), (0, 9)]), 1))
    assert [len(each.bitmap()) for each in singles] == [1, 1]
