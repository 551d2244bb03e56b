"""`tidegate judge`: the verdict on records, from the one judge that the job uses too."""

from __future__ import annotations

import sys
from collections import deque
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
from tidegate.gateway.cli.judge_report import Findings, Totals, report_page
from tidegate.gateway.cli.judge_summary import SecondOpinion, Tally, print_summary
from tidegate.gateway.cli.judged_files import JudgedFiles
from tidegate.gateway.cli.reading import reading
from tidegate.gateway.cli.terminal import err
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.sources.files import FileFormat
from tidegate.gateway.sources.open_source import SourceOptions, open_source
from tidegate.gateway.sources.record_files import RecordBlock, RecordForm, record_blocks
from tidegate.gateway.sources.record_reader import RecordReader
from tidegate.gateway.sources.source import Unreadable

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
    Literal["lines", "json", "csv", "parquet", "avro", "avro-json", "sized", "base64"] | None,
    typer.Option(
        "--records",
        metavar="FORM",
        help="lines, json, csv, parquet, avro, avro-json, sized or base64; without it, the data's beginning or name says it.",
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


AVRO_JSON = "avro-json"
_FORMATS = {"lines": "jsonl", AVRO_JSON: "jsonl"}
"""Forms of records that are called otherwise as formats of files."""


def file_format(form: str | None) -> FileFormat | None:
    """Return the format of a file of records in a form; None for the one that its beginning or name says."""
    return None if form is None else FileFormat(_FORMATS.get(form, form))


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

    Exit codes: 0 no record refused; 1 records refused or unreadable, or the
    contract has problems; 2 usage; 3 the registry does not answer; 7 the
    credentials are rejected.
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
            opinions = None if second is None else second.compare(block, verdicts)
            entry = partial(_entry, block, verdicts, explained, data_of.place)
            if output_format == "json":
                _print_json(block, entry, opinions, data_of.place)
            files.write(judged_by, block, verdicts, entry)
            files.write_unreadable(_unreadable_entry(each, data_of.place) for each in block.unreadable)
            if report is not None:
                findings.add(verdicts, explained, partial(_place_at, data_of.place, block))
            tally.add(verdicts, block.positions, explained)
            tally.add_unreadable(block.unreadable)
            data_of.show(tally.records)
        if report is not None:
            totals = Totals(tally.dispositions, tally.unreadable)
            files.write_report(report_page(plan, data_of.title, totals, findings, datetime.now(UTC)))
    if output_format == "text":
        print_summary(plan.contract, tally, data_of.place)
        if second is not None:
            second.print(data_of.place)
    if tally.refused or tally.unreadable or (second is not None and second.differences):
        raise typer.Exit(ExitCode.FINDINGS)


@dataclass(frozen=True, slots=True)
class _Data:
    """Records to be judged by `contract`; `writers` are the schemas that came with them."""

    contract: DataContract
    title: str
    blocks: Callable[[], Iterator[RecordBlock]]
    place: Callable[[int], str]
    """Names a record by its number, such as `line 12`."""
    records: RecordReader | None = None
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
    block: RecordBlock,
    entry: Callable[[int], dict[str, Any]],
    opinions: list[bool | None] | None,
    place: Callable[[int], str],
) -> None:
    unreadable = deque(block.unreadable)
    for index, position in enumerate(block.positions):
        while unreadable and unreadable[0].position < position:
            _print_line(_unreadable_entry(unreadable.popleft(), place))
        answer = {"line": position, **entry(index)}
        if opinions is not None:
            answer["reference_accepts"] = opinions[index]
        _print_line(answer)
    for each in unreadable:
        _print_line(_unreadable_entry(each, place))
    sys.stdout.buffer.flush()


def _print_line(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))


def _unreadable_entry(each: Unreadable, place: Callable[[int], str]) -> dict[str, Any]:
    """Return what stands for the verdict on a record that cannot be read: no disposition, since no job sees it."""
    return {
        "line": each.position,
        "place": place(each.position),
        "disposition": None,
        "unreadable": {"pointer": each.pointer, "reason": each.reason},
    }


def _place_at(place: Callable[[int], str], block: RecordBlock, index: int) -> str:
    return place(block.positions[index])


def _entry(
    block: RecordBlock,
    verdicts: list[Verdict],
    explained: Callable[[int], tuple[Explanation, ...]],
    place: Callable[[int], str],
    index: int,
) -> dict[str, Any]:
    """Return the verdict on one record as JSON."""
    return {
        "place": place(block.positions[index]),
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
