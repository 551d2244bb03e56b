"""`tidegate judge`: the verdict on records, from the one judge that the job uses too."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO

import orjson
import pyarrow as pa
import typer
from rich.table import Table
from rich.text import Text

from contracts.document import lint
from contracts.errors import SettingsError
from contracts.model import AvroSchema, DataContract
from contracts.plan import EnforcementPlan, compile_plan
from contracts.privacy.account import Teller, Told
from contracts.verdict import Disposition, Stage, Verdict
from gateway.cli.exits import ExitCode
from gateway.cli.terminal import err, out

_BLOCK_BYTES = 256 * 1024

ContractFile = Annotated[
    Path,
    typer.Argument(metavar="CONTRACT", exists=True, dir_okay=False, help="Contract document, YAML or JSON."),
]
DataFile = Annotated[
    Path,
    typer.Option(
        "--data",
        metavar="FILE",
        help="Records, one JSON value a line; - reads standard input.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one verdict as JSON for each line.")]
Show = Annotated[int, typer.Option("--show", metavar="N", min=0, help="How many refused records to show.")]


def judge(
    contract: ContractFile, data: DataFile = Path("-"), *, as_json: AsJson = False, show: Show = 10
) -> None:
    """Judge records by a contract, as the job would.

    Says of each refused record what is wrong, and what would have passed. Values of
    fields that the contract classifies are left out, also with --json.

    Reads one record a line. Lines end at LF only: a CR belongs to the record, an
    empty line is an empty record, and a last line without LF counts.

    Examples:
      tidegate judge contract.yaml --data records.jsonl
      kcat -C -t admissions -e | tidegate judge contract.yaml
      tidegate judge contract.yaml --data records.jsonl --json | jq 'select(.violations != [])'

    Exit codes: 0 nothing refused, 1 records refused or the contract has problems, 2 usage.
    """
    plan = compile_plan(_as_lines(lint(contract).contract))
    tally, teller = Tally(limit=show), Teller.of(plan)
    with _open(data) as stream:
        for batch in line_batches(stream):
            verdicts = _judge_batch(plan, batch)
            if as_json:
                told = (_tell_one(teller, batch, verdicts, index) for index in range(len(batch)))
                _print_json(verdicts, told, tally.records + 1)
            tally.add(verdicts, partial(_tell_one, teller, batch, verdicts))
    if not as_json:
        _print_summary(plan.contract, tally)
    if tally.refused:
        raise typer.Exit(ExitCode.FINDINGS)


@dataclass(slots=True)
class Tally:
    """What a run has seen: counts, and the first `limit` refused records with their line numbers."""

    limit: int
    records: int = 0
    dispositions: Counter[Disposition] = field(default_factory=Counter)
    codes: Counter[tuple[Stage, str]] = field(default_factory=Counter)
    first_refused: list[tuple[int, tuple[Told, ...]]] = field(default_factory=list)

    @property
    def refused(self) -> int:
        """How many records do not reach the sink."""
        return sum(count for disposition, count in self.dispositions.items() if not disposition.is_written)

    def add(self, verdicts: list[Verdict], tell: Callable[[int], tuple[Told, ...]]) -> None:
        """Count the verdicts on the next lines. A record counts once for each code that it violates.

        `tell` gives what the verdict at a position means; it is asked of those that are kept.
        """
        for index, verdict in enumerate(verdicts):
            self.records += 1
            self.dispositions[verdict.disposition] += 1
            self.codes.update({(violation.stage, violation.code) for violation in verdict.violations})
            if not verdict.disposition.is_written and len(self.first_refused) < self.limit:
                self.first_refused.append((self.records, tell(index)))


def line_batches(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Split a stream into its lines, in batches of what one read gives, so that a slow pipe is answered at once.

    Lines end at LF, which is not part of them; a last line without LF counts. Memory is bounded by one block and
    the longest line.
    """
    parts: list[bytes] = []
    while block := stream.read1(_BLOCK_BYTES):  # type: ignore[attr-defined]  # every buffered reader has it
        head, found, rest = block.rpartition(b"\n")
        if not found:
            parts.append(block)
            continue
        lines = (b"".join(parts) + head).split(b"\n")
        parts = [rest] if rest else []
        yield lines
    if parts:
        yield [b"".join(parts)]


def _as_lines(contract: DataContract) -> DataContract:
    """Return the contract for records in a text file, where no wire format frames them."""
    if isinstance(contract.schema_, AvroSchema):
        raise SettingsError(
            f"{contract.id} describes Avro records, which have no lines; `judge` reads JSON records"
        )
    return contract.model_copy(update={"framing": "none"})


def _open(data: Path) -> BinaryIO:
    if str(data) != "-":
        try:
            return data.open("rb")
        except OSError as error:
            raise SettingsError(f"cannot read {data}: {error.strerror}") from None
    if sys.stdin.isatty():
        err.print("reading records from the terminal, one a line; end with Ctrl-D")
    return sys.stdin.buffer


def _judge_batch(plan: EnforcementPlan, lines: list[bytes]) -> list[Verdict]:
    dispositions = plan.judge(pa.array(lines, pa.large_binary())).field("disposition").to_pylist()
    return [
        _ACCEPTED if disposition == Disposition.ACCEPTED else plan.explain(line)
        for line, disposition in zip(lines, dispositions, strict=True)
    ]


def _tell_one(teller: Teller, lines: list[bytes], verdicts: list[Verdict], index: int) -> tuple[Told, ...]:
    return teller.tell(lines[index], verdicts[index].violations)


_ACCEPTED = Verdict(Disposition.ACCEPTED)


def _print_json(verdicts: list[Verdict], told: Iterable[tuple[Told, ...]], first_line: int) -> None:
    for line, (verdict, violations) in enumerate(zip(verdicts, told, strict=True), first_line):
        disposition = verdict.disposition.name.lower()
        answer = {
            "line": line,
            "disposition": disposition,
            "violations": [_as_json(each) for each in violations],
        }
        sys.stdout.buffer.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


def _as_json(told: Told) -> dict[str, str | None]:
    """Give a violation as it is kept, with what it means beside it."""
    meaning = {"sentence": told.sentence, "description": told.description, "passes": told.passes}
    return {**asdict(told.violation), **meaning}


def _print_summary(contract: DataContract, tally: Tally) -> None:
    noun = "record" if tally.records == 1 else "records"
    out.print(f"[bold]{contract.id}[/] {contract.version} · {tally.records:,} {noun} judged\n")
    counts = Table.grid(padding=(0, 2, 0, 0))
    counts.add_column()
    counts.add_column(justify="right")
    counts.add_column(justify="right", style="dim")
    for disposition in Disposition:
        if (count := tally.dispositions[disposition]) or disposition is Disposition.ACCEPTED:
            name = Text(f"  {disposition.name.lower()}", style="green" if disposition.is_written else "red")
            counts.add_row(name, f"{count:,}", f"{count / max(tally.records, 1):.2%}")
    out.print(counts)
    if tally.codes:
        _print_reasons(tally)
    if tally.first_refused:
        _print_refused(tally)


def _print_reasons(tally: Tally) -> None:
    reasons = Table.grid(padding=(0, 2, 0, 0))
    reasons.add_column(style="dim")
    reasons.add_column(style="bold")
    reasons.add_column(justify="right")
    for (stage, code), count in tally.codes.most_common():
        reasons.add_row(f"  {stage}", code, f"{count:,}")
    out.print()
    out.print(reasons)


def _print_refused(tally: Tally) -> None:
    shown = [(line, told) for line, violations in tally.first_refused for told in violations]
    line_width = max(len(f"{line:,}") for line, _ in shown)
    pointer_width = max(len(told.violation.pointer) for _, told in shown)
    indent = " " * (11 + line_width + pointer_width)
    out.print()
    for line, told in shown:
        place = f"{told.violation.pointer:<{pointer_width}}"
        code = (told.violation.code, "bold")
        out.print(
            Text.assemble(f"  line {line:>{line_width},}  ", (place, "cyan"), "  ", code, ": ", told.sentence)
        )
        for words in (told.description, told.passes and f"passes with {told.passes}"):
            if words:
                out.print(Text(f"{indent}{words}", style="dim"))
    if (more := tally.refused - len(tally.first_refused)) > 0:
        out.print(f"  [dim]and {more:,} more refused; --show N shows more of them, --json every verdict[/]")
