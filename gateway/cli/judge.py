"""`tidegate judge`: the verdict on records, from the one judge that the job uses too."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, Self

import orjson
import pyarrow as pa
import typer
from rich.table import Table
from rich.text import Text

from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.contracts.explain.account import Explainer, Explanation
from tidegate.contracts.formats.reference import ReferenceValidator
from tidegate.contracts.formats.writers import WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.registry_client.subject_schemas import SubjectSchemas
from tidegate.contracts.verdict import Disposition, Stage, Verdict
from tidegate.contracts.words import seen
from tidegate.gateway.cli.judged_files import JudgedFiles
from tidegate.gateway.cli.reading import reading
from tidegate.gateway.cli.terminal import err, out
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.sources.files import FileFormat
from tidegate.gateway.sources.judged_records import JudgedRecords
from tidegate.gateway.sources.open_source import SourceOptions, open_source
from tidegate.gateway.sources.record_files import RecordBlock, RecordForm, record_blocks

ContractFile = Annotated[
    Path,
    typer.Argument(metavar="CONTRACT", exists=True, dir_okay=False, help="Contract document, YAML or JSON."),
]
Data = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="SOURCE",
        help="File, folder or pattern of files, or a table; - is standard input.",
    ),
]
AsFormat = Annotated[
    Literal["text", "json"], typer.Option("--format", help="text: a summary; json: one verdict a line.")
]
Show = Annotated[int, typer.Option("--show", metavar="N", min=0, help="Number of refused records to show.")]
Reference = Annotated[
    bool,
    typer.Option("--reference", help="Compare verdicts on the schema with python-jsonschema."),
]

Form = Annotated[
    Literal["lines", "json", "csv", "parquet", "avro", "sized", "base64"] | None,
    typer.Option(
        "--records",
        metavar="FORM",
        help="lines, json, csv, parquet, avro, sized or base64; without it, the data's beginning or name says it.",
    ),
]
Nulls = Annotated[
    list[str] | None,
    typer.Option(
        "--null", metavar="TEXT", help="Text that stands for null in CSV, besides an empty cell. Repeatable."
    ),
]
AcceptedFile = Annotated[
    Path | None,
    typer.Option("--accepted", metavar="FILE", help="Write accepted records here, unmasked (JSON Lines)."),
]
RefusedFile = Annotated[
    Path | None,
    typer.Option("--refused", metavar="FILE", help="Write refused records and reasons here, unmasked."),
]
Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        envvar="TIDEGATE_REGISTRY_URL",
        help="Address of the registry, for schemas of framed records.",
    ),
]


def judge(  # noqa: PLR0913 - one parameter for each option
    contract: ContractFile,
    data: Data = "-",
    records: Form = None,
    registry: Registry = None,
    *,
    null: Nulls = None,
    accepted: AcceptedFile = None,
    refused: RefusedFile = None,
    output_format: AsFormat = "text",
    show: Show = 10,
    reference: Reference = False,
) -> None:
    """Judge records by a contract, as the job does.

    Prints for each refused record the violations, and the values that would
    pass. Values of classified fields are never printed, also not as JSON.

    Reads JSON Lines, JSON arrays, CSV, Parquet and Avro containers, also with
    gzip or zstd, folders and patterns of such files, tables of Delta and
    Iceberg, iceberg:NAMESPACE.TABLE and postgresql:TABLE. Rows are judged as
    the JSON that they stand for; a null is left out where the schema refuses
    it. Text that looks like no format is read by lines: only LF ends one, an
    empty line is an empty record, and the last needs no LF.

    To judge records as they are in the topic, with frames and nulls, use
    --records sized (each record after its length in four bytes, -1 for null) or
    --records base64 (one record a line, - for null; optionally a space and the
    header __value_schema_id). The registry provides the schemas that framed
    records name; without it, their ids are not looked up.

    --accepted and --refused write the records apart, as they were: also values
    of classified fields. Only their owner may read these files.

    --reference also validates JSON records without frames by python-jsonschema,
    and compares the verdicts on the schema. A difference is a finding; patterns
    and formats may differ for a reason (docs/explanation/verdicts.md).

    Examples:
      tidegate judge contract.yaml --data records.jsonl
      tidegate judge trips.yaml --data 'trips/2026-*.csv.gz' --null NA
      tidegate judge stays.yaml --data stays.parquet --refused refused.jsonl
      kcat -C -t admissions -e | tidegate judge contract.yaml
      kcat -C -t stays -e -f '%R%s' | tidegate judge stays.yaml --records sized
      tidegate judge contract.yaml --format json < records.jsonl | jq .violations

    Exit codes: 0 no record refused; 1 records refused, or the contract has
    problems; 2 usage; 3 the registry does not answer; 7 the credentials are
    rejected.
    """
    document = lint(contract).contract
    with ExitStack() as stack:
        data_of = stack.enter_context(_opened(document, data, records, tuple(null or ())))
        files = stack.enter_context(JudgedFiles(accepted, refused))
        plan = compile_plan(data_of.contract)
        tally = Tally(limit=show)
        second = SecondOpinion.on(plan.contract, show) if reference else None
        schemas = None
        if registry is not None and plan.needs_writers and data_of.writers is None:
            schemas = stack.enter_context(RegistryClient(registry)).schemas_of(plan.contract.topic)
        for block in data_of.blocks():
            judged_by, verdicts = _judge_block(plan.with_writers(data_of.writers), schemas, block)
            explained = partial(_explained, Explainer.of(judged_by), block, verdicts)
            opinions = None if second is None else second.compare(block.values, verdicts, tally.records + 1)
            if output_format == "json":
                _print_json(verdicts, explained, opinions, tally.records + 1, data_of.place)
            files.write(
                judged_by,
                block,
                verdicts,
                partial(_entry, verdicts, explained, tally.records + 1, data_of.place),
            )
            tally.add(verdicts, explained)
            data_of.show(tally.records)
    if output_format == "text":
        _print_summary(plan.contract, tally, data_of.place)
        if second is not None:
            second.print(data_of.place)
    if tally.refused or (second is not None and second.differences):
        raise typer.Exit(ExitCode.FINDINGS)


@dataclass(slots=True)
class Tally:
    """What a run has seen: counts, and the first `limit` refused records with their numbers."""

    limit: int
    records: int = 0
    dispositions: Counter[Disposition] = field(default_factory=Counter)
    codes: Counter[tuple[Stage, str]] = field(default_factory=Counter)
    first_refused: list[tuple[int, tuple[Explanation, ...]]] = field(default_factory=list)

    @property
    def refused(self) -> int:
        """How many records do not reach the sink."""
        return sum(count for disposition, count in self.dispositions.items() if not disposition.is_written)

    def add(self, verdicts: list[Verdict], tell: Callable[[int], tuple[Explanation, ...]]) -> None:
        """Count the verdicts on the next records. A record counts once for each code that it violates.

        `tell` gives what the verdict at a position means; it is asked of those that are kept.
        """
        for index, verdict in enumerate(verdicts):
            self.records += 1
            self.dispositions[verdict.disposition] += 1
            self.codes.update({(violation.stage, violation.code) for violation in verdict.violations})
            if not verdict.disposition.is_written and len(self.first_refused) < self.limit:
                self.first_refused.append((self.records, tell(index)))


@dataclass(slots=True)
class SecondOpinion:
    """Verdicts of python-jsonschema beside the judge's, on the schema alone."""

    validator: ReferenceValidator
    limit: int
    compared: int = 0
    differences: int = 0
    first: list[tuple[int, bool]] = field(default_factory=list)
    """Numbers of the first `limit` records that differ, and whether python-jsonschema accepts each."""

    @classmethod
    def on(cls, contract: DataContract, limit: int) -> Self:
        """Return a comparison for records of a contract. Raises SettingsError for framed records and for Avro."""
        if not isinstance(contract.schema_, JsonSchema) or contract.framing != "none":
            raise SettingsError("--reference compares JSON records without frames only")
        return cls(ReferenceValidator(contract.schema_), limit)

    def compare(self, values: list[bytes | None], verdicts: list[Verdict], first: int) -> list[bool | None]:
        """Return for each record whether python-jsonschema accepts it; null for one that does not reach the schema."""
        opinions: list[bool | None] = []
        for number, (value, verdict) in enumerate(zip(values, verdicts, strict=True), first):
            stages = {violation.stage for violation in verdict.violations}
            is_read = value is not None and not stages & {Stage.FRAME, Stage.DECODE}
            opinion = self.validator.accepts(value) if is_read and value is not None else None
            opinions.append(opinion)
            if opinion is None:
                continue
            self.compared += 1
            if opinion is (Stage.SCHEMA in stages):
                self.differences += 1
                if len(self.first) < self.limit:
                    self.first.append((number, opinion))
        return opinions

    def print(self, place: Callable[[int], str]) -> None:
        """Print how often python-jsonschema agrees, and where it does not."""
        agreed = self.compared - self.differences
        out.print(
            f"\n  python-jsonschema agrees on {agreed:,} of {self.compared:,} records that reach the schema"
        )
        for number, accepts in self.first:
            ours, theirs = ("refuses", "accepts") if accepts else ("accepts", "refuses")
            out.print(f"  {place(number)}  the judge {ours} by the schema, python-jsonschema {theirs}")


@dataclass(frozen=True, slots=True)
class _Data:
    """Records to be judged by `contract`; `writers` are the schemas that came with them."""

    contract: DataContract
    blocks: Callable[[], Iterator[RecordBlock]]
    place: Callable[[int], str]
    """Names a record by its number, such as `line 12`."""
    records: JudgedRecords | None = None
    show: Callable[[int], None] = lambda _records: None

    @property
    def writers(self) -> WriterSchemas | None:
        return None if self.records is None else self.records.writers


@contextmanager
def _opened(
    contract: DataContract, data: str, records: str | None, nulls: tuple[str, ...]
) -> Iterator[_Data]:
    """Open the data: records of a topic with their frames, or a source. Raises SettingsError."""
    if data == "-" and sys.stdin.isatty():
        err.print("reading records from the terminal, one a line; end with Ctrl-D")
    if records in ("sized", "base64"):
        form = RecordForm(records)
        if contract.framing == "confluent-header" and form is RecordForm.SIZED:
            raise SettingsError(
                f"the records of {contract.id} name their schemas in a header, which `sized` leaves out: --records base64 "
                "has it"
            )
        with _framed(Path(data)) as stream:
            yield _Data(
                contract, lambda: record_blocks(stream, form), lambda number: f"{form.noun} {number:,}"
            )
        return
    if data.startswith("kafka:"):
        raise SettingsError(
            "a topic is judged by the job; for some of its records: kcat -C -t TOPIC -e -f '%R%s' | tidegate judge "
            "CONTRACT --records sized"
        )
    kind = None if records is None else FileFormat({"lines": "jsonl"}.get(records, records))
    options = SourceOptions(kind, nulls, default=FileFormat.LINES, at_once=True)
    with open_source(data, options) as source:
        judged = JudgedRecords(source, contract)
        with reading(source) as show:
            yield _Data(judged.contract, judged.blocks, lambda number: source.places((number,)), judged, show)


def _framed(data: Path) -> BinaryIO:
    if str(data) == "-":
        return sys.stdin.buffer
    try:
        return data.open("rb")
    except OSError as error:
        raise SettingsError(f"cannot read {data}: {error.strerror}") from None


def _judge_block(
    plan: EnforcementPlan, schemas: SubjectSchemas | None, block: RecordBlock
) -> tuple[EnforcementPlan, list[Verdict]]:
    """Judge some records; returns the plan that has the schemas which they name, and the verdicts.

    Raises Unavailable when a record names a schema that is not known yet, and no registry answers.
    """
    if schemas is None:
        return plan, _verdicts(plan, block)
    try:
        known = plan.with_writers(schemas.known())
        return known, _verdicts(known, block)
    except Unavailable:
        # The records are there: what the registry does not list now is no schema of theirs.
        current = plan.with_writers(schemas.current())
        return current, _verdicts(current, block)


def _verdicts(plan: EnforcementPlan, block: RecordBlock) -> list[Verdict]:
    headers = None if plan.writers is None else pa.array(block.headers, pa.binary())
    values = pa.array(block.values, pa.large_binary())
    judged = plan.judge(values, headers=headers)
    return list(plan.explain_each(values, headers=headers, failed=judged.field("failed")))


def _explained(
    explainer: Explainer, block: RecordBlock, verdicts: list[Verdict], index: int
) -> tuple[Explanation, ...]:
    return explainer.explain(block.values[index], verdicts[index].violations, block.headers[index])


def _print_json(
    verdicts: list[Verdict],
    explained: Callable[[int], tuple[Explanation, ...]],
    opinions: list[bool | None] | None,
    first: int,
    place: Callable[[int], str],
) -> None:
    for index in range(len(verdicts)):
        answer = {"line": first + index, **_entry(verdicts, explained, first, place, index)}
        if opinions is not None:
            answer["reference_accepts"] = opinions[index]
        sys.stdout.buffer.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


def _entry(
    verdicts: list[Verdict],
    explained: Callable[[int], tuple[Explanation, ...]],
    first: int,
    place: Callable[[int], str],
    index: int,
) -> dict[str, Any]:
    """Return the verdict on one record as JSON; `first` is the number of the first of the verdicts."""
    return {
        "place": place(first + index),
        "disposition": verdicts[index].disposition.name.lower(),
        "violations": [_as_json(each) for each in explained(index)],
    }


def _as_json(explanation: Explanation) -> dict[str, str | None]:
    """Return a violation as it is kept, with what it means beside it."""
    meaning = {
        "sentence": explanation.sentence,
        "description": explanation.description,
        "passes": explanation.passes,
    }
    return {**asdict(explanation.violation), **meaning}


def _print_summary(contract: DataContract, tally: Tally, place: Callable[[int], str]) -> None:
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
        _print_refused(tally, place)


def _print_reasons(tally: Tally) -> None:
    reasons = Table.grid(padding=(0, 2, 0, 0))
    reasons.add_column(style="dim")
    reasons.add_column(style="bold")
    reasons.add_column(justify="right")
    for (stage, code), count in tally.codes.most_common():
        reasons.add_row(f"  {stage}", code, f"{count:,}")
    out.print()
    out.print(reasons)


def _print_refused(tally: Tally, place_of: Callable[[int], str]) -> None:
    shown = [
        (place_of(number), explanation)
        for number, violations in tally.first_refused
        for explanation in violations
    ]
    width = max(len(where) for where, _ in shown)
    pointer_width = max(len(explanation.violation.pointer) for _, explanation in shown)
    indent = " " * (6 + width + pointer_width)
    out.print()
    for where, explanation in shown:
        place = f"{explanation.violation.pointer:<{pointer_width}}"
        code = (explanation.violation.code, "bold")
        out.print(
            Text.assemble(
                f"  {seen(where):<{width}}  ", (place, "cyan"), "  ", code, ": ", explanation.sentence
            )
        )
        for words in (explanation.description, explanation.passes and f"passes with {explanation.passes}"):
            if words:
                out.print(Text(f"{indent}{words}", style="dim"))
    if (more := tally.refused - len(tally.first_refused)) > 0:
        out.print(
            f"  [dim]and {more:,} more refused; --show N shows more of them, --format json every verdict[/]"
        )
