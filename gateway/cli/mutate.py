"""`tidegate mutate`: measure the strength of a contract with corrupted records."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import orjson
import pyarrow as pa
import typer
from rich.text import Text

from tidegate.contracts.infer.values import Occurrences
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.strength.measure import (
    GoodRecords,
    MutationResult,
    Strength,
    measure,
    plan_for_mutation,
)
from tidegate.contracts.strength.text import suggested_rules
from tidegate.contracts.words import counted, seen
from tidegate.gateway.cli.options import ContractFile, Nulls, OutputFormat
from tidegate.gateway.cli.reading import unread_text
from tidegate.gateway.cli.terminal import err, out
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.sources.files import FileFormat
from tidegate.gateway.sources.open_source import SourceOptions, open_source
from tidegate.gateway.sources.record_reader import RecordReader
from tidegate.gateway.sources.source import Source

Data = Annotated[
    Path, typer.Option("--data", metavar="FILE", help="File or table of records; - is standard input.")
]
MostRecords = Annotated[
    int, typer.Option("--max-records", metavar="N", min=1, help="Corrupt the first N accepted records.")
]
Mutants = Annotated[
    int,
    typer.Option("--mutants", metavar="N", min=1, max=1000, help="Corrupted records of each kind and field."),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Chooses which records are corrupted.")]
MostMissed = Annotated[
    float | None,
    typer.Option(
        "--max-missed",
        metavar="SHARE",
        min=0,
        max=1,
        help="Fail if a larger share of the corrupted records is missed.",
    ),
]


def mutate(  # noqa: PLR0913 - one parameter for each option
    contract: ContractFile,
    *,
    data: Data = Path("-"),
    null: Nulls = None,
    mutants: Mutants = 20,
    max_records: MostRecords = 5000,
    seed: Seed = 0,
    max_missed: MostMissed = None,
    output_format: OutputFormat = "text",
) -> None:
    """Measure which corrupted records a contract would miss, and suggest rules.

    Takes records that the contract accepts, and corrupts a number of them in
    each field: null and missing, values that stand for "unknown", wrong units,
    numbers as text, truncation, letter case, whitespace, broken encodings,
    wrong references, a date a century off, and dates that are swapped. The
    contract judges them.

    For what is missed, prints rules to paste into the contract. A suggested rule
    catches corrupted records, and refuses none of the good ones; read it before
    you use it. Values of classified fields are never printed.

    FILE may be JSON Lines, a JSON array, CSV, Parquet, an Avro container, or
    the folder of a Delta or Iceberg table. The same data and seed give the same
    result.

    Examples:
      tidegate mutate contract.yaml --data records.jsonl
      tidegate mutate contract.yaml --data records.parquet --format json
      tidegate mutate contract.yaml --data records.jsonl --max-missed 0.1

    Exit codes: 0 measured; 1 more is missed than --max-missed allows, no record
    is accepted, or the contract has problems; 2 usage.
    """
    good = GoodRecords(plan_for_mutation(lint(contract).contract), max_records)
    with open_source(str(data), SourceOptions(nulls=tuple(null or ()), default=FileFormat.LINES)) as source:
        unread = _read(source, good)
    if not good.values:
        _print_nothing(source.title, good, unread)
        raise typer.Exit(ExitCode.FINDINGS)
    found = measure(good, mutants=mutants, seed=seed)
    if output_format == "json":
        typer.echo(orjson.dumps(_report(found, unread), option=orjson.OPT_INDENT_2))
    else:
        _print(found, unread)
    if max_missed is not None and found.missed_share > max_missed:
        err.print(f"{found.missed_share:.1%} are missed, more than --max-missed {max_missed:.1%}")
        raise typer.Exit(ExitCode.FINDINGS)


def _read(source: Source, good: GoodRecords) -> str | None:
    """Judge records until `good` is full; return why some could not be read, None if all could."""
    unreadable = Occurrences()
    for block in RecordReader(source, good.plan.contract).blocks():
        unreadable.add_counted(len(block.unreadable), [each.position for each in block.unreadable])
        good.add(pa.array(block.values, pa.large_binary()))
        if good.is_full:
            break
    return unread_text(source, unreadable)


def _print_nothing(title: str, good: GoodRecords, unread: str | None) -> None:
    """Print why the source of this title has no record to corrupt."""
    why = (
        f"{good.plan.contract.id} accepts no record of {title}; {counted(good.read, 'record')} judged"
        if good.read
        else f"{title} has no records"
    )
    why = why if unread is None else f"{why}; {unread}"
    err.print(Text.assemble((why, "bold red"), ": nothing to corrupt"))


def _print(found: Strength, unread: str | None) -> None:
    counts = (
        f" · {found.good:,} accepted records of {found.read:,} · {found.mutants:,} corrupted · "
        f"{found.missed:,} missed ({found.missed_share:.1%})"
    )
    out.print(Text.assemble((found.contract, "bold"), counts))
    out.print("" if unread is None else f"{seen(unread)}\n")
    missed = [each for each in found.outcomes if each.missed]
    if not missed:
        out.print("  every corrupted record is refused, or noticed with a warning")
        return
    rows = [("field", "corruption", "missed", "rule that catches"), *map(_row, missed)]
    widths = [max(len(row[index]) for row in rows) for index in range(3)]
    for index, (field, mutation, count, rule) in enumerate(rows):
        line = f"  {field:<{widths[0]}}  {mutation:<{widths[1]}}  {count:>{widths[2]}}  {rule}"
        out.print(Text(seen(line).rstrip(), "" if index else "dim"))
    if found.rules:
        out.print(
            f"\nrules that would catch {found.caught:,} of the {found.missed:,}, to add to the contract:\n"
        )
        out.print("rules:")
        for line in suggested_rules(found):
            out.print(line)


def _row(each: MutationResult) -> tuple[str, str, str, str]:
    rule = "-" if each.rule is None else f"{each.caught} {each.rule['id']}"
    return ", ".join(each.pointers), each.mutation, f"{each.missed} of {each.mutants}", rule


def _report(found: Strength, unread: str | None) -> dict[str, Any]:
    return {
        "format": "tidegate/mutate/v1",
        "contract": found.contract,
        "seed": found.seed,
        "records": {"read": found.read, "accepted": found.good},
        "unread": unread,
        "mutants": found.mutants,
        "missed": found.missed,
        "missed_share": found.missed_share,
        "outcomes": [
            {**asdict(each), "rule": None if each.rule is None else each.rule["id"]}
            for each in found.outcomes
        ],
        "rules": found.rules,
        "rules_yaml": "rules:\n" + "".join(f"{line}\n" for line in suggested_rules(found))
        if found.rules
        else "",
    }
