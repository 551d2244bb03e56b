"""What the demo prints at its end: every figure, and whether the sums hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from contracts.model import DataContract
from gateway.embedded.demo.figures import StreamFigures, StreamResult
from gateway.embedded.demo.run import Finished


def summary(finished: Finished) -> RenderableType:
    """Render a finished demo."""
    return Group(*_parts(finished))


def _parts(finished: Finished) -> Iterator[RenderableType]:
    for name, result in finished.results.items():
        yield Text()
        yield Text.assemble((name, "bold"), f"   {_sum(result.figures)}")
        yield Padding(_rules(result, finished.contracts[name]), (0, 0, 0, 2))
        if result.figures.corruptions:
            yield Text()
            yield Padding(_corruptions(result.figures), (0, 0, 0, 2))
    yield Text()
    yield _stays(finished)
    yield Text()
    yield _verdict(finished)
    yield Text(
        f"first verdict after {finished.report.seconds_to_first_verdict:.1f} s, all of it in {finished.report.seconds:.1f} s"
    )
    yield Text.assemble("open ", (finished.desk, f"bold link {finished.desk}"))


def _sum(figures: StreamFigures) -> str:
    return (
        f"{figures.received:,} in = {figures.accepted:,} accepted + {figures.quarantined:,} quarantined "
        f"+ {figures.dropped:,} dropped"
    )


def _rules(result: StreamResult, contract: DataContract) -> Table:
    """Show what was refused or warned of by rule, and why the rule exists."""
    descriptions: Mapping[str, str | None] = {rule.id: rule.description for rule in contract.rules}
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for code, records in result.figures.refused_by_rule.items():
        table.add_row(Text(code, "red"), f"{records:,}", descriptions.get(code) or result.reasons[code])
    for code, records in result.warned_by_rule.items():
        table.add_row(
            Text(code, "yellow"), f"{records:,}", f"Written, with a warning. {descriptions[code] or ''}"
        )
    return table


def _corruptions(figures: StreamFigures) -> Table:
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right"):
        table.add_column(justify=justify)
    table.add_row("", Text("planted", "dim"), Text("caught", "dim"))
    for kind, count in figures.corruptions.items():
        table.add_row(
            kind, f"{count.planted:,}", Text(f"{count.caught:,}", _colour(count.caught == count.planted))
        )
    table.add_row(
        "wrongly refused", "", Text(f"{figures.wrongly_refused:,}", _colour(not figures.wrongly_refused))
    )
    return table


def _stays(finished: Finished) -> Table:
    """Show what the consumer's figure is without the gateway and with it, and where it is worst."""
    arrived, kept = finished.arrived, finished.kept
    worst = min(arrived.by_hospital, key=lambda hospital: arrived.by_hospital[hospital])
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_row("mean length of stay", Text("as it arrived", "dim"), Text("with the contract", "dim"))
    table.add_row("  all hospitals", _days(arrived.mean_days), _days(kept.mean_days))
    table.add_row(f"  {worst} alone", _days(arrived.by_hospital[worst]), _days(kept.by_hospital[worst]))
    return table


def _verdict(finished: Finished) -> Text:
    if finished.problems:
        lines = "\n".join(f"  {problem}" for problem in finished.problems)
        return Text.assemble(("these sums do not hold:\n", "bold red"), lines)
    figures = finished.report.streams.values()
    total = StreamFigures(
        received=sum(one.received for one in figures),
        accepted=sum(one.accepted for one in figures),
        quarantined=sum(one.quarantined for one in figures),
        dropped=sum(one.dropped for one in figures),
        refused_by_rule={},
        corruptions={},
        wrongly_refused=0,
        records_per_second=0,
    )
    return Text.assemble(("every offset accounted for: ", "bold green"), _sum(total))


def _days(days: float) -> str:
    return f"{days:,.1f} days"


def _colour(is_right: bool) -> str:  # noqa: FBT001 - a fact, not a switch
    return "green" if is_right else "bold red"
