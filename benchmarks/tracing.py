"""Measure what traces cost: the steps of a batch without any trace, with traces off, and with traces on.

Without: the same stopwatch, whose steps tell no trace. Off: as a job runs without the OTEL_ variables. On: spans are
made and sampled, and exported nowhere, because a receiver would be measured with them. The figure that counts is off
against without: what everybody pays who never asked for traces. One batch has six steps; the registry has no traces to
be off, because a request without them does not pass their middleware.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from opentelemetry.sdk.trace import TracerProvider

from benchmarks.figures import Figure, benchmark_parser, interleaved_seconds, report_figures
from tidegate.spark_jobs.steps import ReplayStep, Step, Stopwatch, ignore_steps
from tidegate.spark_jobs.tracing import NO_TRACE, OtelTracer, Trace

BATCH = (Step.CONTRACT, Step.JUDGE, Step.DECIDE, Step.QUARANTINE, Step.STAGE, Step.PUBLISH)


class Untraced(Stopwatch):
    """A stopwatch without support for traces."""

    @contextmanager
    def __call__(self, step: Step | ReplayStep) -> Iterator[None]:
        """Time one step."""
        begun = time.perf_counter()
        yield
        elapsed = round((time.perf_counter() - begun) * 1000)
        self.milliseconds[step] = self.milliseconds.get(step, 0) + elapsed
        self._observer(self._stream, step)


def main() -> None:
    """Measure, and write the figures."""
    parser = benchmark_parser(__doc__)
    arguments = parser.parse_args()
    batches, rounds = (500, 1) if arguments.smoke else (5_000, 9)
    tracer = OtelTracer(TracerProvider())
    cases = {
        "without": lambda: run(batches, lambda: Untraced("s", ignore_steps), NO_TRACE),
        "off": lambda: run(batches, lambda: Stopwatch("s", ignore_steps, NO_TRACE), NO_TRACE),
        "on": lambda: traced(batches, tracer),
    }
    seconds = interleaved_seconds(cases, rounds, time.process_time)
    without, off, on = (seconds[name] / batches * 1e6 for name in ("without", "off", "on"))
    print(f"  a batch of {len(BATCH)} steps: {without:.1f} µs without, {off:.1f} µs off, {on:.1f} µs on")
    figures = [
        Figure.of("traces_off_over_none", off, "us/batch", without),
        Figure.of("traces_on_over_off", on, "us/batch", off),
    ]
    report_figures(figures, arguments.out)


def run(batches: int, make: Callable[[], Stopwatch], trace: Trace) -> None:
    """Time the steps of batches without work."""
    for _ in range(batches):
        watch = make()
        with trace.current():
            for step in BATCH:
                with watch(step):
                    pass
        trace.end({})


def traced(batches: int, tracer: OtelTracer) -> None:
    """Run batches with a span for each batch and each step."""
    for _ in range(batches):
        trace = tracer.begin("batch", {"tidegate.stream": "s"})
        run(1, partial(Stopwatch, "s", ignore_steps, trace), trace)


if __name__ == "__main__":
    main()
