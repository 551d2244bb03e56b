"""Geometry of the desk's charts, computed on the server; templates only write it out as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, floor, log10

HEIGHT = 240
TOP = 12
BOTTOM = 28
MOST_SERIES = 6
SPARK_GAP = 1.0
"""Pixels between two bars of a sparkline."""
BAR_SHARE = 0.86
"""Share of a bucket's width that its bar takes."""


@dataclass(frozen=True, slots=True)
class Series:
    """One rule of a stacked chart: `counts` has one number a bucket; `slot` is its colour, 0 a shared one."""

    label: str
    counts: tuple[int, ...]
    slot: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One rectangle; `slot` is the colour, counted from 1, 0 for the others together.

    In a chart `x` and `width` are percent of its width, everything else is pixels.
    """

    x: float
    y: float
    width: float
    height: float
    slot: int


@dataclass(frozen=True, slots=True)
class Column:
    """One bucket: its bars and the exact numbers of its tooltip."""

    start: datetime
    end: datetime
    x: float
    width: float
    bars: tuple[Bar, ...]
    counts: tuple[tuple[str, int, int], ...]
    """(label, slot, count), largest first, zeros left out."""
    total: int


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of an axis with its label, at `at` percent (x) or pixels (y)."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A stacked bar chart over time: as wide as the page lets it be, HEIGHT pixels high."""

    columns: tuple[Column, ...]
    series: tuple[Series, ...]
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    height: int = HEIGHT
    top: int = TOP
    floor: int = HEIGHT - BOTTOM


def coloured(counts: Mapping[str, Sequence[int]]) -> tuple[Series, ...]:
    """Return each label its series, the largest first; those beyond MOST_SERIES share a colour."""
    ranked = sorted(counts.items(), key=lambda item: (-sum(item[1]), item[0]))
    return tuple(
        Series(label, tuple(numbers), rank if rank <= MOST_SERIES else 0)
        for rank, (label, numbers) in enumerate(ranked, 1)
    )


def stacked(starts: Sequence[datetime], width: timedelta, series: Sequence[Series]) -> Chart:
    """Compute bars stacked by series, the first one at the bottom.

    `starts` are the UTC starts of equally wide buckets in order; every series has one count a bucket.
    """
    top = nice_ceiling(max((sum(one.counts[at] for one in series) for at in range(len(starts))), default=0))
    step = 100 / max(1, len(starts))
    columns = []
    for at, start in enumerate(starts):
        x = at * step
        columns.append(_column(series, at, (start, start + width), (x, step), top))
    y_ticks = tuple(
        Tick(round(_y(value, top), 1), _short(value))
        for value in sorted({0, top // 2, top} if top > 1 else {0, top})
    )
    return Chart(tuple(columns), tuple(series), y_ticks, _time_ticks(starts, width, step))


def nice_ceiling(largest: int) -> int:
    """Return the top of an axis: 1, 2, 4, 6, 8 or 10 times a power of ten, at least `largest`."""
    if largest <= 1:
        return 1
    power = int(10 ** floor(log10(largest)))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= largest)


def sparkline(values: Sequence[int], width: int, height: int) -> tuple[Bar, ...]:
    """Compute small bars, one a value; zero has no bar, and one is always visible."""
    top = max(values, default=0)
    step = width / max(1, len(values))
    return tuple(
        Bar(
            x=round(at * step, 2),
            y=round(height - (tall := max(1.5, value / top * height)), 2),
            width=round(step - SPARK_GAP, 2),
            height=round(tall, 2),
            slot=0,
        )
        for at, value in enumerate(values)
        if value
    )


def _column(
    series: Sequence[Series],
    at: int,
    span: tuple[datetime, datetime],
    place: tuple[float, float],
    top: int,
) -> Column:
    x, step = place
    below = 0
    bars: list[Bar] = []
    for one in series:
        count = one.counts[at]
        if count:
            upper, lower = _y(below + count, top), _y(below, top)
            bars.append(
                Bar(
                    round(x + step * (1 - BAR_SHARE) / 2, 3),
                    round(upper, 2),
                    round(step * BAR_SHARE, 3),
                    round(lower - upper, 2),
                    one.slot,
                )
            )
            below += count
    counts = sorted(
        ((one.label, one.slot, one.counts[at]) for one in series if one.counts[at]), key=lambda row: -row[2]
    )
    return Column(span[0], span[1], round(x, 3), round(step, 3), tuple(bars), tuple(counts), below)


def _y(value: float, top: int) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP)


def _short(value: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= size:
            return f"{value / size:g} {unit}"
    return str(value)


def _time_ticks(starts: Sequence[datetime], width: timedelta, step: float) -> tuple[Tick, ...]:
    """Label about six buckets, at whole multiples of a unit that people count in."""
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
