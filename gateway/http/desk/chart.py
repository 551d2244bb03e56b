"""The geometry of the desk's charts, computed on the server. Templates only render it as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil, floor, log10

HEIGHT = 240
TOP = 12
BOTTOM = 28
MOST_SERIES = 6
SPARK_GAP = 1.0
"""Gap between two bars of a sparkline, in pixels."""
BAR_SHARE = 0.86
"""Width of a bar as a share of the width of its bucket."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a stacked chart: `counts` has one number per bucket; `slot` is the colour, 0 for a shared one."""

    label: str
    counts: tuple[int, ...]
    slot: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One rectangle. `slot` is the colour, starting at 1; 0 is the colour that further series share.

    `x` and `width` are percent of the width of the chart, `y` and `height` are pixels.
    """

    x: float
    y: float
    width: float
    height: float
    slot: int


@dataclass(frozen=True, slots=True)
class ChartColumn:
    """One bucket: its bars, and the exact numbers for its tooltip. `x` and `width` are percent."""

    start: datetime
    end: datetime
    x: float
    width: float
    bars: tuple[Bar, ...]
    counts: tuple[tuple[str, int, int], ...]
    """Tuples of (label, slot, count), largest count first, without zeros."""
    total: int
    volume: int | None = None
    """Number of records in the bucket, refused or not; None if it is not known."""
    volume_bar: Bar | None = None

    @property
    def share(self) -> float | None:
        """Return `total` as a share of all records, where 1 is all; None without records."""
        return self.total / self.volume if self.volume else None


@dataclass(frozen=True, slots=True)
class ChartEvent:
    """An event on the time axis, at `x` percent and `width` percent wide; the width of a moment is 0.

    `row` is the row of its label, 0 at the top. `until` is None for a moment.
    """

    x: float
    width: float
    kind: str
    label: str
    row: int
    at: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Tick:
    """A grid line of an axis with its label; `at` is in percent on the x axis, in pixels on the y axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A stacked bar chart over time: as wide as the page permits, HEIGHT pixels high.

    `floor` is the y coordinate of zero; `volume_top` is the highest value of the strip of volumes.
    """

    columns: tuple[ChartColumn, ...]
    series: tuple[Series, ...]
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    marks: tuple[ChartEvent, ...] = ()
    volume_top: int = 0
    height: int = HEIGHT
    top: int = TOP
    floor: int = HEIGHT - BOTTOM


def coloured(counts: Mapping[str, Sequence[int]]) -> tuple[Series, ...]:
    """Return one series per label, the largest total first; series beyond MOST_SERIES share a colour."""
    ranked = sorted(counts.items(), key=lambda item: (-sum(item[1]), item[0]))
    return tuple(
        Series(label, tuple(numbers), rank if rank <= MOST_SERIES else 0)
        for rank, (label, numbers) in enumerate(ranked, 1)
    )


def stacked(
    starts: Sequence[datetime],
    width: timedelta,
    series: Sequence[Series],
    volumes: Sequence[int] | None = None,
    *,
    as_share: bool = False,
) -> Chart:
    """Build a stacked bar chart, the first series at the bottom.

    `starts` are the UTC start times of the buckets, in order; each bucket is `width` wide. A series has one count per
    bucket. `volumes` has the number of records per bucket; with None, the chart has no strip of volumes. With
    `as_share`, the bars are percent of these records.
    """
    whole = volumes if as_share and volumes is not None else None
    heights = [_heights(series, at, whole) for at in range(len(starts))]
    largest = max((sum(each) for each in heights), default=0)
    top = nice_share(largest) if as_share else nice_ceiling(ceil(largest))
    step = 100 / max(1, len(starts))
    volume_top = nice_ceiling(max(volumes, default=0)) if volumes is not None else 0
    columns = []
    for at, start in enumerate(starts):
        place = at * step, step
        column = _column(series, at, (start, start + width), place, (heights[at], top))
        if volumes is not None:
            column = replace(
                column, volume=volumes[at], volume_bar=_volume_bar(volumes[at], volume_top, place)
            )
        columns.append(column)
    if as_share:
        y_ticks = tuple(Tick(round(_y(value, top), 1), f"{value:g}") for value in (0, top / 2, top))
    else:
        y_ticks = tuple(
            Tick(round(_y(value, top), 1), short(int(value)))
            for value in sorted({0, int(top) // 2, int(top)} if top > 1 else {0, int(top)})
        )
    return Chart(
        tuple(columns), tuple(series), y_ticks, _time_ticks(starts, width, step), volume_top=volume_top
    )


def _heights(series: Sequence[Series], at: int, whole: Sequence[int] | None) -> list[float]:
    """Return the height of each series in one bucket: its count, or percent of the records in the bucket."""
    if whole is None:
        return [one.counts[at] for one in series]
    return [100 * one.counts[at] / whole[at] if whole[at] else 0.0 for one in series]


VOLUME_HEIGHT = 32
"""Height of the strip of volumes below a chart, in pixels."""


def _volume_bar(volume: int, top: int, place: tuple[float, float]) -> Bar | None:
    if not volume:
        return None
    x, step = place
    height = round(max(1.0, volume / top * VOLUME_HEIGHT), 2)
    left, wide = round(x + step * (1 - BAR_SHARE) / 2, 3), round(step * BAR_SHARE, 3)
    return Bar(left, round(VOLUME_HEIGHT - height, 2), wide, height, 0)


_LABEL_PERCENT = 14.0
"""Space reserved for the label of a mark, in percent. Labels that are closer together are put in separate rows."""
_MOST_ROWS = 4


def placed(
    happened: Sequence[tuple[datetime, datetime | None, str, str]], since: datetime, until: datetime
) -> tuple[ChartEvent, ...]:
    """Position events on the time axis from `since` to `until`.

    Events are tuples of (at, until, kind, label), where `until` is None for a moment.
    """
    span = (until - since).total_seconds()
    free_from = [float("-inf")] * _MOST_ROWS
    marks = []
    for at, end, kind, label in sorted(happened, key=lambda one: one[0]):
        left = max(0.0, (at - since).total_seconds() / span * 100)
        right = left if end is None else min(100.0, (end - since).total_seconds() / span * 100)
        row = next((index for index, free in enumerate(free_from) if left >= free), _MOST_ROWS - 1)
        free_from[row] = left + _LABEL_PERCENT
        marks.append(ChartEvent(round(left, 2), round(max(0.0, right - left), 2), kind, label, row, at, end))
    return tuple(marks)


def nice_share(largest: float) -> float:
    """Return the top of a percent axis: the next of 1, 2, 4, 6, 8 or 10 times a power of ten, at least `largest`."""
    if largest <= 0:
        return 1.0
    power = 10.0 ** floor(log10(largest))
    return next(top for step in (1, 2, 4, 6, 8, 10) if (top := step * power) >= largest)


def nice_ceiling(largest: int) -> int:
    """Return the top of an axis: the next of 1, 2, 4, 6, 8 or 10 times a power of ten, at least `largest`."""
    if largest <= 1:
        return 1
    power = int(10 ** floor(log10(largest)))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= largest)


def sparkline(values: Sequence[int], width: int, height: int) -> str:
    """Return a small bar chart as the data of an SVG path, with one bar per value.

    Zero has no bar; other values are at least 1.5 pixels high, so that they are visible.
    """
    top = max(values, default=0)
    step = width / max(1, len(values))
    bar = round(step - SPARK_GAP, 1)
    return "".join(
        f"M{at * step:.1f} {height}v-{max(1.5, value / top * height):.1f}h{bar}V{height}z"
        for at, value in enumerate(values)
        if value
    )


def _column(
    series: Sequence[Series],
    at: int,
    span: tuple[datetime, datetime],
    place: tuple[float, float],
    scale: tuple[Sequence[float], float],
) -> ChartColumn:
    x, step = place
    heights, top = scale
    below = 0.0
    bars: list[Bar] = []
    for one, height in zip(series, heights, strict=True):
        if height:
            upper, lower = _y(below + height, top), _y(below, top)
            left, wide = round(x + step * (1 - BAR_SHARE) / 2, 3), round(step * BAR_SHARE, 3)
            bars.append(Bar(left, round(upper, 2), wide, round(lower - upper, 2), one.slot))
            below += height
    counts = sorted(
        ((one.label, one.slot, one.counts[at]) for one in series if one.counts[at]), key=lambda row: -row[2]
    )
    total = sum(one.counts[at] for one in series)
    return ChartColumn(span[0], span[1], round(x, 3), round(step, 3), tuple(bars), tuple(counts), total)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP)


def short(value: int) -> str:
    """Format a number, from a thousand on with the unit k or M."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= size:
            return f"{value / size:g} {unit}"
    return str(value)


def _time_ticks(starts: Sequence[datetime], width: timedelta, step: float) -> tuple[Tick, ...]:
    """Return labels for about six buckets, at multiples of a round time unit."""
    if not starts:
        return ()
    span = width * len(starts)
    minutes = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10_080)
    every = next(
        (unit for unit in minutes if span / timedelta(minutes=unit) <= 7),
        ceil(span / timedelta(days=7)) * 1440,
    )
    form = "%H:%M" if every < 1440 else "%d %b"
    ticks = []
    for at, start in enumerate(starts):
        seconds = start.timestamp()
        if seconds % (every * 60) < width.total_seconds():
            ticks.append(Tick(round(at * step, 1), f"{start:{form}}"))
    return tuple(ticks)
