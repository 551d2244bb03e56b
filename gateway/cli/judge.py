"""`tidegate judge`: judge records with the same code as the job."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal

import orjson
import typer

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.contracts.formats.writers import WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.registry_client.subject_schemas import SubjectSchemas
from tidegate.contracts.verdict import Stage
from tidegate.gateway.checks.backtest import COLUMNS_NOTE
from tidegate.gateway.cli.judge_spark import SparkRequest, judge_on_spark
from tidegate.gateway.cli.judge_summary import SecondOpinion, print_summary
from tidegate.gateway.cli.judged_files import JudgedFiles
from tidegate.gateway.cli.judgement import JudgedBlock, Judgement
from tidegate.gateway.cli.options import AllowEmpty, ContractFile, Nulls
from tidegate.gateway.cli.reading import reading
from tidegate.gateway.cli.terminal import err, out
from tidegate.gateway.cli.workers import Spark, SparkMaster, hint_at_spark, require_spark
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.sources.files import FileFormat
from tidegate.gateway.sources.open_source import SourceOptions, open_source
from tidegate.gateway.sources.record_files import RecordBlock, RecordForm, record_blocks
from tidegate.gateway.sources.record_reader import RecordReader
from tidegate.gateway.sources.source import Unreadable

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
    Literal["lines", "json", "csv", "parquet", "avro", "avro-json", "sized", "base64"] | None,
    typer.Option(
        "--records",
        metavar="FORM",
        help="lines, json, csv, parquet, avro, avro-json, sized or base64; without it, the data's beginning or name says it.",
    ),
]
AcceptedFile = Annotated[
    Path | None,
    typer.Option(
        "--accepted",
        metavar="FILE",
        help="Write accepted records here, unmasked (JSON Lines); with --spark, a folder.",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Write a report for the producer of the records: one page of HTML."
    ),
]
RefusedFile = Annotated[
    Path | None,
    typer.Option(
        "--refused",
        metavar="FILE",
        help="Write refused records and reasons here, unmasked; with --spark, a folder.",
    ),
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


AVRO_JSON = "avro-json"
_LARGE_BYTES = 4 << 30
"""One process judges 60 to 120 MB/s, so this takes about a minute. Spark starts in about ten seconds."""
_FORMATS = {"lines": "jsonl", AVRO_JSON: "jsonl"}
"""Values of --records that differ from the name of their file format."""


def file_format(form: str | None) -> FileFormat | None:
    """Return the file format for a value of --records; None to detect it from the file's first bytes or name."""
    return None if form is None else FileFormat(_FORMATS.get(form, form))


_HELP: Final = """\
Prints for each refused record the violations, and the values that would
pass. A value that does not fit its column is one. The job judges columns for
tables, and for topics if the contract has expectations. Values of classified
fields are never printed, also not as JSON.

Reads JSON Lines, JSON arrays, CSV, Parquet and Avro containers, also with
gzip or zstd, folders and patterns of such files, tables of Delta and
Iceberg, and iceberg:NAMESPACE.TABLE. Rows are judged as the JSON that they
stand for; a null is left out where the schema refuses it. Text
that looks like no format is read by lines: only LF ends one, an empty line
is an empty record, and the last needs no LF.

For an Avro contract, JSON and rows are encoded with its schema: dates as
2026-01-31, unions with or without the name of their branch, bytes in Base64.
--records avro-json reads bytes and decimals as in Avro's own JSON encoding.
Records that cannot be read or encoded are reported with their place.

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

--spark judges the files in Spark, on all processors or on a cluster, with the
same verdicts, places and report. It takes files, folders and patterns that
each executor has under the same path. --accepted and --refused are then
folders, with _SUCCESS in them once they are whole.

--reference also validates JSON records without frames by python-jsonschema,
and compares the verdicts on the schema, without rules and columns. A
difference is a finding; patterns and formats may differ for a reason
(docs/explanation/verdicts.md).

Examples:
  tidegate judge contract.yaml --data records.jsonl
  tidegate judge contract.yaml --data 'trips/2026-*.csv.gz' --null NA
  tidegate judge contract.yaml --data stays.parquet --refused refused.jsonl
  tidegate judge contract.yaml --data /lake/trips --spark --refused bad
  kcat -C -t admissions -e | tidegate judge contract.yaml
  kcat -C -t stays -e -f '%R%s' | tidegate judge stays.yaml --records sized
  tidegate judge contract.yaml --format json < records.jsonl | jq .violations

Exit codes: 0 no record refused; 1 records refused or unreadable, no record
at all, or the contract has problems; 2 usage; 3 the registry does not answer,
or Spark gives the work up; 7 the credentials are rejected.
"""


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
    allow_empty: AllowEmpty = False,
    reference: Reference = False,
    spark: Spark = False,
    spark_master: SparkMaster = None,
) -> None:
    """Judge records by a contract, as the job does."""
    document = lint(contract).contract
    judgement = Judgement.empty(show, has_findings=report is not None)
    nulls, second = tuple(null or ()), None
    if spark:
        _require_spark_can(records, output_format, is_compared=reference)
        options = SourceOptions(file_format(records), nulls, default=FileFormat.LINES)
        request = SparkRequest(data, options, records == AVRO_JSON, accepted, refused, spark_master)
        with JudgedFiles(None, None, report) as files:
            title = judge_on_spark(document, request, judgement)
            files.write_report(document, title, judgement)
    else:
        require_spark(spark_master)
        if output_format == "text" and not reference and records not in ("sized", "base64"):
            options = SourceOptions(file_format(records), nulls, default=FileFormat.LINES)
            hint_at_spark(data, options, _LARGE_BYTES, "judges them on all processors, or on a cluster")
        with (
            _opened(document, data, records, nulls) as data_of,
            JudgedFiles(accepted, refused, report) as files,
        ):
            second = SecondOpinion.on(data_of.contract, show) if reference else None
            for judged in _judged(data_of, registry):
                opinions = None if second is None else second.compare(judged.block, judged.verdicts)
                if output_format == "json":
                    _print_json(judged, opinions)
                files.write(judged)
                judgement.add(judged)
                data_of.show(judgement.tally.records)
            title = data_of.title
            files.write_report(document, title, judgement)
    if output_format == "text":
        print_summary(document, judgement.tally)
        if any(stage is Stage.COLUMN for stage, _, _ in judgement.tally.codes):
            out.print(f"\n  {COLUMNS_NOTE}")
        if second is not None:
            second.print(data_of.place)
    is_empty = not judgement.tally.records and not judgement.tally.unreadable
    if is_empty and not allow_empty:
        err.print(f"no record was judged: {title} has none; --allow-empty takes that for a success")
        raise typer.Exit(ExitCode.FINDINGS)
    if judgement.has_refused or (second is not None and second.differences):
        raise typer.Exit(ExitCode.FINDINGS)


# Typer takes the help of a command from its docstring.
judge.__doc__ = f"{judge.__doc__}\n\n{_HELP}"


def _require_spark_can(records: str | None, output_format: str, *, is_compared: bool) -> None:
    """Raise SettingsError for options that work on one machine only."""
    if records in ("sized", "base64"):
        raise SettingsError(f"--spark reads files of records, and no --records {records}: leave --spark out")
    if output_format == "json":
        raise SettingsError(
            "--spark prints no verdict a line; --refused DIR has the verdicts on refused records"
        )
    if is_compared:
        raise SettingsError("--reference compares on one machine only: leave --spark out")


@dataclass(frozen=True, slots=True)
class _Data:
    """Records to judge by `contract`; `writers` are the schemas of the source, if any."""

    contract: DataContract
    title: str
    blocks: Callable[[], Iterator[RecordBlock]]
    place: Callable[[int], str]
    """Returns the name of a record by its number, such as `line 12`."""
    records: RecordReader | None = None
    show: Callable[[int], None] = lambda _records: None

    @property
    def writers(self) -> WriterSchemas | None:
        return None if self.records is None else self.records.writers


@contextmanager
def _opened(
    contract: DataContract, data: str, records: str | None, nulls: tuple[str, ...]
) -> Iterator[_Data]:
    """Open framed records, or a source. Raises SettingsError."""
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
    options = SourceOptions(file_format(records), nulls, default=FileFormat.LINES, at_once=True)
    with open_source(data, options) as source:
        judged = RecordReader(source, contract, is_avro_json=records == AVRO_JSON)
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


def _judged(data: _Data, registry: str | None) -> Iterator[JudgedBlock]:
    """Judge the records; the registry provides the schemas that framed records name."""
    plan = compile_plan(data.contract)
    with ExitStack() as stack:
        schemas = None
        if registry is not None and plan.needs_writers and data.writers is None:
            schemas = stack.enter_context(RegistryClient(registry)).schemas_of(plan.contract.topic)
        for block in data.blocks():
            yield _judge_block(plan.with_writers(data.writers), schemas, block, data.place)


def _judge_block(
    plan: EnforcementPlan, schemas: SubjectSchemas | None, block: RecordBlock, place: Callable[[int], str]
) -> JudgedBlock:
    """Judge a block of records with the schemas that they name.

    Raises Unavailable if a record names a schema that is not known yet, and the registry does not answer.
    """
    if schemas is None:
        return JudgedBlock.of(plan, block, place)
    try:
        return JudgedBlock.of(plan.with_writers(schemas.known()), block, place)
    except Unavailable:
        # The records exist already, so an id that the registry does not list now is not a schema of theirs.
        return JudgedBlock.of(plan.with_writers(schemas.current()), block, place)


def _print_json(judged: JudgedBlock, opinions: list[bool | None] | None) -> None:
    unreadable = deque(judged.block.unreadable)
    for index, position in enumerate(judged.block.positions):
        while unreadable and unreadable[0].position < position:
            _print_unreadable(judged, unreadable.popleft())
        answer = {"line": position, **judged.entry(index)}
        if opinions is not None:
            answer["reference_accepts"] = opinions[index]
        _print_line(answer)
    for each in unreadable:
        _print_unreadable(judged, each)
    sys.stdout.buffer.flush()


def _print_unreadable(judged: JudgedBlock, each: Unreadable) -> None:
    _print_line({"line": each.position, **judged.unreadable_entry(each)})


def _print_line(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
