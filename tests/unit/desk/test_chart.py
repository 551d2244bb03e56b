from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.gateway.http.desk import wording
from tidegate.gateway.http.desk.chart import (
    HEIGHT,
    Series,
    coloured,
    nice_ceiling,
    placed,
    sparkline,
    stacked,
)
from tidegate.gateway.http.desk.stream_views import RANGES, chosen_span, range_named, ranges_within

NOW = datetime(2026, 11, 21, 4, 3, 7, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_bars_stack_from_the_largest_series_up() -> None:
    starts = [NOW.replace(second=0) + MINUTE * at for at in range(2)]
    chart = stacked(starts, MINUTE, coloured({"a": (1, 0), "b": (3, 4)}))
    assert chart.series == (Series("b", (3, 4), 1), Series("a", (1, 0), 2))
    first, second = chart.columns
    # The axis goes to 4: 200 pixels between 12 and 212.
    assert [(bar.slot, bar.y, bar.height) for bar in first.bars] == [(1, 62.0, 150.0), (2, 12.0, 50.0)]
    assert [(bar.slot, bar.y, bar.height) for bar in second.bars] == [(1, 12.0, 200.0)]
    assert (first.counts, first.total) == ((("b", 1, 3), ("a", 2, 1)), 4)
    assert [(tick.at, tick.label) for tick in chart.y_ticks] == [(212.0, "0"), (112.0, "2"), (12.0, "4")]
    assert chart.height == HEIGHT


def test_series_beyond_the_palette_share_the_last_colour() -> None:
    series = coloured({str(at): (at + 1,) for at in range(8)})
    assert [one.slot for one in series] == [1, 2, 3, 4, 5, 6, 0, 0]


def test_time_is_labelled_at_round_times() -> None:
    one_hour = RANGES[1]
    since = one_hour.since(NOW)
    starts = [since + one_hour.bucket * at for at in range(one_hour.buckets)]
    chart = stacked(starts, one_hour.bucket, [])
    assert [tick.label for tick in chart.x_ticks] == ["03:10", "03:20", "03:30", "03:40", "03:50", "04:00"]


@pytest.mark.parametrize(
    ("largest", "top"), [(0, 1), (1, 1), (2, 2), (3, 4), (9, 10), (10, 10), (11, 20), (799, 800), (801, 1000)]
)
def test_axes_end_at_round_numbers(largest: int, top: int) -> None:
    assert nice_ceiling(largest) == top


def test_sparklines_leave_zero_out_and_show_one() -> None:
    assert sparkline([0, 1, 1000], 30, 20) == "M10.0 20v-1.5h9.0V20zM20.0 20v-20.0h9.0V20z"
    assert sparkline([0, 0], 30, 20) == ""


def test_bucket_edges_do_not_move_with_the_clock() -> None:
    for one in RANGES:
        edges = {one.until(NOW + timedelta(microseconds=at)) for at in range(3)}
        assert len(edges) == 1
        assert one.since(NOW) < NOW < one.until(NOW) <= NOW + one.bucket


def test_range_without_a_name_shows_the_last_report() -> None:
    old = NOW - timedelta(days=20)
    assert range_named("6h", RANGES, old, NOW, NOW).name == "6h"
    assert range_named(None, RANGES, NOW - MINUTE, NOW, NOW).name == "15m"
    assert range_named("nonsense", RANGES, old, NOW, NOW).name == "1h"
    assert range_named(None, RANGES, old, NOW - timedelta(hours=1), NOW).name == "6h"
    assert range_named(None, RANGES, old, old, NOW).name == "30d"


def test_only_ranges_without_deleted_records_are_offered() -> None:
    assert ranges_within(timedelta(days=30)) == RANGES
    day = ranges_within(timedelta(days=1))
    assert [one.name for one in day] == ["15m", "1h", "6h", "24h"]
    old = NOW - timedelta(days=20)
    assert range_named("30d", day, old, NOW, NOW).name == "1h"
    assert range_named(None, day, old, old, NOW).name == "24h"


def test_numbers_and_times_as_the_desk_writes_them() -> None:
    assert wording.grouped(1_234_567) == "1\u2009234\u2009567"
    assert [wording.percent(share) for share in (None, 0, 0.00001, 0.005, 0.123, 0.9999)] == [
        "–",  # noqa: RUF001 - the dash that a table shows for nothing
        "0",
        "<\u20090.01",
        "0.50",
        "12.3",
        "100",
    ]
    assert [wording.rate(rate) for rate in (None, 0.0, 3.14, 98_123.4)] == ["–", "0", "3.1", "98\u2009123"]  # noqa: RUF001 - as above
    assert [
        wording.ago(NOW - timedelta(seconds=seconds), NOW) for seconds in (-90, 2, 59, 60, 7300, 200_000)
    ] == [
        "in the future",
        "now",
        "59\u2009s ago",
        "1\u2009min ago",
        "2\u2009h ago",
        "2\u2009d ago",
    ]
    assert wording.exact(NOW) == "2026-11-21 04:03:07 UTC"
    assert wording.machine(NOW) == "2026-11-21T04:03:07.000Z"
    assert wording.byte_size(2_040_406) == "2.0\u2009MB"
    assert [wording.length_of(one.span) for one in RANGES] == [
        "15\u2009min",
        "1\u2009h",
        "6\u2009h",
        "1\u2009d",
        "7\u2009d",
        "30\u2009d",
    ]


def test_names_in_sentences_are_code() -> None:
    assert wording.ticked("the rule `a` refuses `b`") == [
        ("The rule ", False),
        ("a", True),
        (" refuses ", False),
        ("b", True),
    ]
    assert wording.ticked("error_budget was none") == [("error_budget was none", False)]


def test_shares_are_percent_of_the_volume_of_their_bucket() -> None:
    starts = [NOW.replace(second=0) + MINUTE * at for at in range(3)]
    chart = stacked(starts, MINUTE, coloured({"a": (1, 3, 0)}), (100, 100, 0), as_share=True)
    assert [tick.label for tick in chart.y_ticks] == ["0", "2", "4"]
    assert [bar.height for column in chart.columns for bar in column.bars] == [50.0, 150.0]
    assert [column.share for column in chart.columns] == [0.01, 0.03, None]
    assert [column.volume_bar is not None for column in chart.columns] == [True, True, False]


def test_marks_that_are_close_have_labels_in_rows_of_their_own() -> None:
    happened = [
        (NOW + MINUTE * 50, None, "version", "c"),
        (NOW + MINUTE, None, "version", "a"),
        (NOW + MINUTE * 2, NOW + MINUTE * 12, "pause", "b"),
        (NOW - MINUTE, NOW + MINUTE * 200, "pause", "d"),
    ]
    marks = placed(happened, NOW, NOW + MINUTE * 100)
    assert [(mark.label, mark.x, mark.width, mark.row) for mark in marks] == [
        ("d", 0.0, 100.0, 0),
        ("a", 1.0, 0.0, 1),
        ("b", 2.0, 10.0, 2),
        ("c", 50.0, 0.0, 0),
    ]


def test_a_chosen_span_has_round_buckets_within_what_is_kept() -> None:
    oldest = NOW - timedelta(days=30)
    span = chosen_span(NOW - timedelta(minutes=21), NOW, oldest, NOW)
    assert span is not None
    assert (span.bucket, span.buckets) == (timedelta(seconds=15), 85)
    assert span.since <= NOW - timedelta(minutes=21) < span.since + span.bucket
    assert span.until >= NOW
    assert chosen_span(NOW, NOW, oldest, NOW) is None
    assert chosen_span(NOW, NOW - MINUTE, oldest, NOW) is None
    far = chosen_span(NOW - timedelta(days=4000), NOW + timedelta(days=4000), oldest, NOW)
    assert far is not None
    assert far.since >= oldest - timedelta(days=1)
    assert far.buckets <= 90
