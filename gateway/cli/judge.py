"""`tidegate judge`: the verdict on records, from the one judge that the job uses too."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import orjson
import pyarrow as pa
import typer

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.contracts.explain.account import Explainer, Explanation
from tidegate.contracts.formats.writers import WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.registry_client.subject_schemas import SubjectSchemas
from tidegate.contracts.verdict import Verdict
from tidegate.gateway.cli.judge_report import Findings, report_page
from tidegate.gateway.cli.judge_summary import SecondOpinion, Tally, print_summary
from tidegate.gateway.cli.judged_files import JudgedFiles
from tidegate.gateway.cli.reading import reading
from tidegate.gateway.cli.terminal import err
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
Report = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Write a report for the producer of the records: one page of HTML."
    ),
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
    report: Report = None,
    output_format: AsFormat = "text",
    show: Show = 10,
    reference: Reference = False,
) -> None:
    """Judge records by a contract, as the job does.

    Prints for each refused record the violations, and the values that would
    pass. Values of classified fields are never printed, also not as JSON.

    Reads JSON Lines, JSON arrays, CSV, Parquet and Avro containers, also with
    gzip or zstd, folders and patterns of such files, tables of Delta and
    Iceberg, and iceberg:NAMESPACE.TABLE. Rows are judged as the JSON that they
    stand for; a null is left out where the schema refuses it. Text
    that looks like no format is read by lines: only LF ends one, an empty line
    is an empty record, and the last needs no LF.

    To judge records as they are in the topic, with frames and nulls, use
    --records sized (each record after its length in four bytes, -1 for null) or
    --records base64 (one record a line, - for null; optionally a space and the
    header __value_schema_id). The registry provides the schemas that framed
    records name; without it, their ids are not looked up.

    --accepted and --refused write the records apart, as they were: also values
    of classified fields. Only their owner may read these files.

    --report writes a page to send to the producer of the records: what was
    found by rule and field, what the rules say, and the first places, without
    values of classified fields.

    --reference also validates JSON records without frames by python-jsonschema,
    and compares the verdicts on the schema. A difference is a finding; patterns
    and formats may differ for a reason (docs/explanation/verdicts.md).

    Examples:
      tidegate judge contract.yaml --data records.jsonl
      tidegate judge contract.yaml --data 'trips/2026-*.csv.gz' --null NA
      tidegate judge contract.yaml --data stays.parquet --refused refused.jsonl
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
        files = stack.enter_context(JudgedFiles(accepted, refused, report))
        plan = compile_plan(data_of.contract)
        tally = Tally(limit=show)
        findings = Findings()
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
            if report is not None:
                findings.add(verdicts, explained, partial(_place_at, data_of.place, tally.records + 1))
            tally.add(verdicts, explained)
            data_of.show(tally.records)
        if report is not None:
            now = datetime.now(UTC)
            files.write_report(report_page(plan, data_of.title, tally.dispositions, findings, now))
    if output_format == "text":
        print_summary(plan.contract, tally, data_of.place)
        if second is not None:
            second.print(data_of.place)
    if tally.refused or (second is not None and second.differences):
        raise typer.Exit(ExitCode.FINDINGS)


@dataclass(frozen=True, slots=True)
class _Data:
    """Records to be judged by `contract`; `writers` are the schemas that came with them."""

    contract: DataContract
    title: str
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
        title = "standard input" if data == "-" else Path(data).name
        with _framed(Path(data)) as stream:
            yield _Data(
                contract, title, lambda: record_blocks(stream, form), lambda number: f"{form.noun} {number:,}"
            )
        return
    if data.startswith("kafka:"):
        raise SettingsError(
            "a topic is judged by the job; for some of its records: kcat -C -t TOPIC -e -f '%R%s' | tidegate judge "
            "CONTRACT --records sized"
        )
    if data.startswith("postgresql:"):
        raise SettingsError(
            "judge reads no PostgreSQL table; give it a file: psql -c '\\copy TABLE to FILE csv header'"
        )
    kind = None if records is None else FileFormat({"lines": "jsonl"}.get(records, records))
    options = SourceOptions(kind, nulls, default=FileFormat.LINES, at_once=True)
    with open_source(data, options) as source:
        judged = JudgedRecords(source, contract)
        with reading(source) as show:
            yield _Data(
                judged.contract,
                source.title,
                judged.blocks,
                lambda number: source.places((number,)),
                judged,
                show,
            )


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


def _place_at(place: Callable[[int], str], first: int, index: int) -> str:
    return place(first + index)


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
