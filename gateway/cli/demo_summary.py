"""The summary of the demo: all figures, and whether the counts are correct."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from tidegate.contracts.document.model import DataContract
from tidegate.gateway.embedded.demo.figures import StreamFigures, StreamResult
from tidegate.gateway.embedded.demo.run import Finished

_NAME_WIDTH = 28


def summary(finished: Finished, width: int | None = None) -> Text:
    """Render a finished demo, without a final line end. Lines are cut at `width` if it is given."""
    lines = tuple(_lines(finished))
    if width is not None:
        for line in lines:
            line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines)


def _lines(finished: Finished) -> Iterator[Text]:
    for name, result in finished.results.items():
        yield Text()
        yield Text.assemble((f"{name}  ", "bold"), _sum([result.figures]))
        yield from _rules(result, finished.contracts[name])
        if result.figures.corruptions:
            yield Text()
            yield from _corruptions(result.figures)
    yield Text()
    yield from _stays(finished)
    yield Text()
    yield from _verdict(finished)
    report = finished.report
    yield Text(f"first verdict after {report.seconds_to_first_verdict} s, everything in {report.seconds} s")
    yield Text.assemble("open ", (finished.desk, f"bold link {finished.desk}"))


def _sum(streams: list[StreamFigures]) -> str:
    received, accepted, quarantined, dropped = (
        sum(getattr(figures, name) for figures in streams)
        for name in ("received", "accepted", "quarantined", "dropped")
    )
    return f"{received:,} in = {accepted:,} accepted + {quarantined:,} quarantined + {dropped:,} dropped"


def _rules(result: StreamResult, contract: DataContract) -> Iterator[Text]:
    """Yield the refused and warned records of each rule, with the rule's reason."""
    reasons = result.reasons | {rule.id: rule.description for rule in contract.rules if rule.description}
    for word, style, counts in (
        ("refused", "red", result.figures.refused_by_rule),
        ("warned ", "yellow", result.warned_by_rule),
    ):
        for code, records in counts.items():
            line = f"  {code:<{_NAME_WIDTH}} {records:>7,}  "
            yield Text.assemble((f"  {word}", style), line, (reasons.get(code, ""), "dim"))


def _corruptions(figures: StreamFigures) -> Iterator[Text]:
    yield Text(f"  {'':<{_NAME_WIDTH}} {'planted':>9} {'caught':>9}", "dim")
    for kind, count in figures.corruptions.items():
        line = f"  {kind:<{_NAME_WIDTH}} {count.planted:>9,} "
        yield Text.assemble(line, (f"{count.caught:>9,}", _colour(is_right=count.caught == count.planted)))
    wrongly = figures.wrongly_refused
    line = f"  {'wrongly refused':<{_NAME_WIDTH}} {'':>9} "
    yield Text.assemble(line, (f"{wrongly:>9,}", _colour(is_right=not wrongly)))


def _stays(finished: Finished) -> Iterator[Text]:
    """Yield the consumer's mean length of stay without and with the contract, also for the worst hospital."""
    arrived, kept = finished.arrived, finished.kept
    worst = min(arrived.by_hospital, key=lambda hospital: arrived.by_hospital[hospital])
    yield Text.assemble(
        ("mean length of stay: ", "bold"),
        f"{_days(arrived.mean_days)} as it arrived, {_days(kept.mean_days)} with the contract",
    )
    yield Text(
        f"  in hospital {worst}: {_days(arrived.by_hospital[worst])} as it arrived, "
        f"{_days(kept.by_hospital[worst])} with the contract"
    )


def _verdict(finished: Finished) -> Iterator[Text]:
    if not finished.problems:
        sums = _sum(list(finished.report.streams.values()))
        yield Text.assemble(("every offset accounted for: ", "bold green"), sums)
        return
    yield Text("sums that do not hold:", "bold red")
    for problem in finished.problems:
        yield Text(f"  {problem}")


def _days(days: float) -> str:
    return f"{days:,.1f} days".replace("-", "\N{MINUS SIGN}")


def _colour(*, is_right: bool) -> str:
    return "green" if is_right else "bold red"
